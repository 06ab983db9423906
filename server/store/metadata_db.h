// MetadataDb: one SQLite database in which every change of the store is committed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/catalog_rows.h"
#include "server/store/file.h"
#include "server/store/high_water.h"
#include "server/store/sqlite.h"
#include "server/store/update_tokens.h"
#include "server/store/upload_index.h"

namespace nearfield::store {

inline constexpr char kCatalogName[] = "catalog.db";

// All committed rows of all tables, without the bodies of records.
class Tables {
 public:
  template <typename Row>
  const std::map<int64_t, Row>& Of() const {
    return std::get<std::map<int64_t, Row>>(maps_);
  }
  template <typename Row>
  std::map<int64_t, Row>& Of() {
    return std::get<std::map<int64_t, Row>>(maps_);
  }
  template <typename Row>
  const Row* Find(int64_t id) const {
    const auto it = Of<Row>().find(id);
    return it == Of<Row>().end() ? nullptr : &it->second;
  }
  // Returns the number of the commit of an upload; 0: it is open, or was committed in format 1.
  int64_t CommitNumberOf(int64_t upload) const {
    const auto* const result = Find<UploadResultRow>(upload);
    return result == nullptr ? 0 : result->commit_number;
  }

  // The sums of the patch records of one collection.
  struct PatchTotals {
    int64_t records = 0;
    int64_t rows = 0;
    int64_t bytes = 0;

    void Add(const PatchRow& row, int64_t sign) {
      records += sign;
      rows += sign * row.rows;
      bytes += sign * row.bytes;
    }
  };
  PatchTotals PatchTotalsOf(int64_t collection) const {
    const auto found = patch_totals.find(collection);
    return found == patch_totals.end() ? PatchTotals() : found->second;
  }

  UploadIndex uploads;
  UpdateTokens update_tokens;
  std::map<int64_t, PatchTotals> patch_totals;

 private:
  template <typename... Rows>
  using Maps = std::tuple<std::map<int64_t, Rows>...>;
  RowTypes<Maps> maps_;
};

// Edits that are committed atomically. At most one edit for each row.
class Transaction {
 public:
  // Adds the row, or replaces the row with its id.
  template <typename Row>
  void Put(Row row) {
    const int64_t id = row.id;
    std::get<Edits<Row>>(edits_).put.insert_or_assign(id, std::move(row));
  }
  // Requires: the row exists.
  template <typename Row>
  void Remove(int64_t id) {
    std::get<Edits<Row>>(edits_).removed.insert(id);
  }
  // As Put, for a record with its body, whose digest it computes.
  template <typename Row>
  void PutRecord(Row row, std::string&& body) {
    row.digest = DigestBytes(Sha256().Add(body).Value());
    bodies_[row.id] = std::move(body);
    Put(std::move(row));
  }

  int64_t body_bytes() const {  // of records
    int64_t bytes = 0;
    for (const auto& [id, body] : bodies_) bytes += static_cast<int64_t>(body.size());
    return bytes;
  }

  bool empty() const {
    return std::apply(
        [](const auto&... edits) { return ((edits.put.empty() && edits.removed.empty()) && ...); },
        edits_);
  }

 private:
  friend class MetadataDb;
  // The nodes of `put` become nodes of Tables, so that nothing is allocated after a commit.
  template <typename Row>
  struct Edits {
    std::map<int64_t, Row> put;
    std::set<int64_t> removed;
  };
  template <typename... Rows>
  using EditsOf = std::tuple<Edits<Rows>...>;
  RowTypes<EditsOf> edits_;
  std::map<int64_t, std::string> bodies_;  // of records
};

// The kind of a transaction, for the chain of commits.
enum class CommitKind : uint8_t {
  kCreateStore = 1,
  kStart,
  kCreateCollection,
  kDropCollection,
  kAlias,
  kBeginUpload,
  kCheckpoint,
  kCommitUpload,
  kEndUpload,
  kDelete,
  kCompact,
  kUpdate,
  kSchema,
};
struct CommitNote {
  CommitKind kind = CommitKind::kCreateStore;
  int64_t collection = 0;
  int64_t epoch = 0;
};

// Not thread-safe: the store calls it with its lock held.
class MetadataDb {
 public:
  struct Options {
    int64_t log_pages_max = 1000;  // pages of the write-ahead log before a checkpoint
  };

