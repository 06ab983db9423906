#include "server/store/store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/check_range.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/orphans.h"
#include "server/store/segment_reader.h"
#include "server/store/store_core.h"

namespace nearfield::store {
namespace {

absl::Status CheckBytes(const char* field, const std::string& value, int64_t min, int64_t max) {
  const auto bytes = static_cast<int64_t>(value.size());
  if (bytes >= min && bytes <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " = ", bytes, " bytes, must be ", min, " .. ", max));
}

// Opens and locks the directory, and makes a catalog if there is none.
absl::StatusOr<std::shared_ptr<const Directory>> TakeDirectory(const StoreCore& core) {
  ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const Directory> directory,
                        Directory::OpenOrMake(core.options.dir));
  ABSL_RETURN_IF_ERROR(directory->Lock());
  if (directory->Has(kCatalogName)) return directory;
  ABSL_ASSIGN_OR_RETURN(const std::vector<std::string> names, directory->Names());
  for (const std::string& name : names) {
    if (SegmentOfFileName(name).has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(core.options.dir, ": holds the segment ", name, " but no ", kCatalogName,
                       ": the catalog is missing, and a new one would know no rows"));
    }
  }
  ABSL_RETURN_IF_ERROR(SyncParent(core.options.dir));
  ABSL_RETURN_IF_ERROR(directory->Remove(kHighWaterName));
  ABSL_RETURN_IF_ERROR(MetadataDb::Create(*directory, core.Now()));
  return directory;
}

// The file of an open upload. CutUploads truncates it to its durable bytes.
struct OpenFile {
  int64_t segment = 0;
  int64_t bytes_durable = 0;
};

// Checks the header and size of every segment; changes no file. Records the collection of a damaged
// segment as unreadable; other collections are not affected. Returns the open uploads that can be
// resumed.
absl::StatusOr<std::vector<OpenFile>> CheckFiles(StoreCore* core)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core->mutex) {
  // An error that refuses the start: it does not concern the file, or a newer build wrote the file.
  const auto refuses = [](const absl::Status& status) {
    return absl::IsResourceExhausted(status) || absl::IsFailedPrecondition(status);
  };
  for (const auto& [id, segment] : core->segments) {
    absl::Status status =
        SegmentReader::Open(*core->directory, segment->identity(), segment->row().bytes,
                            /*may_be_longer=*/false)
            .status();
    if (refuses(status)) return status;
    if (!status.ok()) {
      core->damaged.emplace(segment->row().collection, absl::DataLossError(status.message()));
    }
  }
  std::vector<OpenFile> uploads;
  for (const int64_t id : core->catalog->tables().uploads.open()) {
    const UploadRow& upload = *core->catalog->tables().Find<UploadRow>(id);
    ABSL_ASSIGN_OR_RETURN(const CollectionRow collection, core->Find(upload.collection));
    absl::Status status = SegmentReader::Open(*core->directory, core->Identity(collection, id),
                                              upload.bytes_durable, /*may_be_longer=*/true)
                              .status();
    if (refuses(status)) return status;
    // ResumeUpload reports any other error.
    if (status.ok()) uploads.push_back({.segment = id, .bytes_durable = upload.bytes_durable});
  }
  return uploads;
}

absl::Status CutUploads(const StoreCore& core, const std::vector<OpenFile>& uploads) {
  for (const OpenFile& upload : uploads) {
    ABSL_ASSIGN_OR_RETURN(const File file,
                          core.directory->OpenFile(SegmentFileName(upload.segment), O_RDWR));
    ABSL_RETURN_IF_ERROR(file.Truncate(upload.bytes_durable));
  }
  return absl::OkStatus();
}

// Checks that all references between rows are valid, as this program always writes them.
absl::Status CheckTables(const StoreCore& core) ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  const Tables& tables = core.catalog->tables();
  const auto name_collections = [&tables](const auto& rows) {
    return std::all_of(rows.begin(), rows.end(), [&tables](const auto& row) {
      return tables.Find<CollectionRow>(row.second.collection) != nullptr;
    });
  };
  const auto& results = tables.Of<UploadResultRow>();
  if (name_collections(tables.Of<SegmentRow>()) && name_collections(tables.Of<UploadRow>()) &&
      name_collections(tables.Of<AliasRow>()) &&
      std::all_of(results.begin(), results.end(), [&tables](const auto& row) {
        return tables.Find<UploadRow>(row.first) != nullptr;
      })) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(core.directory->PathOf(kCatalogName), ": a row names no collection"));
}

