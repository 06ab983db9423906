// An in-process gRPC server with a fake store, whose calls a test can refuse, hold up and tamper
// with. No gRPC header is needed here.
#ifndef NEARFIELD_TESTS_CLIENT_FAKE_SERVER_H_
#define NEARFIELD_TESTS_CLIENT_FAKE_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"

namespace nearfield::client {

// A scripted end of a call.
struct Refusal {
  absl::Status status;
  std::optional<std::string> retry_after_ms;  // as sent
};

// What the server does besides answering. Set before the call that it is about.
struct FakeServerScript {
  v1::GetLimitsResponse limits;                            // generous by default
  std::function<void(v1::SearchResponse*)> tamper_search;  // applied to each answer
  int stream_answers_max = 1000000;                        // a search stream ends OK after so many
  uint64_t read_failures_count = 0;                        // of every collection
  std::string collection_error;  // set: every collection says it has 0 rows, and why
  bool verify_lies = false;      // Verify finds a difference where there is none
  int epoch_moves = 0;           // so many Verify calls find that the collection has moved on
  bool accept_uploads = true;    // false: Begin is never answered
  std::chrono::milliseconds accept_after{0};          // Begin is answered so late
  std::map<std::string, uint64_t> open_uploads;       // that ListUploads tells: rows by token
  bool hold_uploads = false;                          // no block is read
  std::optional<uint64_t> upload_rows_until_refusal;  // with upload_refusal
  Refusal upload_refusal;
  bool commit_in_silence = false;   // the stream ends OK, but without Committed
  bool break_after_commit = false;  // the stream ends UNAVAILABLE after Committed
  // Streams of uploads end UNAVAILABLE after so many rows each, in this order; then none does.
  std::vector<uint64_t> upload_rows_until_break;
  // Streams of pages end UNAVAILABLE after so many pages each, in this order; then none does.
  std::vector<int> pages_until_break;
};

class FakeServer {
 public:
  FakeServer();
  ~FakeServer();

  std::string address() const;
  FakeServerScript& script();

  // The next calls of a method, such as "Search", end so; later ones are answered.
  void Refuse(const std::string& method, std::vector<Refusal> refusals);
  void SetServing(bool serving);

  int calls(const std::string& method) const;
  // Milliseconds that each call of the method had left when it came in.
  std::vector<int64_t> deadlines_ms(const std::string& method) const;
  std::vector<uint64_t> block_bytes() const;  // of each UploadBlock received, as a message
  std::vector<v1::UploadBlock> blocks() const;
  // The last request of a method (of an upload: its Begin), and who said to have called.
  template <typename Request>
  Request last(const std::string& method) const {
    Request request;
    EXPECT_TRUE(request.ParseFromString(last_bytes(method))) << method;
    return request;
  }
  std::string caller(const std::string& method) const;
  // Waits until an upload has ended without a commit.
  void AwaitAbandonedUpload();

 private:
  class Impl;
  std::string last_bytes(const std::string& method) const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_TESTS_CLIENT_FAKE_SERVER_H_
