// The law of the HTTP port: a request has the same answer as over the service itself, to the bit,
// or the same error.
#include <google/protobuf/util/json_util.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "google/rpc/status.pb.h"
#include "nearfield/engine/engine.h"
#include "server/convert/error_details.h"
#include "server/http/json_writer.h"
#include "server/rpc/methods.h"
#include "server/rpc/waiting_call.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/message_builder.h"
#include "tests/server/http/http_fixture.h"
#include "tests/server/http/service_methods.h"
#include "tests/testing/random.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using google::protobuf::Message;

// The end of a call and its responses, without what differs between two calls.
struct Outcome {
  int code = 0;
  std::string message;
  std::string responses;  // serialized, each with its size

  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  return out << outcome.code << " " << outcome.message << " " << outcome.responses.size()
             << " bytes";
}

void ClearTimes(Message* message) {
  const auto& reflection = *message->GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const auto* const field : fields) {
    const std::string& name = field->name();
    if (name == "cost" || name == "oracle_us" || name == "untouched_s" || name == "next_cursor") {
      reflection.ClearField(message, field);
    } else if (field->message_type() != nullptr && !field->is_repeated()) {
      ClearTimes(reflection.MutableMessage(message, field));
    } else if (field->message_type() != nullptr) {
      for (int i = 0; i < reflection.FieldSize(*message, field); ++i) {
        ClearTimes(reflection.MutableRepeatedMessage(message, field, i));
      }
    }
  }
}

// Clears the epochs for which a call would wait.
void ClearWaits(Message* request) {
  const auto& reflection = *request->GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  reflection.ListFields(*request, &fields);
  for (const auto* const field : fields) {
    if (field->name() == "min_epoch") reflection.ClearField(request, field);
    if (field->name() == "search") ClearWaits(reflection.MutableMessage(request, field));
  }
}

void Add(Message* response, Outcome* outcome) {
  ClearTimes(response);
  const std::string bytes = response->SerializeAsString();
  outcome->responses += std::to_string(bytes.size()) + ":" + bytes;
}

// Makes calls of methods by their name on the service.
class Direct {
 public:
  explicit Direct(NearfieldService* service) {
    const auto add = [&](const char* name, auto method) { Add(name, service, method); };
    VisitRetrieval(add);
    VisitIngest(add);
    VisitAdmin(add);
  }
  Outcome Call(std::string_view rpc, const Message& request) { return calls_.at(rpc)(request); }

 private:
  template <typename Request, typename Response>
  void Add(const char* name, NearfieldService* service,
           ActiveCallPtr (NearfieldService::*method)(Rpc<Request, Response>)) {
    calls_[name] = [=](const Message& message) {
      Response response;
      WaitingUnary call;
      call.Bind((service->*method)(
          {&call, std::make_shared<const Request>(static_cast<const Request&>(message)),
           &response}));
      Outcome outcome = OutcomeOf(call.AwaitEnd());
      if (outcome.code == 0) server::Add(&response, &outcome);
      return outcome;
    };
  }
  template <typename Request, typename Response>
  void Add(const char* name, NearfieldService* service,
           ActiveCallPtr (NearfieldService::*method)(ReplyStream<Response>*,
                                                     std::shared_ptr<const Request>)) {
    calls_[name] = [=](const Message& message) {
      WaitingReplies<ReplyStream<Response>, Response> call;
      call.Bind((service->*method)(
          &call, std::make_shared<const Request>(static_cast<const Request&>(message))));
      Outcome outcome;
      Response response;
      while (call.Next(&response)) server::Add(&response, &outcome);
      const Outcome end = OutcomeOf(call.AwaitEnd());
      outcome.code = end.code;
      outcome.message = end.message;
      return outcome;
    };
  }
  // A stream of one search has the answer of this search.
  void Add(const char* name, NearfieldService* /*service*/,
           ActiveCallPtr (NearfieldService::* /*method*/)(SearchMessages*)) {
    calls_[name] = [this](const Message& message) {
      return Call("nearfield.v1.Retrieval.Search", message);
    };
  }
  void Add(const char* /*name*/, NearfieldService* /*service*/,
           ActiveCallPtr (NearfieldService::*)(UploadMessages*)) {}

