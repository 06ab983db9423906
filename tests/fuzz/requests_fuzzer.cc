// Takes arbitrary bytes as calls of a server in this process, by way of its C ABI: each call has a
// method, which the descriptors of the services name, and messages, as bytes or as instructions
// that build them. Every call must end as its contract allows: never with INTERNAL, UNKNOWN or
// DATA_LOSS; a refused argument names a field and a reason.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "server/c_abi/nearfield.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/message_builder.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/scratch_folder.h"

namespace nearfield::fuzz {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;
namespace pb = ::nearfield::v1;

constexpr int kCallsMax = 8;     // of one input
constexpr int kMessagesMax = 6;  // of one call
constexpr int kLevelsMax = 12;   // more than a filter may have
constexpr size_t kMessageBytesMax = 1024;
constexpr nf_options kOptions = {.timeout_us = 5'000'000, .caller = "fuzz", .request_id = nullptr};

std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const char* const name : {"Retrieval", "Ingest", "Admin"}) {
    const auto* const service = DescriptorPool::generated_pool()->FindServiceByName(
        std::string("nearfield.v1.").append(name));
    for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i));
  }
  return methods;
}

std::unique_ptr<Message> NewMessage(const google::protobuf::Descriptor* type) {
  return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// Returns an update that the collection "c" accepts, so that edits of it get past the checks.
pb::UpdateRequest ValidUpdate() {
  pb::UpdateRequest update;
  update.set_collection("c");
  for (const char* const name : {"n", "k"}) {
    pb::AttributeUpdate* const attribute = update.add_attributes();
    attribute->mutable_column()->set_attribute(name);
    attribute->set_changed("\x05");
    attribute->mutable_column()->set_presence("\x04");
  }
  update.mutable_attributes(0)->mutable_column()->mutable_values()->add_int64_values(2);
  update.mutable_attributes(1)->mutable_column()->mutable_values()->add_keyword_values("a");
  for (uint64_t id = 0; id < 3; ++id) {
    update.mutable_ids()->add_numbers(id);
    update.mutable_payloads()->add_payloads("new");
  }
  update.set_if_filter_text("not exists(n)");
  update.set_update_token("token");
  return update;
}

// Returns terms that the collection "c" accepts.
pb::RowTerms ValidTerms() {
  pb::RowTerms terms;
  terms.set_score_weight(0.5);
  pb::RowTerm* term = terms.add_terms();
  term->set_attribute("n");
  term->set_missing(1);
  term->mutable_clamped()->set_low(-1);
  term->mutable_clamped()->set_high(2);
  term = terms.add_terms();
  term->set_attribute("n");
  term->mutable_half_life()->set_half_life(2);
  term->mutable_half_life()->set_origin(1);
  term = terms.add_terms();
  term->set_weight(3);
  term->mutable_filter()->set_filter_text("n > 1");
  return terms;
}

// Returns a search for groups that the collection "c" accepts.
pb::SearchRequest ValidGroups() {
  pb::SearchRequest search;
  search.set_collection("c");
  search.add_queries()->mutable_vector()->mutable_values()->Resize(2, 1.0f);
  search.set_k(2);
  search.set_group_by("n");
  search.set_group_rows(2);
  search.set_with_cursor(true);
  search.set_with_parts(true);
  *search.mutable_terms() = ValidTerms();
  return search;
}

pb::FacetsRequest ValidFacets() {
  pb::FacetsRequest facets;
  facets.set_collection("c");
  facets.add_attributes("n");
  facets.mutable_query()->mutable_row_id()->set_number(1);
  facets.set_score_threshold(0);
  *facets.mutable_terms() = ValidTerms();
  return facets;
}

// Sets a request that the collection "c" accepts, for some methods.
void SetValid(const MethodDescriptor& method, Message* request) {
  if (method.name() == "Update") request->CopyFrom(ValidUpdate());
  if (method.name() == "Search") request->CopyFrom(ValidGroups());
  if (method.name() == "Facets") request->CopyFrom(ValidFacets());
}

// Returns true if a call of this method may change the collections.
bool Changes(const MethodDescriptor& method) {
  const std::string& name = method.name();
  const auto begins = [&name](const char* start) { return name.rfind(start, 0) == 0; };
  return method.service()->name() != "Retrieval" && !begins("Get") && !begins("List") &&
         !begins("Verify");
}

void RequireAllowedEnd(const MethodDescriptor& method, const nf_reply& reply) {
  const std::string_view message = reply.message;
  google::rpc::Status status;
  const bool readable =
      status.ParseFromArray(reply.details, static_cast<int>(reply.details_size)) &&
      message.size() <= kMessageBytesMax && (reply.code == NF_OK || !message.empty());
  bool names_field = reply.code != static_cast<int>(absl::StatusCode::kInvalidArgument);
  for (const auto& detail : status.details()) {
    google::rpc::BadRequest bad;
    if (detail.UnpackTo(&bad) && bad.field_violations_size() > 0) {
      names_field = names_field || (!bad.field_violations(0).field().empty() &&
                                    !bad.field_violations(0).description().empty());
    }
  }
  using enum absl::StatusCode;
  constexpr absl::StatusCode kNever[] = {kUnknown, kInternal, kDataLoss, kUnauthenticated,
                                         kPermissionDenied};
  const auto is_code = [&](absl::StatusCode code) { return static_cast<int>(code) == reply.code; };
  if (readable && names_field && std::none_of(std::begin(kNever), std::end(kNever), is_code))
    return;
  std::fprintf(stderr, "%s ended with %d: %s\n", method.full_name().c_str(), reply.code,
               reply.message);
  std::abort();
}

class FuzzedServer {
 public:
  FuzzedServer() {
    const std::string settings =
        "data_dir = " + folder_ / "data" + "\nsnapshot_dir = " + folder_ / "snapshots" +
        "\nbackend = cpu\nthreads = 1\nfilter_threads = 1\nmemory_bytes = 32MiB\n"
        "host_memory_bytes = 32MiB\nattribute_memory_bytes = 16MiB\nrequest_bytes_max = 1MiB\n"
        "response_bytes_max = 1MiB\nsnapshots_max = 4\n"
        "scrub_interval_s = 0\naudit_one_in = 1\n";
    nf_reply reply;
    if (nf_open(settings.c_str(), &server_, &reply) != NF_OK) {
      std::fprintf(stderr, "%s\n", reply.message);
      std::abort();
    }
    nf_free(&reply);
    MakeCollections();
  }
  ~FuzzedServer() { nf_close(server_); }

  void Run(std::string_view bytes) {
    InputReader input(bytes);
    MessageBuilder builder({"c", "s", "alias", "n", "k", "", "new", "n > 1 and k == \"a\"",
                            "id in (1, 2)", "a", "snapshot", "../x"},
                           &input);
    bool changed = false;
    for (int call = 0; call < kCallsMax && !input.empty(); ++call) {
      const MethodDescriptor& method = *methods_[input.Take(1) % methods_.size()];
      changed = changed || Changes(method);
      Call(method, input, builder);
    }
    if (changed) Reset();
  }

 private:
  static std::string PathOf(const MethodDescriptor& method) {
    return "/" + method.service()->full_name() + "/" + method.name();
  }

  // Returns the next request of the input, serialized.
  static std::string Request(const MethodDescriptor& method, InputReader& input,
                             MessageBuilder& builder) {
    if (input.Take(1) % 8 == 0) return std::string(input.TakeBytes(255));
    const std::unique_ptr<Message> request = NewMessage(method.input_type());
    if (input.Take(1) % 4 != 0) SetValid(method, request.get());
    builder.Fill(kLevelsMax, request.get());
    std::string bytes = request->SerializeAsString();
    if (input.Take(1) % 8 == 0) input.Edit(&bytes);
    return bytes;
  }

  static void Learn(const MethodDescriptor& method, const nf_reply& reply,
                    MessageBuilder& builder) {
    const std::unique_ptr<Message> message = NewMessage(method.output_type());
    Require(message->ParseFromArray(reply.data, static_cast<int>(reply.size)));
    builder.Learn(*message);
  }

  void Call(const MethodDescriptor& method, InputReader& input, MessageBuilder& builder) const {
    if (method.client_streaming() || method.server_streaming()) {
      return CallStream(method, input, builder);
    }
    const std::string request = Request(method, input, builder);
    nf_reply reply;
    nf_call(server_, PathOf(method).c_str(), request.data(), request.size(), &kOptions, &reply);
    RequireAllowedEnd(method, reply);
    if (reply.code == NF_OK) Learn(method, reply, builder);
    nf_free(&reply);
  }

  void CallStream(const MethodDescriptor& method, InputReader& input,
                  MessageBuilder& builder) const {
    const bool sends = method.client_streaming();
    const std::string first = sends ? "" : Request(method, input, builder);
    nf_stream stream = 0;
    nf_reply reply;
    nf_begin(server_, PathOf(method).c_str(), sends ? nullptr : first.data(), first.size(),
             &kOptions, &stream, &reply);
    RequireAllowedEnd(method, reply);
    nf_free(&reply);
    if (sends) {
      for (uint64_t count = input.Take(1) % kMessagesMax; count > 0; --count) {
        const std::string request = Request(method, input, builder);
        if (nf_send(stream, request.data(), request.size()) == 0) break;
      }
    }
    if (input.Take(1) % 16 == 0) {
      nf_cancel(stream);
    } else if (sends) {
      nf_send(stream, nullptr, 0);
    }
    while (nf_receive(stream, &reply) == 1) {
      Learn(method, reply, builder);
      nf_free(&reply);
    }
    RequireAllowedEnd(method, reply);
    nf_free(&reply);
    nf_end(stream);
  }

  // Makes a call that must succeed.
  template <typename Response, typename Request>
  Response Make(const char* method, const Request& request) const {
    const std::string bytes = request.SerializeAsString();
    nf_reply reply;
    if (nf_call(server_, method, bytes.data(), bytes.size(), nullptr, &reply) != NF_OK) {
      std::fprintf(stderr, "%s: %s\n", method, reply.message);
      std::abort();
    }
    Response response;
    Require(response.ParseFromArray(reply.data, static_cast<int>(reply.size)));
    nf_free(&reply);
    return response;
  }

  // Makes the collections "c", with numbers as ids and attributes, and "s", with texts.
  void MakeCollections() const {
    for (const bool texts : {false, true}) {
      pb::CreateCollectionRequest create;
      create.set_name(texts ? "s" : "c");
      create.set_dim(2);
      create.set_metric(texts ? pb::METRIC_COSINE : pb::METRIC_DOT);
      create.set_dtype(pb::DATA_TYPE_FLOAT32);
      create.set_id_type(texts ? pb::ID_TYPE_STRING : pb::ID_TYPE_UINT64);
      pb::AttributeSpec* attribute = create.add_attributes();
      attribute->set_name("n");
      attribute->set_type(pb::ATTRIBUTE_TYPE_INT64);
      attribute = create.add_attributes();
      attribute->set_name("k");
      attribute->set_type(pb::ATTRIBUTE_TYPE_KEYWORD);
      attribute->set_is_list(texts);
      Make<pb::CreateCollectionResponse>("/nearfield.v1.Admin/CreateCollection", create);
      Upload(texts);
    }
    pb::SetAliasRequest alias;
    alias.set_alias("alias");
    alias.set_collection("c");
    Make<pb::SetAliasResponse>("/nearfield.v1.Admin/SetAlias", alias);
  }

  void Upload(bool texts) const {
    constexpr uint32_t kRows = 6;
    pb::UploadRequest begin;
    begin.mutable_begin()->set_collection(texts ? "s" : "c");
    begin.mutable_begin()->set_rows_max(kRows);
    begin.mutable_begin()->set_payload_bytes_max(kRows);
    pb::UploadRequest rows;
    pb::UploadBlock* const block = rows.mutable_block();
    block->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    pb::AttributeColumn* const numbers = block->add_attributes();
    numbers->set_attribute("n");
    numbers->set_presence("\x3d");  // the second row has no value
    for (const int64_t value : {1, 2, 1, 3, 2}) numbers->mutable_values()->add_int64_values(value);
    for (uint32_t row = 0; row < kRows; ++row) {
      if (texts) {
        block->mutable_ids()->add_texts(std::string(1, static_cast<char>('a' + row)));
      } else {
        block->mutable_ids()->add_numbers(row);
      }
      block->add_payloads("p");
      const float values[] = {static_cast<float>(row % 3), 1.0f};
      block->mutable_vectors()->mutable_data()->append(reinterpret_cast<const char*>(values),
                                                       sizeof(values));
    }
    pb::UploadRequest commit;
    commit.mutable_commit();
    nf_stream stream = 0;
    nf_reply reply;
    nf_begin(server_, "/nearfield.v1.Ingest/Upload", nullptr, 0, nullptr, &stream, &reply);
    nf_free(&reply);
    for (const pb::UploadRequest& request : {begin, rows, commit}) {
      const std::string bytes = request.SerializeAsString();
      nf_send(stream, bytes.data(), bytes.size());
    }
    while (nf_receive(stream, &reply) == 1) nf_free(&reply);
    if (reply.code != NF_OK) std::fprintf(stderr, "an upload: %s\n", reply.message);
    Require(reply.code == NF_OK);
    nf_free(&reply);
    nf_end(stream);
  }

  // Returns to the state before the input, so that an input does the same again.
  void Reset() const {
    const auto collections = Make<pb::ListCollectionsResponse>(
        "/nearfield.v1.Admin/ListCollections", pb::ListCollectionsRequest());
    for (const pb::CollectionInfo& info : collections.collections()) {
      pb::DropCollectionRequest drop;
      drop.set_name(info.name());
      Make<pb::DropCollectionResponse>("/nearfield.v1.Admin/DropCollection", drop);
    }
    const auto snapshots = Make<pb::ListSnapshotsResponse>("/nearfield.v1.Admin/ListSnapshots",
                                                           pb::ListSnapshotsRequest());
    for (const pb::SnapshotInfo& info : snapshots.snapshots()) {
      pb::DeleteSnapshotRequest remove;
      remove.set_name(info.name());
      Make<pb::DeleteSnapshotResponse>("/nearfield.v1.Admin/DeleteSnapshot", remove);
    }
    const auto counters =
        Make<pb::GetCountersResponse>("/nearfield.v1.Admin/GetCounters", pb::GetCountersRequest());
    Require(counters.audit().mismatches_count() == 0);
    MakeCollections();
  }

  const ScratchFolder folder_;
  const std::vector<const MethodDescriptor*> methods_ = AllMethods();
  nf_server server_ = 0;
};

}  // namespace
}  // namespace nearfield::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static nearfield::fuzz::FuzzedServer server;
  server.Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
