// PageSearch: searches by stored id for the page of the operations port, as JSON. They are calls of
// the service like those of any client: admitted, queued, counted and logged.
//   /search.json                         whether this server answers such searches, and how
//   /search.json?collection=C&id=ID&k=K  a SearchResponse with payloads and attributes, or an error
//   /example.json?collection=C           an id of the collection to try first, or an error
// Bounded in searches at a time, k, bytes of a reply and time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config/settings.h"
#include "server/ops_http/http_server.h"
#include "server/rpc/nearfield_service.h"
#include "server/security/access_control.h"

namespace nearfield::server {

// At most a quarter of the threads of the port, so that probes are answered meanwhile.
inline constexpr int kPageSearchesMax = kHttpThreads / 4;
inline constexpr int64_t kPageKMax = 50;
inline constexpr int64_t kPageReplyBytesMax = 2 << 20;  // of the message
inline constexpr int64_t kPageSearchMs = 5000;          // deadline

// Thread-safe.
class PageSearch {
 public:
  // All arguments outlive it.
  PageSearch(const Settings* settings, NearfieldService* service, const AccessControl* control)
      : settings_(settings), service_(service), control_(control) {}

  HttpReply Answer(const HttpRequest& request);
  // Answers with the smallest id as text; null if the collection is empty.
  HttpReply Example(const HttpRequest& request);
  bool needs_key() const { return control_->requires_keys(); }

 private:
  // kOpen: every caller that reaches this port may search, because every caller that reaches the
  // gRPC port may.
  enum class Access : uint8_t { kOff, kKey, kOpen };
  Access access() const;
  HttpReply Describe() const;
  // Makes the calls of a request and returns JSON. Sets `request_id` once there is a call.
  using Calls = absl::StatusOr<std::string> (PageSearch::*)(const HttpRequest& request,
                                                            std::string* request_id);
  absl::StatusOr<std::string> Search(const HttpRequest& request, std::string* request_id);
  absl::StatusOr<std::string> FirstId(const HttpRequest& request, std::string* request_id);
  // Answers with what `calls` returns, unless the request must be refused.
  HttpReply Run(const HttpRequest& request, Calls calls);
  // `method`: the first call that needs a scope, by its name in the access table.
  CallFacts FactsOf(const HttpRequest& request, const char* method) const;
  // Makes a call and waits for its end.
  template <typename Request, typename Response>
  CallEnd Call(ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>),
               const CallFacts& facts, Request request, Response* response);

  const Settings* const settings_;
  NearfieldService* const service_;
  const AccessControl* const control_;
  std::atomic<int> searches_{0};
};

}  // namespace nearfield::server
