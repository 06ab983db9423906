// The catalogue: one SQLite database, the only place where anything is committed.
#ifndef NEARFIELD_SERVER_STORE_CATALOGUE_H_
#define NEARFIELD_SERVER_STORE_CATALOGUE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/catalogue_rows.h"
#include "server/store/file.h"
#include "server/store/high_water.h"
#include "server/store/sqlite.h"

namespace nearfield::store {

inline constexpr char kCatalogueName[] = "catalog.db";

// Whether a name in a data directory is the catalogue's: the database, its log, one being made.
bool IsCatalogueFile(const std::string& name);

// Every row of every table (of deletions all but the ids), as committed.
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

 private:
  std::tuple<std::map<int64_t, CollectionRow>, std::map<int64_t, AliasRow>,
             std::map<int64_t, SegmentRow>, std::map<int64_t, DeletionRow>,
             std::map<int64_t, UploadRow>, std::map<int64_t, UploadResultRow>>
      maps_;
};

// Edits that are committed together or not at all. At most one edit a row.
class Transaction {
 public:
  // Adds the row or takes the place of the one with its id.
  template <typename Row>
  void Put(Row row) {
    const int64_t id = row.id;
    std::get<Edits<Row>>(edits_).put.insert_or_assign(id, std::move(row));
  }
  // The row must be there.
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
  friend class Catalogue;
  // The nodes of `put` become those of Tables, so that nothing is allocated after a commit.
  template <typename Row>
  struct Edits {
    std::map<int64_t, Row> put;
    std::set<int64_t> removed;
  };
  std::tuple<Edits<CollectionRow>, Edits<AliasRow>, Edits<SegmentRow>, Edits<DeletionRow>,
             Edits<UploadRow>, Edits<UploadResultRow>>
      edits_;
  std::map<int64_t, std::string> deletion_ids_;
};

// What a transaction was, for the chain of commits.
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

// Not thread-safe: the store holds its lock.
class Catalogue {
 public:
  struct Options {
    int64_t log_pages_max = 1000;  // of the write-ahead log, before it is moved into the database
  };

  // Makes an empty catalogue, durably. The directory must hold none.
  static absl::Status Create(const Directory& directory, int64_t created_unix_s);
  // Reads every table, and checks it against the chain of commits and the high-water mark. Changes
  // nothing that a later Open would check: a directory that is refused stays refused. Errors:
  // DataLoss (damaged, or older than commits that were acknowledged), FailedPrecondition (a newer
  // format, in use), and I/O errors.
  static absl::StatusOr<std::unique_ptr<Catalogue>> Open(std::shared_ptr<const Directory> directory,
                                                         Options options);
  // Makes what Open found last, and brings an earlier format up to date; on a full disk the first
  // commit with room does. Once, after Open and before all other calls that change something.
  absl::Status Start();

  const std::string& store_id() const { return store_id_; }
  // A random number of kStoreIdBytes bytes: another one in every directory made from a snapshot.
  const std::string& incarnation() const { return incarnation_; }
  const Tables& tables() const { return tables_; }
  int64_t commits_count() const { return last_.id; }
  // Reports whether there is a high-water mark; after Start there always is.
  bool high_water_found() const { return high_water_ != nullptr; }

  // A number never used before for a collection, segment or record.
  int64_t AllocateId() { return next_id_++; }
  // The number was used by a file that the catalogue does not know.
  void SkipId(int64_t id) { next_id_ = std::max(next_id_, id + 1); }

  // Commits, durably. ResourceExhausted: the disk or the host's memory is full, nothing changed.
  // Any other error: the state on the disk is unknown, and the process must end.
  absl::Status Commit(Transaction transaction, const CommitNote& note);

  // The ids of a deletion record, verified. Errors: DataLoss naming the record.
  absl::StatusOr<std::string> ReadDeletedIds(const DeletionRow& row);

  // The next Open draws a new incarnation: for a catalogue that becomes part of a snapshot.
  absl::Status ForgetIncarnation();
  // A copy of the database in a new file, not yet synced.
  absl::Status CopyTo(const std::string& path);
  // Reads everything once more. Returns how many links of the chain were checked.
  absl::StatusOr<int64_t> Audit();
  // Takes the log away, so that the database stands alone.
  absl::Status Close() { return database_->Close(); }

 private:
  Catalogue() = default;
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
  // The tables after a commit. Allocates nothing: a commit that is durable cannot fail any more.
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
  int64_t format_ = 0;  // on the disk
  int64_t next_id_ = 1;
};

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_CATALOGUE_H_