bool NameTaken(const Tables& tables, const std::string& name) {
  const auto& collections = tables.Of<CollectionRow>();
  return std::any_of(collections.begin(), collections.end(),
                     [&name](const auto& row) { return row.second.name == name; });
}

const AliasRow* FindAlias(const Tables& tables, const std::string& alias) {
  for (const auto& [id, row] : tables.Of<AliasRow>()) {
    if (row.alias == alias) return &row;
  }
  return nullptr;
}

// Removes the row with this id, if the table has one.
template <typename Row>
void RemoveFrom(const Tables& tables, int64_t id, Transaction* transaction) {
  if (tables.Find<Row>(id) != nullptr) transaction->Remove<Row>(id);
}

}  // namespace

Store::Store(std::shared_ptr<StoreCore> core) : core_(std::move(core)) {}

Store::~Store() {
  const MutexLock lock(core_->mutex);
  if (core_->failed.load()) return;
  // The log is valid as it is; removing it makes the catalog a single file.
  core_->Survive(core_->catalog->Close()).IgnoreError();
  core_->failed.store(true);
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(StoreOptions options) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<std::unique_ptr<Store>> {
    auto core = std::make_shared<StoreCore>();
    core->options = std::move(options);
    ABSL_ASSIGN_OR_RETURN(core->directory, TakeDirectory(*core));
    const MutexLock lock(core->mutex);
    ABSL_ASSIGN_OR_RETURN(
        core->catalog,
        MetadataDb::Open(core->directory, {.log_pages_max = core->options.log_pages_max}));
    ABSL_RETURN_IF_ERROR(CheckTables(*core));
    SegmentChange found;
    for (const auto& [id, row] : core->catalog->tables().Of<SegmentRow>()) {
      ABSL_ASSIGN_OR_RETURN(const CollectionRow collection, core->Find(row.collection));
      core->Add(collection, row, &found);
    }
    core->Apply(std::move(found));
    core->opened_s = core->SteadyNow();
    core->commits_opened = core->catalog->commits_count();
    // Make all checks that refuse the directory before the first change, so that it stays refused.
    ABSL_ASSIGN_OR_RETURN(const std::vector<Orphan> orphans, FindOrphans(*core));
    ABSL_ASSIGN_OR_RETURN(const std::vector<OpenFile> uploads, CheckFiles(core.get()));
    ABSL_RETURN_IF_ERROR(core->catalog->Start());
    ABSL_RETURN_IF_ERROR(ClearOrphans(orphans, core.get()));
    ABSL_RETURN_IF_ERROR(CutUploads(*core, uploads));
    return std::unique_ptr<Store>(new Store(std::move(core)));
  });
}

const OrphanReport& Store::orphans() const { return core_->orphans; }

bool Store::IsIn(const std::string& dir) {
  const auto directory = Directory::Open(dir);
  return directory.ok() && (*directory)->Has(kCatalogName);
}

uint64_t Store::IncarnationOf(int64_t collection_id) const {
  const MutexLock lock(core_->mutex);
  return core_->IncarnationOf(collection_id);
}

