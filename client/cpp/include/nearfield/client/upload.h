// One atomic upload: rows go up in blocks, and all of them become visible at Commit, or none ever.
#ifndef NEARFIELD_CLIENT_UPLOAD_H_
#define NEARFIELD_CLIENT_UPLOAD_H_

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

// What happens to an id that is already there.
enum class UploadMode : uint8_t {
  kInsert = 1,   // AlreadyExists
  kUpsert = 2,   // its row is replaced; of an id that comes several times, the last wins
  kReplace = 3,  // the upload becomes the whole collection
};

struct UploadProgress {
  uint64_t rows_sent = 0;
  uint64_t rows_skipped = 0;   // that the server had from an earlier try
  uint64_t rows_received = 0;  // that the server has taken over; not yet visible
  uint64_t bytes_sent = 0;     // of blocks as messages
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
  uint64_t rows_max = 0;           // required: rows of the whole upload at most, at least 1
  uint64_t payload_bytes_max = 0;  // payload bytes of the whole upload at most
  UploadMode mode = UploadMode::kInsert;
  // 1 .. 256 bytes, chosen by the caller: another upload with the same token, collection and mode
  // goes on where this one ended, and where this one was committed nothing happens twice. Needs a
  // server with a data directory. Empty: none.
  std::string token;
  // Of a block's message; the server's own limit holds as well. A block must arrive whole within
  // the server's upload_idle_ms: less over a slow line.
  uint64_t block_bytes_max = uint64_t{2} << 20;
  // Of the whole upload. Absent: none, but without a token the server must accept it within the
  // client's deadline. With one it may first have to read all that it has of the upload.
  std::optional<std::chrono::milliseconds> deadline;
  // Called after each block and at the commit, on the thread that calls Write or Commit.
  std::function<void(const UploadProgress&)> on_progress;
};

// Rows of one collection, borrowed for the call. Columns of the same length.
struct RowBlock {
  const IdColumn* ids = nullptr;
  DataType dtype = DataType::kFloat32;    // the collection's
  std::string_view vectors;               // rows * dim * ElementBytes(dtype) bytes
  std::span<const std::string> payloads;  // none, or one a row
  // At most one a declared attribute; without a column no row has a value.
  std::span<const AttributeColumn> attributes;
};

struct UploadResult {
  uint64_t epoch = 0;  // the first that shows the rows
  uint64_t rows_count = 0;
  uint64_t rows_replaced = 0;  // of earlier epochs
  std::string request_id;
};

// What the server knows of an upload with a token.
struct UploadState {
  bool committed = false;
  uint64_t rows_count = 0;  // committed: rows that it added; open: rows that are durable
  uint64_t epoch = 0;       // committed: the first that shows the rows
  uint64_t next_block = 0;  // open: the first that is not durable
};

// An upload with a token that is neither committed nor dropped.
struct OpenUpload {
  std::string token;
  std::string collection;
  UploadMode mode = UploadMode::kInsert;
  uint64_t rows_count = 0;     // durable rows
  uint64_t bytes_on_disk = 0;  // of its file, room reserved for blocks to come included
  uint64_t untouched_s = 0;    // seconds since it began, rows became durable, or its stream ended
  bool is_live = false;        // a stream sends it now
};

struct OpenUploads {
  std::vector<OpenUpload> uploads;  // those untouched for longest first; equal ages by token
  uint64_t uploads_count = 0;       // of all, also where `uploads` is cut
};

// Made by Client::BeginUpload. One thread writes; Cancel may be called from any. After an error
// every call returns that error; only columns that disagree in length and text that is not UTF-8
// are refused without harm, before anything of them is sent.
//
// With a token, write the same rows from the first on, however cut: those that the server has from
// an earlier stream are skipped.
class Upload {
 public:
  Upload(Upload&&) noexcept;
  Upload& operator=(Upload&&) noexcept;
  ~Upload();  // cancels what was not committed

  // Cuts the rows into blocks and sends them; waits where the server does not keep up, so memory
  // stays bounded by one block. Errors: InvalidArgument (columns differ in length, text is not
  // UTF-8, one row is larger than a block may be); the server's status.
  absl::Status Write(const RowBlock& rows);

  // With a token: how many rows from the first on the server has already, and whether an earlier
  // stream committed them all. Then Write sends nothing, and Commit returns that commit.
  uint64_t rows_resumed() const;
  bool was_committed() const;

  // Ends the upload and waits until it is durable as the server promises it, and visible.
  absl::StatusOr<UploadResult> Commit();

  // Ends the stream at once; nothing is committed unless the commit had already been sent.
  void Cancel();

 private:
  friend class Client;
  class Impl;
  explicit Upload(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_UPLOAD_H_
