#include "server/ops_http/page_search.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "server/convert/error_details.h"
#include "server/convert/text.h"
#include "server/http/error_reply.h"
#include "server/http/target.h"
#include "server/rpc/waiting_call.h"

namespace nearfield::server {
namespace {

constexpr char kJsonReply[] = "application/json";
constexpr char kCaller[] = "operations page";

HttpReply JsonReply(int status, const nlohmann::json& json) {
  return {.status = status,
          .content_type = kJsonReply,
          .body = json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

HttpReply ErrorReply(const absl::Status& status, const std::string& request_id) {
  nlohmann::json json = {{"code", absl::StatusCodeToString(status.code())},
                         {"message", DetailsOf(status, std::nullopt).message}};
  if (!request_id.empty()) json["request_id"] = request_id;
  return JsonReply(HttpStatusOf(status.code()), json);
}

// Refuses parameters of a query that are not among these.
absl::Status CheckParameters(const std::string& query, const std::vector<std::string>& known) {
  for (const auto& [name, value] : ParametersIn(query)) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    return MustBe("parameter", Quote(name), "one of " + absl::StrJoin(known, ", "));
  }
  return absl::OkStatus();
}

struct Asked {
  std::string collection;
  std::string id;
  int64_t k = 0;
};

absl::StatusOr<Asked> AskedBy(const std::string& query) {
  Asked asked;
  ABSL_RETURN_IF_ERROR(CheckParameters(query, {"collection", "id", "k"}));
  asked.collection = ParameterIn(query, "collection").value_or("");
  asked.id = ParameterIn(query, "id").value_or("");
  const std::string k = ParameterIn(query, "k").value_or("10");
  if (!absl::SimpleAtoi(k, &asked.k)) return MustBe("k", Quote(k), "a number");
  ABSL_RETURN_IF_ERROR(CheckRange("k", asked.k, 1, kPageKMax));
  for (const std::string* const text : {&asked.collection, &asked.id}) {
    if (!IsUtf8(*text)) return MustBe("collection, id", Quote(*text), "UTF-8");
  }
  return asked;
}

absl::StatusOr<pb::SearchRequest> RequestFor(const Asked& asked, pb::IdType id_type) {
  pb::SearchRequest request;
  request.set_collection(asked.collection);
  request.set_k(static_cast<uint32_t>(asked.k));
  request.set_with_payload(true);
  request.add_attributes()->push_back('*');
  pb::Id* const id = request.add_queries()->mutable_row_id();
  uint64_t number = 0;
  if (id_type == pb::ID_TYPE_STRING) {
    id->set_text(asked.id);
  } else if (absl::SimpleAtoi(asked.id, &number)) {
    id->set_number(number);
  } else {
    return MustBe("id", Quote(asked.id), "a number: the ids of this collection are uint64");
  }
  return request;
}

absl::StatusOr<std::string> JsonOf(const pb::SearchResponse& response) {
  const auto bytes = static_cast<int64_t>(response.ByteSizeLong());
  if (bytes > kPageReplyBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("reply: ", bytes, " bytes, the limit is ",
                                                     kPageReplyBytesMax, ": choose a smaller k"));
  }
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto printed = google::protobuf::util::MessageToJsonString(response, &json, options);
  if (!printed.ok()) return absl::InternalError(printed.ToString());
  return json;
}

}  // namespace

PageSearch::Access PageSearch::access() const {
  // There is no TLS on this port: beyond loopback, keys and payloads would cross the network as
  // they are.
  if (!IsLoopback(settings_->ops_listen.value())) return Access::kOff;
  if (control_->requires_keys()) return Access::kKey;
  // Else a local user could read here what the gRPC port would refuse.
  const bool is_narrow = absl::StartsWith(settings_->listen.value(), "unix:") ||
                         !settings_->tls_client_ca.value().empty();
  return is_narrow ? Access::kOff : Access::kOpen;
}

HttpReply PageSearch::Describe() const {
  nlohmann::json json = {{"k_max", kPageKMax}};
  switch (access()) {
    case Access::kOpen:
      json["access"] = "open";
      json["reason"] = "";
      break;
    case Access::kKey:
      json["access"] = "key";
      json["reason"] = "needs an API key with the scope search; the page keeps it in memory only";
      break;
    case Access::kOff:
      json["access"] = "off";
      json["reason"] =
          IsLoopback(settings_->ops_listen.value())
              ? "off: the server accepts calls on a Unix socket or with client certificates only"
              : "off: this port is beyond loopback and has no TLS; use a tunnel to a port on "
                "loopback";
      break;
  }
  return JsonReply(200, json);
}

HttpReply PageSearch::Answer(const HttpRequest& request) {
  if (!request.query.empty()) return Run(request, &PageSearch::Search);
  const absl::Status origin = CheckOrigin(request.browser, "http");
  return origin.ok() ? Describe() : ErrorReply(origin, "");
}

HttpReply PageSearch::Example(const HttpRequest& request) {
  return Run(request, &PageSearch::FirstId);
}

HttpReply PageSearch::Run(const HttpRequest& request, Calls calls) {
  std::string request_id;
  const absl::Status origin = CheckOrigin(request.browser, "http");
  if (!origin.ok()) return ErrorReply(origin, request_id);
  if (access() == Access::kOff) {
    return ErrorReply(absl::PermissionDeniedError("search is off on this port"), request_id);
  }
  absl::StatusOr<std::string> json = absl::ResourceExhaustedError(
      absl::StrCat(kPageSearchesMax, " searches of the page are running, the limit is ",
                   kPageSearchesMax, ": try again"));
  if (searches_.fetch_add(1) < kPageSearchesMax) json = (this->*calls)(request, &request_id);
  searches_.fetch_sub(1);
  if (!json.ok()) return ErrorReply(json.status(), request_id);
  return {.content_type = kJsonReply, .body = *std::move(json)};
}

CallFacts PageSearch::FactsOf(const HttpRequest& request, const char* method) const {
  CallFacts facts = {
      .request_id = {}, .caller_name = kCaller, .trace_parent = {}, .peer = "operations port"};
  facts.deadline = std::chrono::system_clock::now() + std::chrono::milliseconds(kPageSearchMs);
  absl::StatusOr<KeyPtr> key = control_->Authenticate(request.authorization);
  facts.status = key.status();
  if (!key.ok()) return facts;
  facts.key = *std::move(key);
  // The service itself checks that the key covers the collection.
  facts.status = CheckMethod(facts.key, *FindAccess(method));
  return facts;
}

template <typename Request, typename Response>
CallEnd PageSearch::Call(ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>),
                         const CallFacts& facts, Request request, Response* response) {
  WaitingUnary call(facts);
  call.Bind(
      (service_->*method)({&call, std::make_shared<const Request>(std::move(request)), response}));
  return call.AwaitEnd();
}