std::vector<StoredCollection> Store::Collections() const {
  const MutexLock lock(core_->mutex);
  const Tables& tables = core_->catalog->tables();
  std::vector<StoredCollection> collections;
  for (const auto& [id, row] : tables.Of<CollectionRow>()) {
    StoredCollection collection = {.id = id,
                                   .name = row.name,
                                   .spec = row.spec,
                                   .scan_removed = row.scan_removed,
                                   .attribute_schema = row.schema,
                                   .epoch = static_cast<uint64_t>(row.epoch),
                                   .rows_count = row.rows_live,
                                   .created_unix_s = row.created_unix_s};
    if (const OwnerRow* const owner = tables.Find<OwnerRow>(id)) {
      collection.owner = owner->principal;
    }
    if (const DevicesRow* const count = tables.Find<DevicesRow>(id)) {
      collection.spec.devices = static_cast<int32_t>(count->devices);
    }
    if (const EmbeddingModelRow* const named = tables.Find<EmbeddingModelRow>(id)) {
      collection.spec.embedding_model = named->model;
    }
    for (const auto& [alias_id, alias] : tables.Of<AliasRow>()) {
      if (alias.collection != id) continue;
      collection.aliases.push_back(alias.alias);
      const OwnerRow* const owner = tables.Find<OwnerRow>(alias_id);
      if (owner != nullptr) collection.alias_owners[alias.alias] = owner->principal;
    }
    std::sort(collection.aliases.begin(), collection.aliases.end());
    collection.patch_bytes = tables.PatchTotalsOf(id).bytes;
    for (const auto& [segment_id, segment] : tables.Of<SegmentRow>()) {
      if (segment.collection != id) continue;
      collection.rows_stored += segment.rows;
      collection.bytes += segment.bytes;
      collection.segments_count += 1;
    }
    collections.push_back(std::move(collection));
  }
  return collections;
}

int64_t Store::DiskBytes(int64_t collection_id) const {
  const MutexLock lock(core_->mutex);
  const Tables& tables = core_->catalog->tables();
  int64_t bytes = tables.PatchTotalsOf(collection_id).bytes;
  for (const auto& [id, segment] : tables.Of<SegmentRow>()) {
    if (segment.collection == collection_id) bytes += segment.bytes;
  }
  for (const int64_t id : tables.uploads.open()) {
    const UploadRow& upload = *tables.Find<UploadRow>(id);
    if (upload.collection == collection_id && core_->writers.count(id) == 0) {
      bytes += upload.bytes_durable;
    }
  }
  return bytes;
}

absl::StatusOr<int64_t> Store::CreateCollection(const std::string& name, const CollectionSpec& spec,
                                                const std::string& attribute_schema,
                                                uint64_t* incarnation, const std::string& owner) {
  return CatchOutOfMemory([&]() -> absl::StatusOr<int64_t> {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    ABSL_RETURN_IF_ERROR(CheckBytes("name", name, 1, kNameBytesMax));
    ABSL_RETURN_IF_ERROR(CheckBytes("attribute_schema", attribute_schema, 0, kSchemaBytesMax));
    ABSL_RETURN_IF_ERROR(CheckRange("dim", spec.dim, 1, kDimMax));
    const MutexLock lock(core_->mutex);
    const Tables& tables = core_->catalog->tables();
    if (NameTaken(tables, name) || FindAlias(tables, name) != nullptr) {
      return absl::AlreadyExistsError("name: a collection or alias of this name exists already");
    }
    CollectionRow row = {.id = core_->catalog->AllocateId(),
                         .name = name,
                         .spec = spec,
                         .schema = attribute_schema,
                         .created_unix_s = core_->Now()};
    const int64_t id = row.id;
    if (incarnation != nullptr) *incarnation = core_->IncarnationOf(id);
    Transaction transaction;
    transaction.Put(std::move(row));
    if (!owner.empty()) transaction.Put(OwnerRow{.id = id, .principal = owner});
    if (spec.devices > 0) transaction.Put(DevicesRow{.id = id, .devices = spec.devices});
    if (!spec.embedding_model.empty()) {
      transaction.Put(EmbeddingModelRow{.id = id, .model = spec.embedding_model});
    }
    ABSL_RETURN_IF_ERROR(core_->Commit(std::move(transaction),
                                       {.kind = CommitKind::kCreateCollection, .collection = id}));
    return id;
  });
}

