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
#include "server/store/upload_index.h"

namespace nearfield::store {

inline constexpr char kCatalogName[] = "catalog.db";

// All committed rows of all tables, except the ids of deletions.
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

  UploadIndex uploads;

 private:
  std::tuple<std::map<int64_t, CollectionRow>, std::map<int64_t, AliasRow>,
             std::map<int64_t, SegmentRow>, std::map<int64_t, DeletionRow>,
             std::map<int64_t, UploadRow>, std::map<int64_t, UploadResultRow>,
             std::map<int64_t, OwnerRow>, std::map<int64_t, DevicesRow>,
             std::map<int64_t, EmbeddingModelRow>>
      maps_;
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
  // Computes the digest of the ids.
  void PutDeletion(DeletionRow row, std::string ids);

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
  std::tuple<Edits<CollectionRow>, Edits<AliasRow>, Edits<SegmentRow>, Edits<DeletionRow>,
             Edits<UploadRow>, Edits<UploadResultRow>, Edits<OwnerRow>, Edits<DevicesRow>,
             Edits<EmbeddingModelRow>>
      edits_;
  std::map<int64_t, std::string> deletion_ids_;
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

  // Returns the verified ids of a deletion record. Errors: DataLoss (names the record).
  absl::StatusOr<std::string> ReadDeletedIds(const DeletionRow& row);

  // Removes the incarnation, so that the next Open draws a new one. For a catalog of a snapshot.
  absl::Status ForgetIncarnation();
  // Copies the database to a new file, without a sync.
  absl::Status CopyTo(const std::string& path);
  // Reads and checks everything again. Returns the number of checked links of the chain.
  absl::StatusOr<int64_t> Audit();
  // Removes the log, so that the database is a single file.
  absl::Status Close() { return database_->Close(); }

 private:
  MetadataDb() = default;
  absl::Status ReadFacts();
  absl::Status Upgrade();
  absl::Status DrawIncarnation();
  template <typename Row>
  absl::Status ReadTable(const char* columns, Tables* tables, RowSum* sum);
  absl::StatusOr<Tables> ReadTables();
  absl::StatusOr<int64_t> ReadChain(CommitRow* last);
  template <typename Row>
  absl::Status Write(const Transaction& transaction, RowSum* sum);
  absl::Status WriteAll(const Transaction& transaction, CommitRow* link);
  UploadIndex::Change UploadChange(const Transaction& transaction) const;
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
