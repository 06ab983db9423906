// The rows of the catalog's tables, each as a struct and as SQLite values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "server/store/checksum.h"
#include "server/store/sqlite.h"
#include "server/store/stored_types.h"

namespace nearfield::store {

// Sum of the digests of rows modulo 2^128. Independent of their order, and cheap to update.
class RowSum {
 public:
  void Add(const Digest& digest);
  void Subtract(const Digest& digest);
  std::string Bytes() const;
  static RowSum FromBytes(const std::string& bytes);

 private:
  std::array<uint64_t, 2> sum_ = {};
};

// The values of one row, written or read one by one.
class RowFields {
 public:
  RowFields() = default;  // to write
  explicit RowFields(absl::Span<const Value> read) : read_(read), is_reading_(true) {}

  // Each takes the next value. If it is written, moves it out of its variable. If it is read,
  // checks its type and its limits.
  RowFields& Number(int64_t* number, int64_t min = 0, int64_t max = INT64_MAX);
  RowFields& Bytes(std::string* bytes);
  template <typename E>
  RowFields& Enum(E* value, int64_t max) {  // its numbers are 1 .. max
    auto number = static_cast<int64_t>(*value);
    Number(&number, 1, max);
    *value = static_cast<E>(number);
    return *this;
  }

  std::vector<Value> TakeWritten() { return std::move(written_); }
  // Returns OK if exactly the values that were given were read, and all were valid; else DataLoss.
  absl::Status EndOfRead(const char* table) const;

 private:
  // Returns the next value that is read; null if it has another type or does not exist.
  template <typename T>
  const T* Next();

  std::vector<Value> written_;
  absl::Span<const Value> read_;
  size_t next_ = 0;
  bool is_reading_ = false;
  bool good_ = true;
};

// Each row type has: kTable, its name; kColumns, for CREATE TABLE, `id` first; kFormat, the first
// format of the catalog that has the table; Visit(), which takes the values in that order. A record
// also has kBody, the name of its last column, whose bytes are only in the database and not in
// Visit(), and `digest`, their SHA-256.

struct CollectionRow {
  static constexpr const char* kTable = "collections";
  static constexpr int64_t kFormat = 1;
  static constexpr const char* kColumns =
      "id INTEGER PRIMARY KEY, name, dim, metric, row_type, id_type, scan, rows_home, schema, "
      "epoch, rows_live, created_unix_s";
  int64_t id = 0;
  std::string name;
  CollectionSpec spec;
  // The stored number is a scan choice that no longer exists (bf16). The row keeps the number;
  // spec.scan is kInt8.
  bool scan_removed = false;
  std::string schema;
  int64_t epoch = 0;
  int64_t rows_live = 0;
  int64_t created_unix_s = 0;

  void Visit(RowFields* fields);
  // CHECKs that this row may replace `old` (null: a new collection) in a commit: the epoch never
  // falls.
  void CheckFollows(const CollectionRow* old) const;
};

// The principal that created a collection or an alias. One without a row has no owner: it was
// created without a key, or in format 2 or earlier (an alias: 4).
struct OwnerRow {
  static constexpr const char* kTable = "owners";
  static constexpr int64_t kFormat = 3;
  static constexpr const char* kColumns = "id INTEGER PRIMARY KEY, principal";
  int64_t id = 0;  // of the collection or alias
  std::string principal;

  void Visit(RowFields* fields);
};

// How many devices share the rows of a collection. A collection without a row leaves it to the
// engine.
struct DevicesRow {
  static constexpr const char* kTable = "device_counts";
  static constexpr int64_t kFormat = 4;
  static constexpr const char* kColumns = "id INTEGER PRIMARY KEY, devices";
  int64_t id = 0;  // of the collection
  int64_t devices = 0;

  void Visit(RowFields* fields);
};

// The name of the model that makes the vectors of a collection. One without a row names none.
struct EmbeddingModelRow {
  static constexpr const char* kTable = "embedding_models";
  static constexpr int64_t kFormat = 6;
  static constexpr const char* kColumns = "id INTEGER PRIMARY KEY, model";
  int64_t id = 0;  // of the collection
  std::string model;

  void Visit(RowFields* fields);
};

struct AliasRow {
  static constexpr const char* kTable = "aliases";
  static constexpr int64_t kFormat = 1;
  static constexpr const char* kColumns = "id INTEGER PRIMARY KEY, alias, collection";
  int64_t id = 0;
  std::string alias;
  int64_t collection = 0;

  void Visit(RowFields* fields);
};

// A committed segment; its id names its file.
struct SegmentRow {
  static constexpr const char* kTable = "segments";
  static constexpr int64_t kFormat = 1;
  static constexpr const char* kColumns =
      "id INTEGER PRIMARY KEY, collection, seq, rows, blocks, bytes, digest, superseded";
  int64_t id = 0;
  int64_t collection = 0;
  int64_t seq = 0;  // epoch up to which deletions are already applied
  int64_t rows = 0;
  int64_t blocks = 0;
  int64_t bytes = 0;       // size of the file
  std::string digest;      // SHA-256 over the file's header, block headers and tables
  std::string superseded;  // rows replaced by later rows of the same segment: 8 bytes each

