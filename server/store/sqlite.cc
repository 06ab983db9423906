#include "server/store/sqlite.h"

#include <sqlite3.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"

namespace nearfield::store {
namespace {

// Resets a kept statement for its next use, even after memory ran out during its execution.
struct Reset {
  void operator()(sqlite3_stmt* statement) const {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
  }
};

}  // namespace

void Database::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path, Mode mode) {
  std::unique_ptr<Database> database(new Database(path));
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                    (mode == Mode::kCreate ? SQLITE_OPEN_CREATE : 0);
  const int code = sqlite3_open_v2(path.c_str(), &database->connection_, flags, nullptr);
  if (code != SQLITE_OK) return database->Error(code, "open");
  ABSL_RETURN_IF_ERROR(database->Configure(mode));
  return database;
}

Database::~Database() {
  statements_.clear();
  if (connection_ != nullptr) sqlite3_close_v2(connection_);
}

absl::Status Database::Configure(Mode mode) {
  sqlite3_extended_result_codes(connection_, 1);
  sqlite3_wal_hook(
      connection_,
      [](void* database, sqlite3*, const char*, int pages) {
        static_cast<Database*>(database)->log_pages_ = pages;
        return SQLITE_OK;
      },
      this);
  // If exclusive locking is set before the first read of the database, SQLite keeps the index of
  // the log in its own memory. Then there is no -shm file, which would need disk space. A new
  // database is made with a plain journal, and switches to the log at the end: see UseLog.
  if (mode == Mode::kExisting) ABSL_RETURN_IF_ERROR(Run("PRAGMA locking_mode=EXCLUSIVE"));
  for (const char* const setting :
       {"PRAGMA mmap_size=0", "PRAGMA synchronous=FULL", "PRAGMA cell_size_check=ON",
        "PRAGMA trusted_schema=OFF", "PRAGMA temp_store=MEMORY", "PRAGMA secure_delete=OFF"}) {
    ABSL_RETURN_IF_ERROR(Run(setting));
  }
  ABSL_RETURN_IF_ERROR(SetJournal(mode == Mode::kExisting ? "wal" : "delete"));
  statements_.clear();
  return absl::OkStatus();
}

absl::Status Database::SetJournal(const std::string& mode) {
  std::string now;  // SQLite returns its current mode, not the requested one
  ABSL_RETURN_IF_ERROR(Query("PRAGMA journal_mode=" + mode, {}, [&now](std::vector<Value> row) {
    if (auto* const text = absl::get_if<std::string>(&row[0])) now = *text;
    return absl::OkStatus();
  }));
  if (now == mode) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path_, ": the journal mode stays ", now, "; it must be ", mode));
}

absl::Status Database::Error(int code, const std::string& what) const {
  const std::string message =
      absl::StrCat(path_, ": ", what, ": ",
                   connection_ != nullptr ? sqlite3_errmsg(connection_) : sqlite3_errstr(code),
                   " (SQLite code ", code, ")");
  if (code == SQLITE_IOERR_READ || code == SQLITE_IOERR_SHORT_READ) {
    return absl::DataLossError(message);
  }
  if (code == SQLITE_IOERR_NOMEM) return absl::ResourceExhaustedError(message);
  switch (code & 0xff) {
    case SQLITE_CANTOPEN: {
      const int error = connection_ != nullptr ? sqlite3_system_errno(connection_) : 0;
      const bool none_free = error == EMFILE || error == ENFILE || error == ENOMEM;
      return none_free ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
    }
    case SQLITE_FULL:
    case SQLITE_NOMEM: return absl::ResourceExhaustedError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:  // a required table or column does not exist
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH: return absl::DataLossError(message);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_READONLY:
    case SQLITE_PERM: return absl::FailedPreconditionError(message);
    default: return absl::InternalError(message);
  }
}

absl::StatusOr<sqlite3_stmt*> Database::Prepare(const std::string& sql,
                                                absl::Span<const Value> values) {
  std::unique_ptr<sqlite3_stmt, Finalize>& kept = statements_[sql];
  if (kept == nullptr) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v2(connection_, sql.c_str(), static_cast<int>(sql.size() + 1),
                                        &statement, nullptr);
    if (code != SQLITE_OK) return Error(code, sql);
    kept.reset(statement);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const int place = static_cast<int>(i) + 1;
    const int64_t* const number = absl::get_if<int64_t>(&values[i]);
    const std::string* const bytes = absl::get_if<std::string>(&values[i]);
    const int code = number != nullptr ? sqlite3_bind_int64(kept.get(), place, *number)
                                       : sqlite3_bind_blob64(kept.get(), place, bytes->data(),
                                                             bytes->size(), SQLITE_STATIC);
    if (code != SQLITE_OK) return Error(code, sql);
  }
  return kept.get();
}

absl::Status Database::Run(const std::string& sql, absl::Span<const Value> values) {
  return Query(sql, values, [](const std::vector<Value>&) { return absl::OkStatus(); });
}

