#include "server/http/api.h"

#include <google/protobuf/descriptor.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/check.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "server/convert/text.h"
#include "server/http/open_api.h"
#include "server/rpc/methods.h"
#include "server/security/access_table.h"
#include "server/telemetry/request_log.h"

namespace nearfield::server {
namespace {

// Lets a browser send requests of the own page and give it the replies. DELETE and PUT are not
// among the methods that a browser then allows.
constexpr char kPageHeaders[] =
    "Access-Control-Allow-Headers: authorization, content-type, nearfield-caller\r\n"
    "Access-Control-Max-Age: 600\r\n";

// Replies to a request that makes no call.
void ReplyWith(Exchange* exchange, int status, const absl::Status& problem,
               const std::string& more = "") {
  exchange->Reply({.status = status, .more = more}, ErrorJson(problem, std::nullopt) + "\n",
                  [](bool /*ok*/) {});
}

// Returns the time that the client gives a call; nullopt: no limit. Errors: InvalidArgument.
absl::StatusOr<std::optional<std::chrono::milliseconds>> TimeoutOf(const RequestHead& head) {
  constexpr char kHeader[] = "nearfield-timeout-ms";
  if (head.timeout_ms.empty()) return std::optional<std::chrono::milliseconds>();
  int64_t ms = 0;
  if (!absl::SimpleAtoi(head.timeout_ms, &ms)) {
    return MustBe(kHeader, Quote(head.timeout_ms), "a number");
  }
  ABSL_RETURN_IF_ERROR(CheckRange(kHeader, ms, 1, kDayMs));
  return std::optional(std::chrono::milliseconds(ms));
}

// The refusal of a request for its head, and its HTTP status.
struct HeadRefusal {
  absl::Status status;
  int http_status = 0;
};

// Checks that the request has a body where it needs one, of a type and a size that can be read.
HeadRefusal CheckBody(const RequestHead& head, const Route& route, bool takes_lines,
                      const std::string& query, int64_t bytes_max) {
  if (!route.takes_body()) {
    if (!head.has_body) return {};
    return {.status = ArgumentError("body", absl::StrCat("a ", head.verb, " has none"))};
  }
  if (!query.empty()) {
    return {.status = ArgumentError(
                "query", absl::StrCat("a ", head.verb, " has none: put the fields in the body"))};
  }
  if (!head.has_body) return {};
  const std::string type(
      absl::StripAsciiWhitespace(head.content_type.substr(0, head.content_type.find(';'))));
  if (!absl::EqualsIgnoreCase(type, "application/json") &&
      !(takes_lines && absl::EqualsIgnoreCase(type, "application/x-ndjson"))) {
    return {.status = MustBe("Content-Type", Quote(type),
                             takes_lines ? "application/x-ndjson" : "application/json"),
            .http_status = 415};
  }
  if (takes_lines) return {};
  if (!head.content_length.has_value()) {
    return {.status = ArgumentError("Content-Length", "absent: send the length of the body"),
            .http_status = 411};
  }
  if (*head.content_length > static_cast<uint64_t>(bytes_max)) {
    return {
        .status = absl::ResourceExhaustedError(absl::StrCat(
            "body: ", *head.content_length, " bytes, the limit request_bytes_max is ", bytes_max)),
        .http_status = 413};
  }
  return {};
}

}  // namespace

// Adds the methods of each kind to the table.
class Api::Adder {
 public:
  explicit Adder(Api* api) : api_(api) {}

  template <typename Request, typename Response>
  void operator()(const char* name,
                  ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>)) const {
    Add(name).begin = [method](CallStart start) {
      start.facts.pass_us_max = kHttpPassUsMax;
      const auto call = std::make_shared<HttpUnary<Request, Response>>(std::move(start));
      call->Begin([method, call = call.get()](NearfieldService* service, auto request) {
        return (service->*method)({call, std::move(request), call->response()});
      });
    };
  }

  template <typename Request, typename Response>
  void operator()(const char* name,
                  ActiveCallPtr (NearfieldService::*method)(ReplyStream<Response>*,
                                                            std::shared_ptr<const Request>)) const {
    Method& added = Add(name);
    added.has_lines = true;
    added.begin = [method](CallStart start) {
      const auto call = std::make_shared<HttpReplies<Request, Response>>(std::move(start));
      call->Begin([method, call = call.get()](NearfieldService* service, auto request) {
        return (service->*method)(call, std::move(request));
      });
    };
  }

  void operator()(const char* name,
                  ActiveCallPtr (NearfieldService::*method)(UploadMessages*)) const {
    Method& added = Add(name);
    added.takes_lines = true;
    added.begin = [method](CallStart start) {
      std::make_shared<HttpUpload>(std::move(start))->Begin(method);
    };
  }

