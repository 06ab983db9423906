#include "server/store/metadata_db.h"

#include <fcntl.h>
#include <sys/random.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/copy_file.h"
#include "server/store/format.h"
#include "server/store/segment_format.h"

namespace nearfield::store {
namespace {

constexpr char kNewName[] = "catalog.db.new";
constexpr char kLogName[] = "catalog.db-wal";
// Rows of the table of facts: the store, and its incarnation.
constexpr int64_t kStoreFact = 1;
constexpr int64_t kIncarnationFact = 2;
// Maximum links of the chain that are kept.
constexpr int64_t kLinksMax = 1024;

std::string CreateTable(const char* table, const char* columns) {
  return absl::StrCat("CREATE TABLE ", table, "(", columns, ")");
}

absl::Status Insert(Database* database, const char* table, const std::vector<Value>& values) {
  std::string sql = absl::StrCat("INSERT OR REPLACE INTO ", table, " VALUES(?");
  for (size_t i = 1; i < values.size(); ++i) sql += ",?";
  return database->Run(sql + ")", values);
}

absl::StatusOr<std::string> DrawRandomId(const char* what) {
  std::string id(kStoreIdBytes, '\0');
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size())) {
    return SystemError(errno, "getrandom", what);
  }
  return id;
}

// Calls visit(Row()) for each row type, until it returns an error.
template <typename... Rows>
struct EachOf {
  template <typename Visit>
  static absl::Status Call(Visit visit) {
    absl::Status status;
    static_cast<void>((... && (status = visit(Rows())).ok()));
    return status;
  }
};
using EachRowType = RowTypes<EachOf>;

absl::Status Rolled(Database* database, absl::Status status) {
  if (!database->in_transaction()) return status;
  if (database->Rollback().ok()) return status;
  // The changes are neither there nor gone. Without a message: there may be no memory for one.
  return absl::Status(absl::StatusCode::kInternal, "");
}

}  // namespace

absl::Status MetadataDb::Create(const Directory& directory, int64_t created_unix_s) {
  // Make the catalog completely under another name, with a plain journal, then rename it. So a
  // catalog with the final name always has its tables.
  for (const char* const suffix : {"-journal", "-wal", ".copy", ""}) {
    ABSL_RETURN_IF_ERROR(directory.Remove(absl::StrCat(kNewName, suffix)));
  }
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Database> database,
                        Database::Open(directory.PathOf(kNewName), Database::Mode::kCreate));
  ABSL_ASSIGN_OR_RETURN(const std::string store_id, DrawRandomId("store id"));
  ABSL_ASSIGN_OR_RETURN(const std::string incarnation, DrawRandomId("incarnation"));
  CommitRow link = {.id = 1, .kind = static_cast<int64_t>(CommitKind::kCreateStore), .next_id = 1};
  link.state = RowSum().Bytes();
  link.previous = std::string(sizeof(Digest), '\0');
  link.chain = DigestBytes(link.Chain(store_id));
  ABSL_RETURN_IF_ERROR(database->Run("BEGIN"));
  ABSL_RETURN_IF_ERROR(
      database->Run(CreateTable("facts", "id INTEGER PRIMARY KEY, format, store, created_unix_s")));
  ABSL_RETURN_IF_ERROR(database->Run(CreateTable(CommitRow::kTable, CommitRow::kColumns)));
  ABSL_RETURN_IF_ERROR(EachRowType::Call([&]<typename Row>(const Row&) {
    return database->Run(CreateTable(Row::kTable, Row::kColumns));
  }));
  const int64_t format = kCatalogFormat.written;
  ABSL_RETURN_IF_ERROR(
      Insert(database.get(), "facts", {kStoreFact, format, store_id, created_unix_s}));
  ABSL_RETURN_IF_ERROR(
      Insert(database.get(), "facts", {kIncarnationFact, format, incarnation, created_unix_s}));
  ABSL_RETURN_IF_ERROR(Insert(database.get(), CommitRow::kTable, ValuesOf(link)));
  ABSL_RETURN_IF_ERROR(database->Run(absl::StrCat("PRAGMA user_version=", kCatalogFormat.written)));
  ABSL_RETURN_IF_ERROR(database->Run("COMMIT"));
  ABSL_RETURN_IF_ERROR(database->UseLog());
  ABSL_RETURN_IF_ERROR(database->Close());
  // Copy the file, because SQLite does not check whether its sync of the directory succeeded. A
  // name whose sync failed may be lost although later syncs succeed.
  const std::string copy = absl::StrCat(kNewName, ".copy");
  ABSL_RETURN_IF_ERROR(CopyFile(directory, kNewName, {directory, copy}).status());
  ABSL_RETURN_IF_ERROR(directory.Rename(copy, kCatalogName));
  ABSL_RETURN_IF_ERROR(directory.Remove(kNewName));
  return directory.Sync();
}

