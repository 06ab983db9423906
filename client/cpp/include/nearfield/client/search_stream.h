// SearchStream: many searches over one stream. There is no setup for each search, and a caller may
// await replies while it sends the next search.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

// Created by Client::OpenSearchStream. Thread safety: one thread may send while another receives.
// The server answers in the order of the requests; a request that fails ends the stream. Not
// retried if the connection is lost.
class SearchStream {
 public:
  SearchStream(SearchStream&&) noexcept;
  SearchStream& operator=(SearchStream&&) noexcept;
  ~SearchStream();  // cancels what is still running

  // Sends one search. Returns false if the stream has ended; Receive returns the reason. An id or a
  // filter that cannot be sent ends the stream: InvalidArgument. Views in `queries` are borrowed
  // for the call.
  bool Send(std::span<const Query> queries);

  // Ends the requests: no further search follows.
  void SendDone();

  // Returns the next answer, in the order of Send; nullopt after the last one; or the status that
  // ended the stream. Errors: Internal (the answers do not match what was sent).
  absl::StatusOr<std::optional<SearchAnswer>> Receive();

 private:
  friend class Client;
  class Impl;
  explicit SearchStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client
