// Upload: one atomic upload. Rows are sent in blocks; all of them become visible at Commit, or
// none.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// The effect of an upload on ids that are already in the collection.
enum class UploadMode : uint8_t {
  kInsert = 1,   // the upload is refused: AlreadyExists
  kUpsert = 2,   // the row is replaced; if an id occurs several times, the last one wins
  kReplace = 3,  // the upload becomes the whole collection
};

struct UploadProgress {
  uint64_t rows_sent = 0;
  uint64_t rows_skipped = 0;   // the server had them from an earlier try
  uint64_t rows_received = 0;  // received by the server; not yet visible
  uint64_t bytes_sent = 0;     // size of the blocks' messages
  std::chrono::nanoseconds elapsed{0};

  double rows_per_second() const { return PerSecond(rows_sent); }
  double bytes_per_second() const { return PerSecond(bytes_sent); }

 private:
  double PerSecond(uint64_t count) const {
    const double seconds = std::chrono::duration<double>(elapsed).count();
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  }
};

struct UploadOptions {
  std::string collection;
  uint64_t rows_max = 0;           // required: maximum rows of the whole upload, at least 1
  uint64_t payload_bytes_max = 0;  // maximum payload bytes of the whole upload
  UploadMode mode = UploadMode::kInsert;
  // Stores rows of zeros in a collection of metric cosine, which are refused otherwise: they have
  // no cosine, and come last in every search.
  bool accept_zero_rows = false;
  // 1 .. 256 bytes, chosen by the caller. Another upload with the same token, collection and mode
  // continues where this one ended; if this one was committed, it has no further effect. Needs a
  // server with a data directory. Empty: none.
  std::string token;
  // Maximum size of a block's message; the server's own limit applies too. A whole block must
  // arrive within the server's upload_idle_ms, so use less over a slow line.
  uint64_t block_bytes_max = uint64_t{2} << 20;
  // Deadline of the whole upload. Absent: none, but without a token the server must accept the
  // upload within the client's deadline. With a token the server may first have to read all that it
  // has of the upload.
  std::optional<std::chrono::milliseconds> deadline;
  // Called after each block and at the commit, on the thread that calls Write or Commit.
  std::function<void(const UploadProgress&)> on_progress;
};

// Rows of one collection, in columns of the same length, borrowed for the call.
struct RowBlock {
  const IdColumn* ids = nullptr;
  DataType dtype = DataType::kFloat32;    // of the collection
  std::string_view vectors;               // rows * dim * ElementBytes(dtype) bytes
  std::span<const std::string> payloads;  // none, or one per row
  // At most one per declared attribute. An attribute without a column: no row has a value.
  std::span<const AttributeColumn> attributes;
};

struct UploadResult {
  uint64_t epoch = 0;  // the first epoch that shows the rows
  uint64_t rows_count = 0;
  uint64_t rows_replaced = 0;  // of earlier epochs
  std::string request_id;
};

// The server's state of an upload with a token.
struct UploadState {
  bool committed = false;
  uint64_t rows_count = 0;  // committed: rows that it added; open: durable rows
  uint64_t epoch = 0;       // committed: the first epoch that shows the rows
  uint64_t next_block = 0;  // open: the first block that is not durable
};

// An upload with a token that is neither committed nor dropped.
struct OpenUpload {
  std::string token;
  std::string collection;
  UploadMode mode = UploadMode::kInsert;
  uint64_t rows_count = 0;     // durable rows
  uint64_t bytes_on_disk = 0;  // of its file, including space reserved for later blocks
  // Seconds since the latest of: its begin or resumption, its last durable rows, the end of its
  // stream.
  uint64_t untouched_s = 0;
  bool is_live = false;  // a stream is sending it now
};

struct OpenUploads {
  std::vector<OpenUpload> uploads;  // the least recently touched first; equal ages by token
  uint64_t uploads_count = 0;       // all open uploads, even if `uploads` holds fewer
};

// Created by Client::BeginUpload. Thread safety: one thread writes; any thread may call Cancel.
// After an error every call returns that error, with one exception: columns that differ in length
// and text that is not UTF-8 are refused before any of it is sent, and the upload can continue.
//
// With a token, write the same rows from the first one, in blocks of any size: rows that the server
// has from an earlier stream are skipped.
class Upload {
 public:
  Upload(Upload&&) noexcept;
  Upload& operator=(Upload&&) noexcept;
  ~Upload();  // cancels what was not committed

  // Splits the rows into blocks and sends them. Blocks while the server does not keep up, so memory
  // stays bounded by one block. Errors: InvalidArgument (columns differ in length, text is not
  // UTF-8, one row exceeds the block size); the server's status.
  absl::Status Write(const RowBlock& rows);

  // With a token: the number of leading rows that the server already has, and whether an earlier
  // stream committed all of them. In that case Write sends nothing, and Commit returns that commit.
  uint64_t rows_resumed() const;
  bool was_committed() const;

  // Ends the upload and waits until it is visible, and durable if the server promises that.
  absl::StatusOr<UploadResult> Commit();

  // Ends the stream immediately. Nothing is committed unless the commit was already sent.
  void Cancel();

 private:
  friend class Client;
  class Impl;
  explicit Upload(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client