absl::StatusOr<std::string> PageSearch::Search(const HttpRequest& request,
                                               std::string* request_id) {
  ABSL_ASSIGN_OR_RETURN(const Asked asked, AskedBy(request.query));
  const CallFacts facts = FactsOf(request, "nearfield.v1.Retrieval.Search");
  pb::GetCollectionRequest named;
  named.set_name(asked.collection);
  pb::GetCollectionResponse found;
  CallEnd end = Call(&NearfieldService::GetCollection, facts, std::move(named), &found);
  *request_id = end.request_id;
  ABSL_RETURN_IF_ERROR(end.status);
  ABSL_ASSIGN_OR_RETURN(pb::SearchRequest search, RequestFor(asked, found.collection().id_type()));
  pb::SearchResponse response;
  end = Call(&NearfieldService::Search, facts, std::move(search), &response);
  *request_id = end.request_id;
  ABSL_RETURN_IF_ERROR(end.status);
  return JsonOf(response);
}

absl::StatusOr<std::string> PageSearch::FirstId(const HttpRequest& request,
                                                std::string* request_id) {
  ABSL_RETURN_IF_ERROR(CheckParameters(request.query, {"collection"}));
  const std::string collection = ParameterIn(request.query, "collection").value_or("");
  if (!IsUtf8(collection)) return MustBe("collection", Quote(collection), "UTF-8");
  auto scan = std::make_shared<pb::ScanRequest>();
  scan->set_collection(collection);
  scan->set_with_payload(false);
  scan->set_with_vectors(false);
  scan->set_rows_max(1);
  WaitingReplies<ScanReplies, pb::ScanResponse> call(
      FactsOf(request, "nearfield.v1.Retrieval.Scan"));
  call.Bind(service_->Scan(&call, std::move(scan)));
  pb::ScanResponse reply;
  nlohmann::json id;
  while (call.Next(&reply)) {
    if (reply.ids().texts_size() > 0) id = reply.ids().texts(0);
    if (reply.ids().numbers_size() > 0) id = std::to_string(reply.ids().numbers(0));
  }
  const CallEnd end = call.AwaitEnd();
  *request_id = end.request_id;
  ABSL_RETURN_IF_ERROR(end.status);
  return nlohmann::json{{"id", id}}.dump() + "\n";
}

}  // namespace nearfield::server