  void Visit(RowFields* fields);
  std::vector<int64_t> SupersededRows() const;
};

// A deletion record: ids that a commit removed. The ids themselves are only in the database.
struct DeletionRow {
  static constexpr const char* kTable = "deletions";
  static constexpr int64_t kFormat = 1;
  static constexpr const char* kBody = "ids";
  static constexpr const char* kColumns =
      "id INTEGER PRIMARY KEY, collection, seq, ids_count, digest, ids";
  int64_t id = 0;
  int64_t collection = 0;
  int64_t seq = 0;  // epoch of the commit: rows of segments with a smaller seq are dead
  int64_t ids_count = 0;
  std::string digest;  // SHA-256 of the ids

  void Visit(RowFields* fields);
};

// A patch record: new attributes and payloads of rows that one or more updates changed
// (row_patches.h).
struct PatchRow {
  static constexpr const char* kTable = "patches";
  static constexpr int64_t kFormat = 7;
  static constexpr const char* kBody = "patches";
  static constexpr const char* kColumns =
      "id INTEGER PRIMARY KEY, collection, rows, bytes, digest, patches";
  int64_t id = 0;
  int64_t collection = 0;
  int64_t rows = 0;
  int64_t bytes = 0;   // of the patches
  std::string digest;  // SHA-256 of the patches

  void Visit(RowFields* fields);
};

// An update with a token that changed rows, for a repeated request.
struct UpdateTokenRow {
  static constexpr const char* kTable = "update_tokens";
  static constexpr int64_t kFormat = 7;
  static constexpr const char* kBody = "reply";
  static constexpr const char* kColumns =
      "id INTEGER PRIMARY KEY, collection, token, number, bytes_sum, digest, reply";
  int64_t id = 0;
  int64_t collection = 0;
  std::string token;
  int64_t number = 0;     // 1, 2, .. within its collection
  int64_t bytes_sum = 0;  // of the replies up to this one
  std::string digest;     // SHA-256 of the reply

  void Visit(RowFields* fields);
};

// An upload with a token.
struct UploadRow {
  static constexpr const char* kTable = "uploads";
  static constexpr int64_t kFormat = 1;
  static constexpr const char* kColumns =
      "id INTEGER PRIMARY KEY, token, collection, mode, state, next_block, rows, bytes_durable, "
      "epoch, touched_unix_s";
  int64_t id = 0;  // of its segment
  std::string token;
  int64_t collection = 0;
  UploadMode mode = UploadMode::kInsert;
  UploadState state = UploadState::kOpen;
  int64_t next_block = 0;
  int64_t rows = 0;
  int64_t bytes_durable = 0;
  int64_t epoch = 0;
  int64_t touched_unix_s = 0;

  void Visit(RowFields* fields);
};

// The result of the commit of an upload with a token, for a repeated request. Uploads that were
// committed in format 1 have none.
struct UploadResultRow {
  static constexpr const char* kTable = "upload_results";
  static constexpr int64_t kFormat = 2;
  static constexpr const char* kColumns = "id INTEGER PRIMARY KEY, rows_replaced, commit_number";
  int64_t id = 0;  // of its upload
  int64_t rows_replaced = 0;
  int64_t commit_number = 0;  // in the chain; the oldest tokens are forgotten first

  void Visit(RowFields* fields);
};

// All row types except that of the chain, in the order in which a transaction writes them.
template <template <typename...> typename To>
using RowTypes = To<CollectionRow, AliasRow, SegmentRow, DeletionRow, UploadRow, UploadResultRow,
                    OwnerRow, DevicesRow, EmbeddingModelRow, PatchRow, UpdateTokenRow>;

template <typename Row>
concept IsRecord = requires {
  Row::kBody;
};

// A link of the chain: one committed transaction.
struct CommitRow {
  static constexpr const char* kTable = "commits";
  static constexpr const char* kColumns =
      "id INTEGER PRIMARY KEY, kind, collection, epoch, next_id, state, previous, chain";
  int64_t id = 0;  // 1, 2, ..
  int64_t kind = 0;
  int64_t collection = 0;
  int64_t epoch = 0;
  int64_t next_id = 0;   // ids of rows and segments >= next_id were never used
  std::string state;     // sum over all rows of all tables after this transaction
  std::string previous;  // chain of the link before
  std::string chain;     // SHA-256 over all of the above

  void Visit(RowFields* fields);
  // Returns the correct value of `chain` in this store.
  Digest Chain(const std::string& store_id) const;
};

template <typename Row>
std::vector<Value> ValuesOf(Row row) {
  RowFields fields;
  row.Visit(&fields);
  return fields.TakeWritten();
}

// Errors: DataLoss (impossible values).
template <typename Row>
absl::StatusOr<Row> RowFrom(absl::Span<const Value> values) {
  Row row;
  RowFields fields(values);
  row.Visit(&fields);
  ABSL_RETURN_IF_ERROR(fields.EndOfRead(Row::kTable));
  return row;
}

// Returns the SHA-256 of a row of the table.
Digest RowDigest(const char* table, absl::Span<const Value> values);

}  // namespace nearfield::store
