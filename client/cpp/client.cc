#include "nearfield/client/client.h"

#include "client/cpp/attribute_convert.h"
#include "client/cpp/check_address.h"
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/identity.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/term_convert.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr size_t kCallerBytesMax = 128;

// A header may contain printable ASCII only.
absl::Status CheckCaller(std::string_view caller) {
  if (caller.size() > kCallerBytesMax) {
    return absl::InvalidArgumentError(
        Cat("caller: ", caller.size(), " characters, must be at most ", kCallerBytesMax));
  }
  for (const char c : caller) {
    if (c >= ' ' && c <= '~') continue;
    return absl::InvalidArgumentError("caller: only printable ASCII characters can be sent");
  }
  return absl::OkStatus();
}

// Returns a request to that collection.
template <typename Request>
absl::StatusOr<Request> RequestFor(std::string_view collection) {
  NF_RETURN_IF_ERROR(CheckText("collection", collection));
  Request request;
  request.set_collection(std::string(collection));
  return request;
}

DeleteAnswer FromProto(const v1::DeleteResponse& response) {
  return {.epoch = response.epoch(),
          .incarnation = response.incarnation(),
          .rows_deleted = response.rows_deleted()};
}

}  // namespace

absl::StatusOr<Client> Client::Connect(const ClientOptions& options) {
  NF_RETURN_IF_ERROR(CheckAddress(options.address));
  if (options.deadline.count() <= 0) {
    return absl::InvalidArgumentError(
        Cat("deadline: ", options.deadline.count(), " ms; it must be at least 1 ms"));
  }
  if (options.retry.tries_max < 1) {
    return absl::InvalidArgumentError(
        Cat("retry.tries_max: ", options.retry.tries_max, "; it must be at least 1"));
  }
  NF_RETURN_IF_ERROR(CheckCaller(options.caller));
  NF_ASSIGN_OR_RETURN(const Identity identity, ReadIdentity(options));
  return Client(std::make_shared<Core>(options, Clock::Real(), identity));
}

absl::StatusOr<SearchAnswer> Client::Search(std::string_view collection,
                                            std::span<const Query> queries,
                                            const SearchOptions& options) {
  NF_RETURN_IF_ERROR(CheckText(collection, queries));
  const Core::CallSpec spec = core_->SpecFrom(options.deadline);
  v1::SearchRequest request;
  NF_RETURN_IF_ERROR(ToProto(collection, queries, options, &request));
  NF_RETURN_IF_ERROR(core_->CheckRequestBytes(request.ByteSizeLong(), spec));
  std::string request_id;
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&RetrievalStub::Search, request, spec, &request_id));
  NF_ASSIGN_OR_RETURN(SearchAnswer answer, FromProto(&response));
  NF_RETURN_IF_ERROR(CheckResults(answer, queries.size()));
  answer.request_id = std::move(request_id);
  return answer;
}

absl::StatusOr<SearchAnswer> Client::Search(std::string_view collection,
                                            std::span<const float> query,
                                            const SearchOptions& options) {
  const Query queries[] = {query};
  return Search(collection, std::span<const Query>(queries), options);
}

absl::StatusOr<FetchAnswer> Client::Fetch(std::string_view collection, const IdColumn& ids,
                                          const FetchOptions& options) {
  NF_ASSIGN_OR_RETURN(auto request, RequestFor<v1::FetchRequest>(collection));
  NF_RETURN_IF_ERROR(CheckText("ids", ids));
  const Core::CallSpec spec = core_->SpecFrom(options.deadline);
  ToProto(ids, 0, client::Count(ids), request.mutable_ids());
  request.set_with_payload(options.with_payload);
  request.set_with_vectors(options.with_vectors);
  NF_RETURN_IF_ERROR(AddNames(options.attributes, request.mutable_attributes()));
  if (options.min_epoch) request.set_min_epoch(*options.min_epoch);
  if (options.at_epoch) request.set_at_epoch(*options.at_epoch);
  if (options.incarnation) request.set_incarnation(*options.incarnation);
  NF_RETURN_IF_ERROR(core_->CheckRequestBytes(request.ByteSizeLong(), spec));
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&RetrievalStub::Fetch, request, spec));
  return FromProto(&response);
}

absl::StatusOr<CountAnswer> Client::Count(std::string_view collection,
                                          const CountOptions& options) {
  NF_ASSIGN_OR_RETURN(auto request, RequestFor<v1::CountRequest>(collection));
  NF_RETURN_IF_ERROR(SetFilter(options.filter, &request));
  if (options.min_epoch) request.set_min_epoch(*options.min_epoch);
  if (options.at_epoch) request.set_at_epoch(*options.at_epoch);
  if (options.incarnation) request.set_incarnation(*options.incarnation);
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&RetrievalStub::Count, request, Retried(options)));
  return CountAnswer{.epoch = response.epoch(),
                     .incarnation = response.incarnation(),
                     .rows_count = response.rows_count()};
}

absl::StatusOr<PinnedEpoch> Client::PinEpoch(std::string_view collection,
                                             const PinOptions& options) {
  NF_ASSIGN_OR_RETURN(auto request, RequestFor<v1::PinEpochRequest>(collection));
  if (options.at_epoch) request.set_at_epoch(*options.at_epoch);
  if (options.min_epoch) request.set_min_epoch(*options.min_epoch);
  if (options.incarnation) request.set_incarnation(*options.incarnation);
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&RetrievalStub::PinEpoch, request, Retried(options)));
  return PinnedEpoch{.epoch = response.epoch(),
                     .incarnation = response.incarnation(),
                     .rows_count = response.rows_count(),
                     .kept = std::chrono::milliseconds(response.kept_ms())};
}

