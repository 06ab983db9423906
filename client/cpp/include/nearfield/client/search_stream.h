// Many searches over one stream: no setup per search, and replies may be awaited while the next
// search is on its way.
#ifndef NEARFIELD_CLIENT_SEARCH_STREAM_H_
#define NEARFIELD_CLIENT_SEARCH_STREAM_H_

#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

// Made by Client::OpenSearchStream. One thread may send while another receives. The server answers
// in the order of the requests; one that fails ends the stream. Not repeated when the connection is
// lost.
class SearchStream {
 public:
  SearchStream(SearchStream&&) noexcept;
  SearchStream& operator=(SearchStream&&) noexcept;
  ~SearchStream();  // cancels what is still running

  // Sends one search. False where the stream has ended: Receive tells why. An id or a
  // filter that cannot be sent ends it: InvalidArgument. Views in `queries` are borrowed for the
  // call.
  bool Send(std::span<const Query> queries);

  // Says that no further search follows.
  void SendDone();

  // The next answer, in the order of Send; nothing after the last one; or the status that ended the
  // stream. Internal where the answers do not match what was sent.
  absl::StatusOr<std::optional<SearchAnswer>> Receive();

 private:
  friend class Client;
  class Impl;
  explicit SearchStream(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_SEARCH_STREAM_H_