absl::Status Store::DropCollection(int64_t collection_id) {
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    const MutexLock lock(core_->mutex);
    ABSL_RETURN_IF_ERROR(core_->Find(collection_id).status());
    const Tables& tables = core_->catalog->tables();
    Transaction transaction;
    transaction.Remove<CollectionRow>(collection_id);
    RemoveFrom<OwnerRow>(tables, collection_id, &transaction);
    RemoveFrom<DevicesRow>(tables, collection_id, &transaction);
    RemoveFrom<EmbeddingModelRow>(tables, collection_id, &transaction);
    for (const auto& [id, row] : tables.Of<AliasRow>()) {
      if (row.collection != collection_id) continue;
      transaction.Remove<AliasRow>(id);
      RemoveFrom<OwnerRow>(tables, id, &transaction);
    }
    for (const auto& [id, row] : tables.Of<UpdateTokenRow>()) {
      if (row.collection == collection_id) transaction.Remove<UpdateTokenRow>(id);
    }
    SegmentChange change;
    core_->RemoveRows(collection_id, &transaction, &change);
    std::vector<std::string> uploads;  // file names
    for (const auto& [id, row] : tables.Of<UploadRow>()) {
      if (row.collection != collection_id) continue;
      core_->RemoveUpload(id, &transaction);
      if (row.state == UploadState::kOpen && core_->writers.count(id) == 0) {
        uploads.push_back(SegmentFileName(id));
      }
    }
    ABSL_RETURN_IF_ERROR(core_->Commit(
        std::move(transaction), {.kind = CommitKind::kDropCollection, .collection = collection_id},
        std::move(change)));
    core_->damaged.erase(collection_id);
    {
      const MutexLock read_lock(core_->read_mutex);
      core_->read_failures.erase(collection_id);
    }
    for (const std::string& name : uploads) core_->RemoveFile(name);
    return absl::OkStatus();
  });
}

absl::Status Store::SetAlias(const std::string& alias, int64_t collection_id,
                             const std::string& owner) {
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    ABSL_RETURN_IF_ERROR(CheckBytes("alias", alias, 1, kNameBytesMax));
    const MutexLock lock(core_->mutex);
    ABSL_RETURN_IF_ERROR(core_->Find(collection_id).status());
    const Tables& tables = core_->catalog->tables();
    if (NameTaken(tables, alias)) {
      return absl::AlreadyExistsError("alias: a collection of this name exists already");
    }
    const AliasRow* const old = FindAlias(tables, alias);
    const int64_t id = old != nullptr ? old->id : core_->catalog->AllocateId();
    Transaction transaction;
    transaction.Put(AliasRow{.id = id, .alias = alias, .collection = collection_id});
    if (old == nullptr && !owner.empty()) transaction.Put(OwnerRow{.id = id, .principal = owner});
    return core_->Commit(std::move(transaction),
                         {.kind = CommitKind::kAlias, .collection = collection_id});
  });
}

absl::Status Store::DropAlias(const std::string& alias) {
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    const MutexLock lock(core_->mutex);
    const AliasRow* const row = FindAlias(core_->catalog->tables(), alias);
    if (row == nullptr) return absl::NotFoundError("no such alias");
    const CommitNote note = {.kind = CommitKind::kAlias, .collection = row->collection};
    Transaction transaction;
    transaction.Remove<AliasRow>(row->id);
    RemoveFrom<OwnerRow>(core_->catalog->tables(), row->id, &transaction);
    return core_->Commit(std::move(transaction), note);
  });
}

absl::Status Store::CommitDelete(int64_t collection_id, uint64_t epoch, const IdColumn& ids) {
  ABSL_RETURN_IF_ERROR(core_->Usable());
  const MutexLock lock(core_->mutex);
  ABSL_ASSIGN_OR_RETURN(CollectionRow collection, core_->FindSound(collection_id));
  if (ids.type() != collection.spec.id_type) {
    return absl::InvalidArgumentError("ids: of another type than the collection's");
  }
  if (ids.empty() || ids.size() > collection.rows_live) {
    return absl::InvalidArgumentError(absl::StrCat("ids = ", ids.size(), ", must be 1 .. ",
                                                   collection.rows_live, ", the live rows"));
  }
  if (static_cast<int64_t>(epoch) != collection.epoch + 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch: ", epoch, " cannot follow the collection's epoch ", collection.epoch));
  }
  return CatchOutOfMemory([&]() -> absl::Status {
    core_->AssertLocked();
    Transaction transaction;
    collection.epoch += 1;
    collection.rows_live -= ids.size();
    core_->PutDeletions(collection_id, collection.epoch, ids, &transaction);
    const CommitNote note = {
        .kind = CommitKind::kDelete, .collection = collection_id, .epoch = collection.epoch};
    transaction.Put(std::move(collection));
    ABSL_RETURN_IF_ERROR(core_->Commit(std::move(transaction), note));
    DCHECK(core_->SegmentsAgree(collection_id));
    return absl::OkStatus();
  });
}

}  // namespace nearfield::store
