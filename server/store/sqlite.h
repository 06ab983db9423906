// Database: a thin wrapper of one SQLite connection, with errors as absl::Status.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "absl/types/variant.h"

struct sqlite3;
struct sqlite3_backup;
struct sqlite3_stmt;

namespace nearfield::store {

// INTEGER or BLOB. Not std::variant: if a copy of a string runs out of memory, libstdc++ 12
// destroys the copy that was never made.
using Value = absl::variant<int64_t, std::string>;

// Not thread-safe.
//   Errors of every call: ResourceExhausted (the disk or the host's memory is full, or no
//   descriptor is free: the statement had no effect), DataLoss (the file is damaged or cannot be
//   read), FailedPrecondition (another program holds it), else Internal.
class Database {
 public:
  enum class Mode { kExisting, kCreate };

  // Opens a connection with exclusive locking, without memory mapping, in WAL mode with
  // synchronous=FULL. Checkpoints happen only in Checkpoint(), because SQLite ignores the errors of
  // its automatic ones.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs one statement with ?-parameters. The prepared statement is kept.
  absl::Status Run(const std::string& sql, absl::Span<const Value> values = {});
  using RowSink = std::function<absl::Status(std::vector<Value> row)>;
  absl::Status Query(const std::string& sql, absl::Span<const Value> values, const RowSink& sink);
  // Commits a transaction. Internal if memory ran out: SQLite may have written the log already.
  absl::Status Commit();
  // Makes no allocation of its own, so that it works after memory ran out.
  absl::Status Rollback();
  // Returns the number of rows that the last Run changed.
  int64_t changes() const;

  bool in_transaction() const;

  // Returns the pages in the write-ahead log after the last commit.
  int64_t log_pages() const { return log_pages_; }
  // Moves the log's pages into the database file, durably.
  absl::Status Checkpoint();
  // Switches a database made with kCreate to the write-ahead log.
  absl::Status UseLog();
  // Removes the log, so that the database is a single file.
  absl::Status Close();

 private:
  friend class DatabaseCopy;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };

  explicit Database(std::string path) : path_(std::move(path)) {}
  absl::Status Configure(Mode mode);
  absl::Status SetJournal(const std::string& mode);
  absl::StatusOr<sqlite3_stmt*> Prepare(const std::string& sql, absl::Span<const Value> values);
  absl::Status Error(int code, const std::string& what) const;
  absl::StatusOr<std::vector<Value>> Row(sqlite3_stmt* statement) const;

  std::string path_;
  sqlite3* connection_ = nullptr;
  std::map<std::string, std::unique_ptr<sqlite3_stmt, Finalize>> statements_;
  int64_t log_pages_ = 0;
};

// Copies a database to a new file in steps. A commit between two steps changes the copy, too. Not
// thread-safe: the steps and the destructor exclude all other use of the database.
class DatabaseCopy {
 public:
  // Borrows the database.
  static absl::StatusOr<std::unique_ptr<DatabaseCopy>> Begin(const Database& from,
                                                             const std::string& to);
  ~DatabaseCopy();
  DatabaseCopy(const DatabaseCopy&) = delete;
  DatabaseCopy& operator=(const DatabaseCopy&) = delete;

  // Copies at most `pages_max` pages. Returns true if the copy is complete: it is the database at
  // this moment, without a sync. Do not call it again then.
  absl::StatusOr<bool> Step(int pages_max);

 private:
  explicit DatabaseCopy(std::unique_ptr<Database> to) : to_(std::move(to)) {}

  std::unique_ptr<Database> to_;
  sqlite3_backup* backup_ = nullptr;
};

}  // namespace nearfield::store