absl::StatusOr<std::unique_ptr<MetadataDb>> MetadataDb::Open(
    std::shared_ptr<const Directory> directory, Options options) {
  std::unique_ptr<MetadataDb> catalog(new MetadataDb());
  catalog->directory_ = std::move(directory);
  catalog->options_ = options;
  // SQLite does not check whether its sync of the log's directory succeeded. So make the name of
  // the log durable here, before SQLite's first commit (Start) syncs the directory again.
  ABSL_RETURN_IF_ERROR(catalog->directory_->OpenFile(kLogName, O_RDWR | O_CREAT).status());
  ABSL_ASSIGN_OR_RETURN(catalog->high_water_, HighWater::Open(*catalog->directory_));
  ABSL_RETURN_IF_ERROR(catalog->directory_->Sync());
  ABSL_ASSIGN_OR_RETURN(
      catalog->database_,
      Database::Open(catalog->directory_->PathOf(kCatalogName), Database::Mode::kExisting));
  ABSL_RETURN_IF_ERROR(catalog->ReadFacts());
  ABSL_RETURN_IF_ERROR(catalog->ReadChain(&catalog->last_).status());
  ABSL_ASSIGN_OR_RETURN(catalog->tables_, catalog->ReadTables());
  catalog->next_id_ = catalog->last_.next_id;
  const int64_t known = catalog->high_water_found() ? catalog->high_water_->commits() : 0;
  if (known > catalog->last_.id) {
    return absl::DataLossError(absl::StrCat(
        catalog->directory_->PathOf(kCatalogName), ": ends at commit ", catalog->last_.id, ", but ",
        known, " were acknowledged: its log is damaged, or this is an older copy"));
  }
  return catalog;
}

absl::Status MetadataDb::Start() {
  if (high_water_ == nullptr) {
    ABSL_ASSIGN_OR_RETURN(high_water_, HighWater::Create(*directory_));
    ABSL_RETURN_IF_ERROR(directory_->Sync());
  }
  // A commit in the log may not have been synced before its process died. It is part of the state
  // now, so it must be durable: another commit syncs the whole log. On a full disk there is no
  // commit, and the log does not change.
  absl::Status started = Commit({}, {.kind = CommitKind::kStart});
  if (absl::IsResourceExhausted(started)) started = SyncLog();
  ABSL_RETURN_IF_ERROR(started);
  return DrawIncarnation();
}

absl::Status MetadataDb::SyncLog() const {
  const std::string name = absl::StrCat(kCatalogName, "-wal");
  if (!directory_->Has(name)) return absl::OkStatus();
  ABSL_ASSIGN_OR_RETURN(const File log, directory_->OpenFile(name, O_RDWR));
  return log.SyncData();
}

// Directories of earlier versions, and those made from a snapshot, have no incarnation yet. On a
// full disk, the drawn incarnation is valid until the process ends.
absl::Status MetadataDb::DrawIncarnation() {
  if (incarnation_.size() == static_cast<size_t>(kStoreIdBytes)) return absl::OkStatus();
  ABSL_ASSIGN_OR_RETURN(incarnation_, DrawRandomId("incarnation"));
  const absl::Status written =
      Insert(database_.get(), "facts",
             {kIncarnationFact, int64_t{kCatalogFormat.written}, incarnation_, int64_t{0}});
  return absl::IsResourceExhausted(written) ? absl::OkStatus() : written;
}