absl::StatusOr<DeleteAnswer> Client::Delete(std::string_view collection, const IdColumn& ids,
                                            const CallOptions& options) {
  NF_ASSIGN_OR_RETURN(auto request, RequestFor<v1::DeleteRequest>(collection));
  NF_RETURN_IF_ERROR(CheckText("ids", ids));
  const Core::CallSpec spec = core_->SpecFrom(options.deadline);
  ToProto(ids, 0, client::Count(ids), request.mutable_ids());
  NF_RETURN_IF_ERROR(core_->CheckRequestBytes(request.ByteSizeLong(), spec));
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&IngestStub::Delete, request, spec));
  return FromProto(response);
}

absl::StatusOr<DeleteAnswer> Client::Delete(std::string_view collection, const Filter& filter,
                                            const CallOptions& options) {
  NF_ASSIGN_OR_RETURN(auto request, RequestFor<v1::DeleteRequest>(collection));
  NF_RETURN_IF_ERROR(SetFilter(filter, &request));
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&IngestStub::Delete, request, Retried(options)));
  return FromProto(response);
}

absl::StatusOr<VerifyAnswer> Client::Verify(std::string_view collection, const Query& query,
                                            const VerifyClaim& claim, const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText(collection, std::span<const Query>(&query, 1)));
  v1::VerifyRequest request;
  request.set_collection(std::string(collection));
  ToProto(query, request.mutable_query());
  request.set_k(claim.k);
  if (claim.epoch) request.set_epoch(*claim.epoch);
  NF_RETURN_IF_ERROR(SetFilter(claim.filter, &request));
  NF_RETURN_IF_ERROR(SetTerms(claim.terms, &request));
  if (claim.score_threshold) request.set_score_threshold(*claim.score_threshold);
  if (claim.skip > 0) request.set_skip(claim.skip);
  if (claim.neighbors != nullptr) {
    NF_RETURN_IF_ERROR(CheckText("claim.ids", claim.neighbors->ids));
    ToProto(*claim.neighbors, request.mutable_claim());
  }
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::Verify, request, Retried(options)));
  return FromProto(&response);
}

absl::StatusOr<CollectionInfo> Client::CreateCollection(const CollectionSpec& spec,
                                                        const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("name", spec.name));
  NF_RETURN_IF_ERROR(CheckText("embedding_model", spec.embedding_model));
  v1::CreateCollectionRequest request;
  request.set_name(spec.name);
  request.set_dim(spec.dim);
  request.set_metric(ToProto(spec.metric));
  request.set_dtype(ToProto(spec.dtype));
  request.set_id_type(ToProto(spec.id_type));
  request.set_scan(ToProto(spec.scan));
  request.set_rows(ToProto(spec.rows));
  request.set_devices(spec.devices);
  request.set_embedding_model(spec.embedding_model);
  for (const AttributeSpec& attribute : spec.attributes) {
    NF_RETURN_IF_ERROR(ToProto(attribute, request.add_attributes()));
  }
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&AdminStub::CreateCollection, request, Once(options)));
  return FromProto(response.mutable_collection());
}

absl::StatusOr<uint64_t> Client::DropCollection(std::string_view name, const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("name", name));
  v1::DropCollectionRequest request;
  request.set_name(std::string(name));
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&AdminStub::DropCollection, request, Once(options)));
  return response.rows_count();
}

absl::Status Client::DropCollectionIfEmpty(std::string_view name,
                                           std::optional<uint64_t> incarnation,
                                           const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("name", name));
  v1::DropCollectionRequest request;
  request.set_name(std::string(name));
  request.set_only_if_empty(true);
  if (incarnation) request.set_incarnation(*incarnation);
  return core_->Call(&AdminStub::DropCollection, request, Once(options)).status();
}

absl::StatusOr<CollectionInfo> Client::GetCollection(std::string_view name,
                                                     const CallOptions& options) {
  NF_RETURN_IF_ERROR(CheckText("name", name));
  v1::GetCollectionRequest request;
  request.set_name(std::string(name));
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&AdminStub::GetCollection, request, Retried(options)));
  return FromProto(response.mutable_collection());
}

absl::StatusOr<std::vector<CollectionInfo>> Client::ListCollections(const CallOptions& options) {
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&AdminStub::ListCollections, {}, Retried(options)));
  std::vector<CollectionInfo> collections;
  for (v1::CollectionInfo& proto : *response.mutable_collections()) {
    NF_ASSIGN_OR_RETURN(CollectionInfo info, FromProto(&proto));
    collections.push_back(std::move(info));
  }
  return collections;
}

absl::StatusOr<Limits> Client::GetLimits(const CallOptions& options) {
  return core_->GetLimits({.deadline = options.deadline});
}

absl::StatusOr<Capacity> Client::GetCapacity(const CallOptions& options) {
  NF_ASSIGN_OR_RETURN(auto response, core_->Call(&AdminStub::GetCapacity, {}, Retried(options)));
  return FromProto(response);
}

}  // namespace nearfield::client