  static Outcome OutcomeOf(const CallEnd& end) {
    return {.code = static_cast<int>(end.status.code()),
            .message = DetailsOf(end.status, end.retry_after_ms).message,
            .responses = {}};
  }

  std::map<std::string_view, std::function<Outcome(const Message&)>> calls_;
};

// Returns terms that are valid for most values of their fields.
pb::RowTerms DrawTerms(testing::Random& random) {
  pb::RowTerms terms;
  terms.set_score_weight(static_cast<double>(random.Between(0, 4)) / 2);
  pb::RowTerm* term = terms.add_terms();
  term->set_attribute("n");
  term->set_weight(static_cast<double>(random.Between(-4, 5)) / 4);
  if (random.OneIn(2)) {
    term->mutable_half_life()->set_half_life(static_cast<double>(random.Between(0, 9)));
    term->mutable_half_life()->set_origin(static_cast<double>(random.Between(-3, 4)));
  } else {
    term->mutable_linear()->set_origin(static_cast<double>(random.Between(-3, 4)));
  }
  terms.add_terms()->mutable_filter()->set_filter_text("n > 1");
  return terms;
}

// Makes a request of some kinds one that is valid for most values of its fields.
void SetValid(testing::Random& random, Message* request) {
  pb::Query query;
  for (const float value : {1.5f, static_cast<float>(random.Between(-3, 4))}) {
    query.mutable_vector()->add_values(value);
  }
  if (auto* const search = dynamic_cast<pb::SearchRequest*>(request)) {
    search->Clear();
    *search->add_queries() = query;
    search->set_k(static_cast<uint32_t>(random.Between(0, 9)));
    search->set_with_payload(random.OneIn(2));
    search->set_with_digest(random.OneIn(2));
    search->set_with_parts(random.OneIn(2));
    if (random.OneIn(2)) *search->mutable_terms() = DrawTerms(random);
    if (random.OneIn(2)) return;
    search->set_group_by("n");
    search->set_group_rows(static_cast<uint32_t>(random.Between(1, 4)));
    search->set_with_cursor(random.OneIn(2));
  }
  if (auto* const facets = dynamic_cast<pb::FacetsRequest*>(request)) {
    facets->Clear();
    facets->add_attributes("n");
    facets->set_values_max(static_cast<uint32_t>(random.Between(0, 4)));
    if (random.OneIn(2)) return;
    *facets->mutable_query() = query;
    facets->set_score_threshold(static_cast<float>(random.Between(-4, 5)) / 4);
    if (random.OneIn(2)) *facets->mutable_terms() = DrawTerms(random);
  }
}

class HttpLawTest : public HttpFixture {
 protected:
  HttpLawTest() {
    Set(settings_.memory_bytes, "64MiB");
    Set(settings_.host_memory_bytes, "64MiB");
    Set(settings_.backend, "cpu");
    Set(settings_.threads, "1");
    make_engine_ = &Engine::Create;
  }

  void ServeCollections() {
    Serve();
    for (const char* const name : {"c", "d"}) {
      ASSERT_OK(
          Call(&Admin::CreateCollection,
               FromText("name: '" + std::string(name) +
                        "' dim: 2 metric: METRIC_COSINE dtype: DATA_TYPE_FLOAT32 id_type: "
                        "ID_TYPE_UINT64 attributes { name: 'n' type: ATTRIBUTE_TYPE_INT64 }")));
      pb::UploadRequest block = Block({0, 1, 2, 3, 5, 8, 13}, "payload");
      *block.mutable_block()->add_attributes() = FromText(  // row 8 has no value
          "attribute: 'n' presence: '\\137' values { int64_values: [1, 2, 1, 3, 2, 1] }");
      ASSERT_OK(Send({Begin(name, 7, 100), block, Commit()}));
    }
    ASSERT_OK(Call(&Admin::SetAlias, FromText("alias: 'a' collection: 'c'")));
  }

  // Returns the path of a route with this value of its fields.
  static std::string PathOf(const Route& route, const std::string& value) {
    std::string path(route.path);
    for (size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) {
      path.replace(at, path.find('}') + 1 - at, value);
    }
    return path;
  }