absl::Status MetadataDb::ForgetIncarnation() {
  return database_->Run("DELETE FROM facts WHERE id=?", {Value(kIncarnationFact)});
}

absl::Status MetadataDb::ReadFacts() {
  const std::string path = directory_->PathOf(kCatalogName);
  int64_t format = 0;
  ABSL_RETURN_IF_ERROR(
      database_->Query("PRAGMA user_version", {}, [&format](const std::vector<Value>& row) {
        if (const int64_t* const value = absl::get_if<int64_t>(&row[0])) format = *value;
        return absl::OkStatus();
      }));
  ABSL_RETURN_IF_ERROR(CheckReadable(kCatalogFormat, format, path));
  ABSL_RETURN_IF_ERROR(database_->Query(
      "SELECT id, format, store FROM facts", {}, [&](const std::vector<Value>& row) {
        const int64_t* const id = absl::get_if<int64_t>(&row[0]);
        const int64_t* const own_format = absl::get_if<int64_t>(&row[1]);
        const std::string* const store = absl::get_if<std::string>(&row[2]);
        if (id == nullptr || own_format == nullptr || store == nullptr) return absl::OkStatus();
        if (*id == kStoreFact && *own_format == format && store_id_.empty()) store_id_ = *store;
        if (*id == kIncarnationFact) incarnation_ = *store;
        return absl::OkStatus();
      }));
  if (store_id_.size() != static_cast<size_t>(kStoreIdBytes)) {
    return absl::DataLossError(absl::StrCat(path, ": the table of facts is damaged"));
  }
  format_ = format;
  return absl::OkStatus();
}

// Adds the tables that later formats have. They are empty, so the sum over all rows stays.
absl::Status MetadataDb::Upgrade() {
  if (format_ == kCatalogFormat.written) return absl::OkStatus();
  absl::Status upgraded = CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(database_->Run("BEGIN IMMEDIATE"));
    ABSL_RETURN_IF_ERROR(EachRowType::Call([&]<typename Row>(const Row&) {
      if (format_ >= Row::kFormat) return absl::OkStatus();
      return database_->Run(CreateTable(Row::kTable, Row::kColumns));
    }));
    for (const std::string& sql : {absl::StrCat("UPDATE facts SET format=", kCatalogFormat.written),
                                   absl::StrCat("PRAGMA user_version=", kCatalogFormat.written)}) {
      ABSL_RETURN_IF_ERROR(database_->Run(sql));
    }
    return database_->Commit();
  });
  if (!upgraded.ok()) return Rolled(database_.get(), std::move(upgraded));
  format_ = kCatalogFormat.written;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MetadataDb::ReadChain(CommitRow* last) {
  int64_t links = 0;
  const absl::Status read = database_->Query(
      "SELECT * FROM commits ORDER BY id", {}, [&](const std::vector<Value>& values) {
        ABSL_ASSIGN_OR_RETURN(CommitRow link, RowFrom<CommitRow>(values));
        const bool follows =
            links == 0 || (link.id == last->id + 1 && link.previous == last->chain);
        if (!follows || link.chain != DigestBytes(link.Chain(store_id_))) {
          return absl::DataLossError(absl::StrCat("commit ", link.id, " breaks the chain"));
        }
        *last = std::move(link);
        ++links;
        return absl::OkStatus();
      });
  if (!read.ok()) return read;
  if (links == 0) return absl::DataLossError("the chain of commits is empty");
  return links;
}

template <typename Row>
absl::Status MetadataDb::ReadTable(Tables* tables, RowSum* sum) {
  std::string columns = absl::StrReplaceAll(Row::kColumns, {{" INTEGER PRIMARY KEY", ""}});
  if constexpr (IsRecord<Row>) columns.resize(columns.rfind(','));  // without the body
  return database_->Query(absl::StrCat("SELECT ", columns, " FROM ", Row::kTable), {},
                          [tables, sum](const std::vector<Value>& values) {
                            ABSL_ASSIGN_OR_RETURN(Row row, RowFrom<Row>(values));
                            sum->Add(RowDigest(Row::kTable, values));
                            const int64_t id = row.id;
                            tables->Of<Row>().insert_or_assign(id, std::move(row));
                            return absl::OkStatus();
                          });
}

