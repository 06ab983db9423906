#include "server/c_abi/plain_search.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "nearfield/engine/types.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/rpc/caller_name.h"
#include "server/rpc/waiting_call.h"

namespace nearfield::server {
namespace {

// Memory of a query of a message in addition to its vector.
constexpr int64_t kQueryBytes = sizeof(pb::Query) + sizeof(pb::VectorBlock) + 64;

struct HeldRequest {
  ByteAccount::Hold hold;  // destroyed after the message
  pb::SearchRequest message;
};

// Errors: InvalidArgument (a size), ResourceExhausted (above request_bytes_max, or no memory).
absl::StatusOr<std::shared_ptr<const pb::SearchRequest>> RequestOf(Folder* folder,
                                                                   const nf_plain_search& search,
                                                                   const std::string& caller) {
  ABSL_RETURN_IF_ERROR(CheckRange("dim", search.dim, 1, kDimMax));
  ABSL_RETURN_IF_ERROR(
      CheckRange("queries_count", search.queries_count, 1, folder->state().limits().queries_max));
  const auto vector_bytes = static_cast<size_t>(search.dim) * sizeof(float);
  const int64_t bytes = search.queries_count * static_cast<int64_t>(vector_bytes);
  const int64_t bytes_max = folder->settings().request_bytes_max.value();
  if (bytes > bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat("queries: ", bytes, " bytes, the limit request_bytes_max is ", bytes_max));
  }
  const auto held = std::make_shared<HeldRequest>();
  ABSL_ASSIGN_OR_RETURN(held->hold, folder->state().ledger().requests.Reserve(
                                        caller, bytes + search.queries_count * kQueryBytes));
  pb::SearchRequest& request = held->message;
  request.set_collection(search.collection);
  request.set_k(static_cast<uint32_t>(search.k));
  request.set_packed(true);
  if (search.min_epoch != 0) request.set_min_epoch(search.min_epoch);
  if (search.incarnation != 0) request.set_incarnation(search.incarnation);
  // Protobuf's own functions leave a query without a vector where memory for one is exhausted.
  request.mutable_queries()->Reserve(static_cast<int>(search.queries_count));
  const float* vector = search.queries;
  for (int64_t i = 0; i < search.queries_count; ++i, vector += search.dim) {
    auto encoded = std::make_unique<pb::VectorBlock>();
    encoded->set_dtype(pb::DATA_TYPE_FLOAT32);
    encoded->set_data(vector, vector_bytes);
    request.add_queries()->set_allocated_encoded(encoded.release());
  }
  return std::shared_ptr<const pb::SearchRequest>(held, &request);
}

nf_plain_result ResultOf(const pb::SearchResponse& response, const std::string& request_id) {
  const pb::SearchCost& cost = response.cost();
  nf_plain_result result = {
      .hits_count = static_cast<int64_t>(response.packed().scores().size() / sizeof(float)),
      .epoch = response.epoch(),
      .incarnation = response.incarnation(),
      .queue_us = cost.queue_us(),
      .device_us = cost.device_us(),
      .total_us = cost.total_us(),
      .candidates = cost.candidates(),
      .rows_scanned = cost.rows_scanned(),
      .bytes_read = cost.bytes_read(),
      .escalations_tighter = cost.escalations().tighter(),
      .escalations_canonical = cost.escalations().canonical(),
      .read_ns_min = cost.read_ns_min(),
      .batch_size = cost.batch_size(),
      .backend = cost.backend(),
      .scan_precision = cost.scan_precision(),
      .reserved = 0,
      .request_id = {}};
  request_id.copy(result.request_id, sizeof(result.request_id) - 1);
  return result;
}

void Copy(const std::string& bytes, void* to) { bytes.copy(static_cast<char*>(to), bytes.size()); }

}  // namespace

CallEnd PlainSearch(Folder* folder, const nf_plain_search& search, CallFacts facts,
                    nf_plain_result* result, std::string* message) {
  pb::SearchResponse response;  // outlives the call
  WaitingUnary call(std::move(facts));
  auto request = RequestOf(folder, search, CallerOf(call.facts()));
  NearfieldService& service = folder->service();
  call.Bind(request.ok() ? service.Search({&call, *std::move(request), &response})
                         : service.Refuse(&call, "Search", request.status()));
  CallEnd end = call.AwaitEnd();
  if (!end.status.ok()) return end;
  if (!response.has_packed()) {
    response.SerializeToString(message);
    return end;
  }
  *result = ResultOf(response, end.request_id);
  Copy(response.packed().ids(), search.ids);
  Copy(response.packed().scores(), search.scores);
  Copy(response.packed().counts(), search.counts);
  return end;
}

}  // namespace nearfield::server
