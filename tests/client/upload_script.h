// Uploads through a TestServer: what a client sent, and streams that break.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "nearfield/v1/ingest.pb.h"
#include "tests/client/test_server.h"

namespace nearfield::client {

// Returns begin .. end - 1.
inline std::vector<uint64_t> Numbers(uint64_t begin, uint64_t end) {
  std::vector<uint64_t> numbers(end - begin);
  std::iota(numbers.begin(), numbers.end(), begin);
  return numbers;
}

// Returns the blocks of all uploads.
inline std::vector<v1::UploadBlock> BlocksOf(const TestServer& server) {
  std::vector<v1::UploadBlock> blocks;
  for (const auto& request : server.requests<v1::UploadRequest>("Upload")) {
    if (request.has_block()) blocks.push_back(request.block());
  }
  return blocks;
}

// Returns the first message of the last upload.
inline v1::UploadBegin LastBegin(const TestServer& server) {
  v1::UploadBegin begin;
  for (const auto& request : server.requests<v1::UploadRequest>("Upload")) {
    if (request.has_begin()) begin = request.begin();
  }
  return begin;
}

// Ends each of the next uploads with `end`, when the server has received as many rows from its
// stream.
inline void EndUploadsAfter(TestServer& server, const std::vector<uint64_t>& rows,
                            const absl::Status& end = absl::UnavailableError("broken")) {
  const auto hook = [rows, end, streams = size_t{0}, rows_before = uint64_t{0}](
                        const auto* response) mutable -> std::optional<Refusal> {
    if (response->has_committed()) return std::nullopt;
    if (response->has_accepted()) {
      ++streams;
      rows_before = response->accepted().rows_received();
    }
    const uint64_t received =
        response->has_progress() ? response->progress().rows_received() : rows_before;
    if (streams > rows.size() || received - rows_before < rows[streams - 1]) return std::nullopt;
    return Refusal{end};
  };
  server.OnReply<v1::UploadResponse>("Upload", hook);
}

// Ends every later upload with `end` in place of its confirmation, or after it.
inline void EndUploadsAtCommit(TestServer& server, const Refusal& end) {
  server.OnReply<v1::UploadResponse>("Upload", [end](const auto* response) {
    return response->has_committed() ? std::optional(end) : std::nullopt;
  });
}

}  // namespace nearfield::client