absl::StatusOr<Tables> MetadataDb::ReadTables() {
  Tables tables;
  RowSum sum;
  ABSL_RETURN_IF_ERROR(EachRowType::Call([&]<typename Row>(const Row&) {
    return format_ >= Row::kFormat ? ReadTable<Row>(&tables, &sum) : absl::OkStatus();
  }));
  UploadIndex::Change uploads;
  for (const auto& [id, row] : tables.Of<UploadRow>()) uploads.Put(row, tables.CommitNumberOf(id));
  tables.uploads.Apply(std::move(uploads));
  UpdateTokens::Change tokens;
  for (const auto& [id, row] : tables.Of<UpdateTokenRow>()) tokens.Put(row);
  tables.update_tokens.Apply(std::move(tokens));
  for (const auto& [id, row] : tables.Of<PatchRow>()) {
    tables.patch_totals[row.collection].Add(row, 1);
  }
  if (sum.Bytes() != last_.state) {
    return absl::DataLossError(absl::StrCat(directory_->PathOf(kCatalogName),
                                            ": its rows differ from what commit ", last_.id,
                                            " left: it is damaged"));
  }
  return tables;
}

template <typename Row>
absl::Status MetadataDb::Write(const Transaction& transaction, RowSum* sum) {
  const auto subtract_old = [&](int64_t id) {
    const Row* const old = tables_.Find<Row>(id);
    if (old != nullptr) sum->Subtract(RowDigest(Row::kTable, ValuesOf(*old)));
  };
  const auto& edits = std::get<Transaction::Edits<Row>>(transaction.edits_);
  for (const int64_t id : edits.removed) {
    CHECK(!edits.put.contains(id));  // at most one edit for each row
    subtract_old(id);
    ABSL_RETURN_IF_ERROR(
        database_->Run(absl::StrCat("DELETE FROM ", Row::kTable, " WHERE id=?"), {Value(id)}));
    if (database_->changes() != 1) {
      return absl::DataLossError(absl::StrCat("row ", id, " of ", Row::kTable, " is gone"));
    }
  }
  for (const auto& [id, row] : edits.put) {
    CHECK_LT(id, next_id_);
    if constexpr (std::is_same_v<Row, CollectionRow>) row.CheckFollows(tables_.Find<Row>(id));
    subtract_old(id);
    std::vector<Value> values = ValuesOf(row);
    sum->Add(RowDigest(Row::kTable, values));
    if constexpr (IsRecord<Row>) values.emplace_back(transaction.bodies_.at(id));
    ABSL_RETURN_IF_ERROR(Insert(database_.get(), Row::kTable, values));
  }
  return absl::OkStatus();
}

absl::Status MetadataDb::AppendLink(const CommitRow& link) {
  ABSL_RETURN_IF_ERROR(Insert(database_.get(), CommitRow::kTable, ValuesOf(link)));
  return database_->Run("DELETE FROM commits WHERE id<=?", {Value(link.id - kLinksMax)});
}

absl::Status MetadataDb::WriteAll(const Transaction& transaction, CommitRow* link) {
  ABSL_RETURN_IF_ERROR(database_->Run("BEGIN IMMEDIATE"));
  RowSum sum = RowSum::FromBytes(last_.state);
  ABSL_RETURN_IF_ERROR(
      EachRowType::Call([&]<typename Row>(const Row&) { return Write<Row>(transaction, &sum); }));
  link->state = sum.Bytes();
  link->chain = DigestBytes(link->Chain(store_id_));
  ABSL_RETURN_IF_ERROR(AppendLink(*link));
  return database_->Commit();
}