  void operator()(const char* name,
                  ActiveCallPtr (NearfieldService::*method)(SearchMessages*)) const {
    Method& added = Add(name);
    added.takes_lines = true;
    added.has_lines = true;
    added.begin = [method](CallStart start) {
      std::make_shared<HttpSearchStream>(std::move(start))->Begin(method);
    };
  }

 private:
  Method& Add(const char* name) const {
    const auto* const descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
    Method& added = api_->methods_[name];
    added.name = descriptor->name().c_str();
    added.guard = {.control = api_->options_.base.control, .method = FindAccess(name)};
    CHECK(added.guard.method != nullptr);  // every method has an entry in the access table
    return added;
  }

  Api* const api_;
};

Api::Api(Options options) : options_(std::move(options)) {
  const Adder add(this);
  VisitRetrieval(add);
  VisitIngest(add);
  VisitAdmin(add);
}

void Api::Handle(const std::shared_ptr<Exchange>& exchange) const {
  const RequestHead& head = exchange->head();
  const bool is_own_page = IsFromOwnPage(head.browser, page_port_.load());
  absl::Status browser =
      is_own_page ? absl::OkStatus() : CheckOrigin(head.browser, options_.scheme);
  if (options_.is_loopback) browser.Update(CheckHost(head.browser));
  if (!browser.ok()) return ReplyWith(exchange.get(), 403, browser);
  if (is_own_page) {
    exchange->AddHeaders(
        absl::StrCat("Access-Control-Allow-Origin: ", head.browser.origin, "\r\n", kPageHeaders));
    // The browser asks before it sends a request of a page of another origin.
    if (head.verb == "OPTIONS") return exchange->Reply({}, "", [](bool /*ok*/) {});
  }
  const size_t mark = std::min(head.target.find('?'), head.target.size());
  const std::string path = head.target.substr(0, mark);
  const std::string query = head.target.substr(std::min(mark + 1, head.target.size()));
  if (path == kOpenApiPath && head.verb == "GET") {
    return exchange->Reply({}, OpenApiJson(), [](bool /*ok*/) {});
  }
  RouteMatch match = FindRoute(head.verb, path);
  if (match.route != nullptr) return Answer(exchange, std::move(match), query);
  if (!match.allow.empty()) {
    return ReplyWith(exchange.get(), 405,
                     absl::UnimplementedError(
                         absl::StrCat(head.verb, ": this path has the methods ", match.allow)),
                     absl::StrCat("Allow: ", match.allow, "\r\n"));
  }
  ReplyWith(exchange.get(), 404,
            absl::NotFoundError(absl::StrCat("path: there is no ", Quote(path.substr(0, 256)), "; ",
                                             kOpenApiPath, " has all paths")));
}

void Api::Answer(const std::shared_ptr<Exchange>& exchange, RouteMatch match,
                 const std::string& query) const {
  const RequestHead& head = exchange->head();
  const Method& method = methods_.at(match.route->rpc);
  CallStart start = {.base = &options_.base,
                     .exchange = exchange,
                     .guard = method.guard,
                     .method = method.name,
                     .fields = std::move(match.fields),
                     .query = query,
                     .facts = FactsOf(head, method)};
  if (start.facts.status.ok()) {
    HeadRefusal refusal = CheckBody(head, *match.route, method.takes_lines, query,
                                    options_.base.settings->request_bytes_max.value());
    if (head.is_http_1_0 && method.has_lines) {
      refusal = {.status = absl::UnimplementedError("version: lines need HTTP/1.1"),
                 .http_status = 505};
    }
    start.facts.status = std::move(refusal.status);
    start.refusal_status = refusal.http_status;
  }
  method.begin(std::move(start));
}

CallFacts Api::FactsOf(const RequestHead& head, const Method& method) const {
  CallFacts facts = {.request_id = RequestId(head.request_id),
                     .caller_name = head.caller_name,
                     .trace_parent = head.trace_parent,
                     .peer = head.peer};
  facts.settles_end = true;
  facts.audited = method.guard.method->IsAdministrative();
  const AccessControl& control = *options_.base.control;
  if (control.requires_keys() && head.has_two_keys) {
    facts.status = absl::UnauthenticatedError("authorization: given more than once");
    return facts;
  }
  absl::StatusOr<KeyPtr> key = control.Authenticate(head.authorization);
  facts.status = key.status();
  if (key.ok()) {
    facts.key = *std::move(key);
    facts.control = &control;
    facts.status = CheckMethod(facts.key, *method.guard.method);
  }
  const auto timeout = TimeoutOf(head);
  facts.status.Update(timeout.status());
  if (timeout.ok() && timeout->has_value()) {
    facts.deadline = std::chrono::system_clock::now() + **timeout;
  }
  return facts;
}

}  // namespace nearfield::server