  // Makes an empty catalog, durably. Requires: the directory holds none.
  static absl::Status Create(const Directory& directory, int64_t created_unix_s);
  // Reads every table, and checks it against the chain of commits and the high-water mark. Writes
  // nothing that affects a later Open, so a directory that was refused is refused again. Errors:
  // DataLoss (damaged, or older than acknowledged commits), FailedPrecondition (a newer format, in
  // use), and I/O errors.
  static absl::StatusOr<std::unique_ptr<MetadataDb>> Open(
      std::shared_ptr<const Directory> directory, Options options);
  // Makes the commits that Open found durable, and upgrades an earlier format. On a full disk, the
  // first commit that finds space does it. Call it once, after Open and before all other changes.
  absl::Status Start();

  const std::string& store_id() const { return store_id_; }
  // Returns a random number of kStoreIdBytes bytes. It differs in every directory that is made from
  // a snapshot.
  const std::string& directory_incarnation() const { return incarnation_; }
  const Tables& tables() const { return tables_; }
  int64_t commits_count() const { return last_.id; }
  // Returns whether there is a high-water mark. After Start there always is one.
  bool high_water_found() const { return high_water_ != nullptr; }

  // Returns a number that was never used for a collection, segment or record.
  int64_t AllocateId() { return next_id_++; }
  // Marks a number as used by a file that the catalog does not know.
  void SkipId(int64_t id) { next_id_ = std::max(next_id_, id + 1); }

  // Commits, durably. Errors: ResourceExhausted (the disk or the host's memory is full; nothing
  // changed). After any other error the state on the disk is unknown, and the process must end.
  absl::Status Commit(Transaction transaction, const CommitNote& note);

  // Returns the verified body of a record. Errors: DataLoss (names the record).
  template <typename Row>
  absl::StatusOr<std::string> ReadBody(const Row& row) {
    return ReadBodyOf(Row::kTable, Row::kBody, row.id, row.digest);
  }

  // Removes the incarnation, so that the next Open draws a new one. For a catalog of a snapshot.
  absl::Status ForgetIncarnation();
  // Begins to copy the database to a new file.
  absl::StatusOr<std::unique_ptr<DatabaseCopy>> StartCopy(const std::string& path) const {
    return DatabaseCopy::Begin(*database_, path);
  }
  // Reads and checks everything again. Returns the number of checked links of the chain.
  absl::StatusOr<int64_t> Audit();
  // Removes the log, so that the database is a single file.
  absl::Status Close() { return database_->Close(); }

 private:
  MetadataDb() = default;
  absl::Status ReadFacts();
  absl::Status Upgrade();
  // Makes what is in the log durable, without a commit.
  absl::Status SyncLog() const;
  absl::Status DrawIncarnation();
  absl::StatusOr<std::string> ReadBodyOf(const char* table, const char* column, int64_t id,
                                         const std::string& digest);
  template <typename Row>
  absl::Status ReadTable(Tables* tables, RowSum* sum);
  absl::StatusOr<Tables> ReadTables();
  absl::StatusOr<int64_t> ReadChain(CommitRow* last);
  template <typename Row>
  absl::Status Write(const Transaction& transaction, RowSum* sum);
  absl::Status WriteAll(const Transaction& transaction, CommitRow* link);
  UploadIndex::Change UploadChange(const Transaction& transaction) const;
  UpdateTokens::Change TokenChange(const Transaction& transaction) const;
  // Applies the transaction's patch records to their sums, which exist.
  void CountPatches(const Transaction& transaction) noexcept;
  // Applies a durable commit to the tables. Does not allocate, because it must not fail.
  template <typename Row>
  void Remember(Transaction* transaction) noexcept;
  absl::Status AfterCommit() noexcept;
  absl::Status AppendLink(const CommitRow& link);

  std::shared_ptr<const Directory> directory_;
  Options options_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<HighWater> high_water_;
  std::string store_id_;
  std::string incarnation_;
  Tables tables_;
  CommitRow last_;
  int64_t format_ = 0;  // of the database on the disk
  int64_t next_id_ = 1;
};

}  // namespace nearfield::store