// Returns what the transaction changes in the index of the uploads.
UploadIndex::Change MetadataDb::UploadChange(const Transaction& transaction) const {
  const auto& uploads = std::get<Transaction::Edits<UploadRow>>(transaction.edits_);
  const auto& results = std::get<Transaction::Edits<UploadResultRow>>(transaction.edits_);
  UploadIndex::Change change;
  const auto remove_old = [&](int64_t id) {
    const UploadRow* const old = tables_.Find<UploadRow>(id);
    if (old != nullptr) change.Remove(*old, tables_.CommitNumberOf(id));
  };
  for (const int64_t id : uploads.removed) remove_old(id);
  for (const auto& [id, row] : uploads.put) {
    remove_old(id);
    const auto result = results.put.find(id);
    change.Put(row, result == results.put.end() ? 0 : result->second.commit_number);
  }
  return change;
}

UpdateTokens::Change MetadataDb::TokenChange(const Transaction& transaction) const {
  const auto& tokens = std::get<Transaction::Edits<UpdateTokenRow>>(transaction.edits_);
  UpdateTokens::Change change;
  for (const int64_t id : tokens.removed) change.Remove(*tables_.Find<UpdateTokenRow>(id));
  for (const auto& [id, row] : tokens.put) change.Put(row);
  return change;
}

template <typename Row>
void MetadataDb::Remember(Transaction* transaction) noexcept {
  std::map<int64_t, Row>& rows = tables_.Of<Row>();
  auto& edits = std::get<Transaction::Edits<Row>>(transaction->edits_);
  for (const int64_t id : edits.removed) rows.erase(id);
  for (const auto& [id, row] : edits.put) rows.erase(id);
  rows.merge(edits.put);
  DCHECK(edits.put.empty());
}

void MetadataDb::CountPatches(const Transaction& transaction) noexcept {
  const auto& patches = std::get<Transaction::Edits<PatchRow>>(transaction.edits_);
  for (const int64_t id : patches.removed) {
    const PatchRow& row = *tables_.Find<PatchRow>(id);
    tables_.patch_totals.find(row.collection)->second.Add(row, -1);
  }
  for (const auto& [id, row] : patches.put) {
    tables_.patch_totals.find(row.collection)->second.Add(row, 1);
  }
  std::erase_if(tables_.patch_totals, [](const auto& each) { return each.second.records == 0; });
}

absl::Status MetadataDb::AfterCommit() noexcept {
  ABSL_RETURN_IF_ERROR(high_water_->Raise(last_.id));
  if (database_->log_pages() < options_.log_pages_max) return absl::OkStatus();
  // On a full disk the log stays valid, and grows until there is space.
  const absl::Status moved = database_->Checkpoint();
  return absl::IsResourceExhausted(moved) ? absl::OkStatus() : moved;
}

absl::Status MetadataDb::Commit(Transaction transaction, const CommitNote& note) {
  ABSL_RETURN_IF_ERROR(Upgrade());
  CommitRow link = {.id = last_.id + 1,
                    .kind = static_cast<int64_t>(note.kind),
                    .collection = note.collection,
                    .epoch = note.epoch,
                    .next_id = next_id_,
                    .previous = last_.chain};
  UploadIndex::Change uploads;
  UpdateTokens::Change tokens;
  absl::Status written = CatchOutOfMemory([&] {
    uploads = UploadChange(transaction);
    tokens = TokenChange(transaction);
    const auto& patches = std::get<Transaction::Edits<PatchRow>>(transaction.edits_);
    for (const auto& [id, row] : patches.put) tables_.patch_totals.try_emplace(row.collection);
    return WriteAll(transaction, &link);
  });
  if (!written.ok()) return Rolled(database_.get(), std::move(written));
  tables_.uploads.Apply(std::move(uploads));
  tables_.update_tokens.Apply(std::move(tokens));
  CountPatches(transaction);
  EachRowType::Call([&]<typename Row>(const Row&) {
    Remember<Row>(&transaction);
    return absl::OkStatus();
  }).IgnoreError();
  last_ = std::move(link);
  return AfterCommit();
}

}  // namespace nearfield::store
