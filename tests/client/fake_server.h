// FakeServer: an in-process gRPC server with a fake store. A test can refuse, delay and tamper with
// its calls. Needs no gRPC header.
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

// A scripted end of a call: its status and retry hint.
struct Refusal {
  absl::Status status;
  std::optional<std::string> retry_after_ms;  // as sent
};

// The scripted behavior of the server. Set it before the call that it affects.
struct FakeServerScript {
  v1::GetLimitsResponse limits;                            // high by default
  std::function<void(v1::SearchResponse*)> tamper_search;  // applied to each answer
  int stream_answers_max = 1000000;                        // answers before a search stream ends OK
  uint64_t read_failures_count = 0;                        // of every collection
  std::string collection_error;               // set: every collection reports 0 rows and this error
  bool verify_lies = false;                   // Verify reports a difference where none exists
  int epoch_moves = 0;                        // this many Verify calls find a later epoch
  bool accept_uploads = true;                 // false: Begin is never answered
  std::chrono::milliseconds accept_after{0};  // delay of the answer to Begin
  std::map<std::string, uint64_t> open_uploads;       // for ListUploads: rows by token
  bool hold_uploads = false;                          // no block is read
  std::optional<uint64_t> upload_rows_until_refusal;  // with upload_refusal
  Refusal upload_refusal;
  bool commit_in_silence = false;   // the stream ends OK, but without Committed
  bool break_after_commit = false;  // the stream ends UNAVAILABLE after Committed
  // For each upload stream in turn, the number of rows after which it ends UNAVAILABLE.
  std::vector<uint64_t> upload_rows_until_break;
  // For each page stream in turn, the number of pages after which it ends UNAVAILABLE.
  std::vector<int> pages_until_break;
};

class FakeServer {
 public:
  FakeServer();
  ~FakeServer();

  std::string address() const;
  FakeServerScript& script();

  // The next calls of a method, such as "Search", end with `refusals`; later ones are answered.
  void Refuse(const std::string& method, std::vector<Refusal> refusals);
  void SetServing(bool serving);

  int calls(const std::string& method) const;
  // Returns the milliseconds left until the deadline, at the start of each call of the method.
  std::vector<int64_t> deadlines_ms(const std::string& method) const;
  std::vector<uint64_t> block_bytes() const;  // size of each received UploadBlock message
  std::vector<v1::UploadBlock> blocks() const;
  // Returns the last request of a method (of an upload: its Begin).
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
