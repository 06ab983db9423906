// Api: answers the requests of the HTTP port by calls of the service.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/http/exchange.h"
#include "server/http/http_call.h"
#include "server/http/routes.h"

namespace nearfield::server {

// Thread-safe.
class Api {
 public:
  struct Options {
    ApiBase base;
    bool is_loopback = true;  // only names of loopback are accepted as Host
    std::string scheme = "http";
  };
  explicit Api(Options options);

  // Answers a request. Called on the strand of its connection.
  void Handle(const std::shared_ptr<Exchange>& exchange) const;

  // Also answers the page of the operations port, whose port this is (IsFromOwnPage).
  void AllowPage(int page_port) { page_port_.store(page_port); }

 private:
  // A method, and how its calls begin.
  struct Method {
    const char* name = nullptr;
    CallGuard guard;
    bool takes_lines = false;
    bool has_lines = false;  // its replies are lines
    std::function<void(CallStart start)> begin;
  };
  class Adder;

  void Answer(const std::shared_ptr<Exchange>& exchange, RouteMatch match,
              const std::string& query) const;
  CallFacts FactsOf(const RequestHead& head, const Method& method) const;

  const Options options_;
  std::atomic<int> page_port_{0};               // 0: there is no page
  std::map<std::string_view, Method> methods_;  // by the full name
};

}  // namespace nearfield::server
