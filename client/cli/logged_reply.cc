#include "client/cli/logged_reply.h"

#include <utility>

#include "client/cli/json_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "nearfield/client/digest.h"

namespace nearfield::client {
namespace {

std::string DigestOf(const Neighbors& neighbors) {
  return ToHex(ResultDigest(std::span<const Neighbors>(&neighbors, 1)));
}

std::string QueryJson(const LoggedQuery& query) {
  if (const auto* id = std::get_if<Id>(&query)) return JsonObject().Add("row_id", *id).ToString();
  const auto& vector = std::get<EncodedVectors>(query);
  return JsonObject().Add("dtype", Name(vector.dtype)).Add("data", ToHex(vector.bytes)).ToString();
}

absl::StatusOr<LoggedQuery> ParseQuery(const JsonFields& fields) {
  if (fields.Find("row_id")) {
    NF_ASSIGN_OR_RETURN(Id id, fields.OneId("row_id"));
    return LoggedQuery(std::move(id));
  }
  EncodedVectors vector;
  NF_ASSIGN_OR_RETURN(vector.dtype, fields.Named<DataType>("dtype", ParseDataType));
  NF_ASSIGN_OR_RETURN(vector.bytes, fields.Hex("data"));
  return LoggedQuery(std::move(vector));
}

}  // namespace

LoggedQuery Own(const Query& query) {
  if (const auto* id = std::get_if<Id>(&query)) return *id;
  if (const auto* encoded = std::get_if<EncodedQuery>(&query)) {
    return EncodedVectors{.dtype = encoded->dtype, .bytes = std::string(encoded->bytes)};
  }
  const auto values = std::get<std::span<const float>>(query);
  EncodedVectors vector;
  vector.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return vector;
}

Query View(const LoggedQuery& query) {
  if (const auto* id = std::get_if<Id>(&query)) return *id;
  const auto& vector = std::get<EncodedVectors>(query);
  return EncodedQuery{.dtype = vector.dtype, .bytes = vector.bytes};
}

std::string ToJsonLine(const LoggedReply& reply) {
  std::vector<float> scores = reply.neighbors.scores;
  JsonObject json;
  json.Add("collection", reply.collection)
      .Add("epoch", reply.epoch)
      .Add("k", reply.k)
      .AddJson("query", QueryJson(reply.query));
  if (!reply.filter.empty()) json.Add("filter", reply.filter);
  if (!reply.terms.empty()) json.Add("terms", ToHex(reply.terms));
  if (reply.score_threshold) {
    json.AddJson("score_threshold_bits", FloatBitsJson({*reply.score_threshold}));
  }
  return json.AddJson("ids", ToJson(reply.neighbors.ids))
      .AddJson("scores", JsonNumbers(scores))
      .AddJson("score_bits", FloatBitsJson(scores))
      .Add("digest", DigestOf(reply.neighbors))
      .ToString();
}

absl::StatusOr<Neighbors> ParseNeighbors(const JsonFields& fields) {
  Neighbors neighbors;
  NF_ASSIGN_OR_RETURN(neighbors.ids, fields.Ids("ids"));
  NF_ASSIGN_OR_RETURN(neighbors.scores, fields.FloatBits("score_bits"));
  if (Count(neighbors.ids) == neighbors.scores.size()) return neighbors;
  return absl::InvalidArgumentError(
      Cat(Count(neighbors.ids), " ids and ", neighbors.scores.size(), " scores: must be as many"));
}

absl::StatusOr<LoggedReply> ParseLoggedReply(std::string_view line) {
  NF_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::Parse(line));
  NF_RETURN_IF_ERROR(
      fields.CheckNames({"collection", "epoch", "k", "query", "filter", "terms",
                         "score_threshold_bits", "ids", "scores", "score_bits", "digest"}));
  LoggedReply reply;
  NF_ASSIGN_OR_RETURN(reply.collection, fields.Text("collection"));
  NF_ASSIGN_OR_RETURN(reply.epoch, fields.Number("epoch"));
  NF_ASSIGN_OR_RETURN(const uint64_t k, fields.Number("k"));
  if (k > UINT32_MAX) return absl::InvalidArgumentError(Cat("member \"k\": ", k, " is too large"));
  reply.k = static_cast<uint32_t>(k);
  NF_ASSIGN_OR_RETURN(const JsonFields query, fields.Object("query"));
  NF_ASSIGN_OR_RETURN(reply.query, ParseQuery(query));
  if (fields.Find("filter")) {
    NF_ASSIGN_OR_RETURN(reply.filter, fields.Text("filter"));
  }
  if (fields.Find("terms")) {
    NF_ASSIGN_OR_RETURN(reply.terms, fields.Hex("terms"));
  }
  if (fields.Find("score_threshold_bits")) {
    NF_ASSIGN_OR_RETURN(const std::vector<float> bits, fields.FloatBits("score_threshold_bits"));
    if (bits.size() != 1) {
      return absl::InvalidArgumentError("member \"score_threshold_bits\": must have one element");
    }
    reply.score_threshold = bits.front();
  }
  NF_ASSIGN_OR_RETURN(reply.neighbors, ParseNeighbors(fields));
  NF_ASSIGN_OR_RETURN(const std::string digest, fields.Text("digest"));
  if (digest == DigestOf(reply.neighbors)) return reply;
  return absl::DataLossError("the answer does not fit its digest: the log was damaged or changed");
}

}  // namespace nearfield::client