  Outcome OverHttp(const Route& route, const std::string& name, const Message& request,
                   ApiClient& client) {
    const auto& method = *google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
        std::string(route.rpc));
    std::string json;
    EXPECT_OK(ToJson(
        request, [](int64_t /*bytes*/) { return absl::OkStatus(); }, &json));
    const ApiAnswer answer =
        client.Call(std::string(route.verb), PathOf(route, name), route.takes_body() ? json : "");
    Outcome outcome;
    if (answer.status != 200) {
      google::rpc::Status status;
      EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(answer.body, &status).ok());
      outcome.code = status.code();
      outcome.message = status.message();
      return outcome;
    }
    for (size_t at = 0; at < answer.body.size();) {
      const size_t end = answer.body.find('\n', at);
      const std::unique_ptr<Message> response = NewMessage(*method.output_type());
      const auto read = google::protobuf::util::JsonStringToMessage(
          answer.body.substr(at, end - at), response.get());
      EXPECT_TRUE(read.ok()) << read << answer.body;
      Add(response.get(), &outcome);
      at = end + 1;
    }
    return outcome;
  }
};

// Random requests of every call that reads.
TEST_F(HttpLawTest, ARequestHasTheAnswerOfTheServiceOrItsError) {
  ServeCollections();
  Direct direct(&server_->service());
  testing::Random random(testing::TestSeed());
  std::map<std::string, int> answered;
  ApiClient client(port());
  for (int round = 0; round < 150; ++round) {
    for (const Route& route : Routes()) {
      const auto& method = *google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
          std::string(route.rpc));
      const bool reads = method.service()->name() == "Retrieval" || method.name() == "Verify" ||
                         method.name() == "GetCollection" || method.name() == "ListCollections";
      if (!reads) continue;
      const std::unique_ptr<Message> request = NewMessage(*method.input_type());
      std::string bytes(static_cast<size_t>(random.Between(0, 200)), '\0');
      for (char& byte : bytes) byte = static_cast<char>(random.Bits() % 128);
      fuzz::InputReader input(bytes);
      fuzz::MessageBuilder builder({"", "n", "n > 1", "id in (1, 2)"}, &input);
      if (route.takes_body()) builder.Fill(4, request.get());
      if (random.OneIn(2)) SetValid(random, request.get());
      ClearWaits(request.get());
      const std::string name = random.OneIn(8) ? "none" : random.OneIn(3) ? "a" : "d";
      PathFields fields = FindRoute(route.verb, PathOf(route, name)).fields;
      // The path names the collection.
      const std::unique_ptr<Message> named(request->New());
      named->CopyFrom(*request);
      if (!SetPathFields(fields, named.get()).ok()) continue;
      const Outcome expected = direct.Call(route.rpc, *named);
      const Outcome found = OverHttp(route, name, *request, client);
      ASSERT_EQ(found, expected) << route.rpc << " " << named->ShortDebugString();
      answered[method.name()] += expected.code == 0 ? 1 : 0;
      const auto* const search = dynamic_cast<const pb::SearchRequest*>(named.get());
      if (search != nullptr && search->has_group_by()) {
        answered["groups"] += expected.code == 0 ? 1 : 0;
      }
      if (search != nullptr && search->has_terms()) {
        answered["terms"] += expected.code == 0 ? 1 : 0;
      }
    }
  }
  for (const char* const kind : {"Search", "groups", "terms", "Facets"}) {
    EXPECT_GT(answered[kind], 10) << kind;
  }
}

TEST_F(HttpLawTest, TheDigestOfAnAnswerIsThatOfGrpc) {
  ServeCollections();
  pb::SearchRequest request = SearchFor("c", {1, -3});
  request.set_with_digest(true);
  request.set_k(7);
  pb::SearchResponse expected;
  ASSERT_OK(Search(request, &expected));
  const ApiAnswer answer = Post("/v1/collections/c/search",
                                R"({"queries": [{"vector": {"values": [1, -3]}}], "k": 7,
                                    "with_digest": true})");
  pb::SearchResponse found;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(answer.body, &found).ok());
  EXPECT_FALSE(expected.result_digest().empty());
  EXPECT_EQ(found.result_digest(), expected.result_digest());
}

}  // namespace
}  // namespace nearfield::server