absl::StatusOr<std::vector<Value>> Database::Row(sqlite3_stmt* statement) const {
  std::vector<Value> row;
  for (int i = 0; i < sqlite3_column_count(statement); ++i) {
    switch (sqlite3_column_type(statement, i)) {
      case SQLITE_INTEGER: row.emplace_back(sqlite3_column_int64(statement, i)); break;
      case SQLITE_BLOB:
      case SQLITE_TEXT: {  // settings return text
        const void* const bytes = sqlite3_column_blob(statement, i);
        const auto size = static_cast<size_t>(sqlite3_column_bytes(statement, i));
        row.emplace_back(std::string(static_cast<const char*>(bytes), bytes != nullptr ? size : 0));
        break;
      }
      default:
        return absl::DataLossError(
            absl::StrCat(path_, ": a value of an unexpected type: ", sqlite3_sql(statement)));
    }
  }
  return row;
}

absl::Status Database::Query(const std::string& sql, absl::Span<const Value> values,
                             const RowSink& sink) {
  ABSL_ASSIGN_OR_RETURN(sqlite3_stmt* const statement, Prepare(sql, values));
  const std::unique_ptr<sqlite3_stmt, Reset> reset(statement);
  absl::Status status;
  int code = SQLITE_ROW;
  while (status.ok() && (code = sqlite3_step(statement)) == SQLITE_ROW) {
    absl::StatusOr<std::vector<Value>> row = Row(statement);
    status = row.ok() ? sink(*std::move(row)) : row.status();
  }
  if (status.ok() && code != SQLITE_DONE) status = Error(code, sql);
  return status;
}

absl::Status Database::Commit() {
  ABSL_ASSIGN_OR_RETURN(sqlite3_stmt* const statement, Prepare("COMMIT", {}));
  const std::unique_ptr<sqlite3_stmt, Reset> reset(statement);
  const int code = sqlite3_step(statement);
  if (code == SQLITE_DONE) return absl::OkStatus();
  absl::Status failed = CatchOutOfMemory([&] { return Error(code, "COMMIT"); });
  if ((code & 0xff) == SQLITE_FULL || !absl::IsResourceExhausted(failed)) return failed;
  const absl::Status unknown =
      CatchOutOfMemory([&]() -> absl::Status { return absl::InternalError(failed.message()); });
  return absl::IsInternal(unknown) ? unknown : absl::Status(absl::StatusCode::kInternal, "");
}

absl::Status Database::Rollback() {
  const int code = sqlite3_exec(connection_, "ROLLBACK", nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, "ROLLBACK");
}

int64_t Database::changes() const { return sqlite3_changes64(connection_); }

bool Database::in_transaction() const { return sqlite3_get_autocommit(connection_) == 0; }

absl::Status Database::Checkpoint() {
  int log_frames = 0;
  int moved_frames = 0;
  const int code = sqlite3_wal_checkpoint_v2(connection_, nullptr, SQLITE_CHECKPOINT_PASSIVE,
                                             &log_frames, &moved_frames);
  if (code != SQLITE_OK) return Error(code, "checkpoint");
  log_pages_ = 0;
  return absl::OkStatus();
}

absl::Status Database::UseLog() {
  statements_.clear();
  ABSL_RETURN_IF_ERROR(Run("PRAGMA locking_mode=EXCLUSIVE"));
  return SetJournal("wal");
}

absl::Status Database::Close() {
  ABSL_RETURN_IF_ERROR(Checkpoint());
  statements_.clear();
  const int code = sqlite3_close(std::exchange(connection_, nullptr));
  return code == SQLITE_OK ? absl::OkStatus() : Error(code, "close");
}

absl::StatusOr<std::unique_ptr<DatabaseCopy>> DatabaseCopy::Begin(const Database& from,
                                                                  const std::string& to) {
  ABSL_ASSIGN_OR_RETURN(auto database, Database::Open(to, Database::Mode::kCreate));
  ABSL_RETURN_IF_ERROR(database->Run("PRAGMA synchronous=OFF"));
  ABSL_RETURN_IF_ERROR(database->Run("PRAGMA journal_mode=OFF"));
  database->statements_.clear();
  absl::StrAppend(&database->path_, ", the copy of ", from.path_);  // for errors
  std::unique_ptr<DatabaseCopy> copy(new DatabaseCopy(std::move(database)));
  sqlite3* const connection = copy->to_->connection_;
  copy->backup_ = sqlite3_backup_init(connection, "main", from.connection_, "main");
  if (copy->backup_ != nullptr) return copy;
  return copy->to_->Error(sqlite3_extended_errcode(connection), "copy");
}

DatabaseCopy::~DatabaseCopy() { sqlite3_backup_finish(backup_); }

absl::StatusOr<bool> DatabaseCopy::Step(int pages_max) {
  const int code = sqlite3_backup_step(backup_, pages_max);
  if (code == SQLITE_OK) return false;
  sqlite3_backup_finish(std::exchange(backup_, nullptr));  // sets the message of an error
  if (code == SQLITE_DONE) return true;
  return to_->Error(code, "copy");
}

}  // namespace nearfield::store
