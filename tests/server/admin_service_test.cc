// Tests of Admin and health over a real channel, and of the server's life as callers see it.
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include "tests/server/server_fixture.h"
#include "tests/testing/status_matchers.h"

namespace nearfield::server {
namespace {

using ::testing::HasSubstr;

namespace hv = ::grpc::health::v1;
constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;

class AdminServiceTest : public ServerFixture {
 protected:
  hv::HealthCheckResponse::ServingStatus Health(const std::string& service) {
    hv::HealthCheckRequest request;
    request.set_service(service);
    hv::HealthCheckResponse response;
    grpc::ClientContext context;
    EXPECT_THAT(health_->Check(&context, request, &response), HasCode(grpc::StatusCode::OK))
        << service;
    return response.status();
  }
  void ExpectHealth(hv::HealthCheckResponse::ServingStatus status) {
    for (const char* service :
         {"", "nearfield.v1.Retrieval", "nearfield.v1.Ingest", "nearfield.v1.Admin"}) {
      EXPECT_EQ(Health(service), status) << service;
    }
  }
  grpc::Status Create(const std::function<void(pb::CreateCollectionRequest&)>& change,
                      pb::CreateCollectionResponse* response) {
    pb::CreateCollectionRequest request;
    request.set_name("c");
    request.set_dim(3);
    request.set_metric(pb::METRIC_L2);
    request.set_dtype(pb::DATA_TYPE_BFLOAT16);
    request.set_id_type(pb::ID_TYPE_STRING);
    change(request);
    grpc::ClientContext context;
    return admin_->CreateCollection(&context, request, response);
  }
  grpc::Status Verify(const std::function<void(pb::VerifyRequest&)>& change,
                      pb::VerifyResponse* response, grpc::ClientContext* context = nullptr) {
    pb::VerifyRequest request;
    request.set_collection("c");
    request.mutable_query()->mutable_vector()->add_values(1);
    request.mutable_query()->mutable_vector()->add_values(0);
    change(request);
    grpc::ClientContext own;
    return admin_->Verify(context == nullptr ? &own : context, request, response);
  }
  void ServeThreeRows() {
    Serve();
    ASSERT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
    ASSERT_THAT(UploadRows("c", {1, 2, 3}), HasCode(grpc::StatusCode::OK));
  }
};

TEST_F(AdminServiceTest, CollectionsAreCreatedDescribedListedAndDropped) {
  Set(settings_.collections_max, "2");
  Serve();
  pb::CreateCollectionResponse created;
  ASSERT_THAT(Create([](auto&) {}, &created), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(created.collection().name(), "c");
  EXPECT_EQ(created.collection().dim(), 3u);
  EXPECT_EQ(created.collection().metric(), pb::METRIC_L2);
  EXPECT_EQ(created.collection().dtype(), pb::DATA_TYPE_BFLOAT16);
  EXPECT_EQ(created.collection().id_type(), pb::ID_TYPE_STRING);
  EXPECT_EQ(created.collection().epoch(), 0u);
  EXPECT_THAT(Create([](auto&) {}, &created), HasCode(grpc::StatusCode::ALREADY_EXISTS));
  ASSERT_THAT(CreateCollection("a"), HasCode(grpc::StatusCode::OK));
  ASSERT_THAT(UploadRows("a", {1, 2}), HasCode(grpc::StatusCode::OK));
  EXPECT_THAT(CreateCollection("b"), HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                                       HasSubstr("collections_max is 2")));
  {
    pb::ListCollectionsResponse list;
    grpc::ClientContext context;
    ASSERT_THAT(admin_->ListCollections(&context, {}, &list), HasCode(grpc::StatusCode::OK));
    ASSERT_EQ(list.collections_size(), 2);
    EXPECT_EQ(list.collections(0).name(), "a");
    EXPECT_EQ(list.collections(0).rows_count(), 2u);
    EXPECT_EQ(list.collections(0).device_bytes(), static_cast<uint64_t>(2 * kDeviceRowBytes));
    EXPECT_EQ(list.collections(0).scan(), pb::SCAN_CHOICE_AUTO);
    EXPECT_EQ(list.collections(0).scan_precision(), pb::SCAN_PRECISION_ROWS);
    EXPECT_EQ(list.collections(1).name(), "c");
  }
  pb::GetCollectionRequest get;
  get.set_name("a");
  pb::GetCollectionResponse got;
  {
    grpc::ClientContext context;
    ASSERT_THAT(admin_->GetCollection(&context, get, &got), HasCode(grpc::StatusCode::OK));
    EXPECT_EQ(got.collection().epoch(), 1u);
  }
  pb::DropCollectionRequest drop;
  drop.set_name("a");
  pb::DropCollectionResponse dropped;
  {
    grpc::ClientContext context;
    ASSERT_THAT(admin_->DropCollection(&context, drop, &dropped), HasCode(grpc::StatusCode::OK));
    EXPECT_EQ(dropped.rows_count(), 2u);
  }
  grpc::ClientContext again;
  EXPECT_THAT(admin_->DropCollection(&again, drop, &dropped), HasCode(grpc::StatusCode::NOT_FOUND));
  grpc::ClientContext gone;
  EXPECT_THAT(admin_->GetCollection(&gone, get, &got), HasCode(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(CreateCollection("a"), HasCode(grpc::StatusCode::OK)) << "the name is free at once";
}

TEST_F(AdminServiceTest, EveryBadCollectionIsNamed) {
  Serve();
  pb::CreateCollectionResponse response;
  const auto code = [&](const std::function<void(pb::CreateCollectionRequest&)>& change) {
    return Create(change, &response);
  };
  EXPECT_THAT(code([](auto& r) { r.set_name("a/b"); }),
              HasCodeAndMessage(kInvalid, HasSubstr("name: \"a/b\"")));
  EXPECT_THAT(code([](auto& r) { r.clear_name(); }), HasCode(kInvalid));
  EXPECT_THAT(code([](auto& r) { r.set_dim(0); }),
              HasCodeAndMessage(kInvalid, HasSubstr("dim = 0, must be 1 .. 8192")));
  EXPECT_THAT(code([](auto& r) { r.set_dim(8193); }), HasCode(kInvalid));
  EXPECT_THAT(code([](auto& r) { r.clear_metric(); }),
              HasCodeAndMessage(kInvalid, HasSubstr("metric = 0")));
  EXPECT_THAT(code([](auto& r) { r.clear_dtype(); }),
              HasCodeAndMessage(kInvalid, HasSubstr("dtype = 0")));
  EXPECT_THAT(code([](auto& r) { r.clear_id_type(); }),
              HasCodeAndMessage(kInvalid, HasSubstr("id_type = 0")));
  EXPECT_THAT(code([](auto& r) { r.set_metric(static_cast<pb::Metric>(77)); }), HasCode(kInvalid));
  EXPECT_THAT(code([](auto& r) { r.add_attributes(); }), HasCode(kInvalid));
}

TEST_F(AdminServiceTest, CapacityIsExactAtTheMomentOfTheCall) {
  ServeThreeRows();
  pb::GetCapacityResponse capacity;
  grpc::ClientContext context;
  ASSERT_THAT(admin_->GetCapacity(&context, {}, &capacity), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(capacity.backend(), pb::BACKEND_CPU);
  EXPECT_EQ(capacity.device_name(), "a fake");
  EXPECT_EQ(capacity.device_bytes_total(), 1u << 30);
  EXPECT_EQ(capacity.device_bytes_used(), static_cast<uint64_t>(3 * kDeviceRowBytes));
  EXPECT_EQ(capacity.host_rows_bytes_total(), 1u << 22);
  EXPECT_EQ(capacity.host_rows_bytes_used(), 1u << 21);
  EXPECT_FALSE(capacity.server_version().empty());
}

TEST_F(AdminServiceTest, VerifyChecksAClaimOrTheServersOwnAnswer) {
  ServeThreeRows();
  pb::VerifyResponse response;
  ASSERT_THAT(Verify([](auto&) {}, &response), HasCode(grpc::StatusCode::OK));
  EXPECT_TRUE(response.equal());
  EXPECT_EQ(response.first_difference(), -1);
  EXPECT_EQ(response.rows_checked(), 3u);
  EXPECT_EQ(response.epoch(), 1u);
  EXPECT_EQ(response.expected().scores_size(), 3);
  const auto claim = [](pb::VerifyRequest& request, float second) {
    request.set_k(2);
    request.mutable_claim()->mutable_ids()->add_numbers(3);
    request.mutable_claim()->mutable_ids()->add_numbers(2);
    request.mutable_claim()->add_scores(3);
    request.mutable_claim()->add_scores(second);
  };
  ASSERT_THAT(Verify([&](auto& r) { claim(r, 2); }, &response), HasCode(grpc::StatusCode::OK));
  EXPECT_TRUE(response.equal());
  ASSERT_THAT(Verify(
                  [&](auto& r) {
                    claim(r, 2.5f);
                    r.set_epoch(1);
                  },
                  &response),
              HasCode(grpc::StatusCode::OK));
  EXPECT_FALSE(response.equal());
  EXPECT_FALSE(response.explanation().empty());
  ASSERT_THAT(
      Verify([](auto& r) { r.mutable_query()->mutable_row_id()->set_number(2); }, &response),
      HasCode(grpc::StatusCode::OK));
  EXPECT_TRUE(response.equal());
}

TEST_F(AdminServiceTest, VerifyRefusesWhatTheContractSays) {
  Set(settings_.verify_max, "1");
  ServeThreeRows();
  pb::VerifyResponse response;
  const auto code = [&](const std::function<void(pb::VerifyRequest&)>& change) {
    return Verify(change, &response);
  };
  EXPECT_THAT(code([](auto& r) { r.mutable_query()->mutable_vector()->add_values(1); }),
              HasCodeAndMessage(kInvalid, HasSubstr("query.vector: 3 values")));
  EXPECT_THAT(code([](auto& r) { r.clear_query(); }), HasCode(kInvalid));
  EXPECT_THAT(code([](auto& r) { r.set_k(0); }), HasCode(kInvalid));
  EXPECT_THAT(code([](auto& r) { r.set_skip(100'001); }),
              HasCodeAndMessage(kInvalid, HasSubstr("skip: 100001, the limit page_rows_max")));
  EXPECT_THAT(code([](auto& r) { r.mutable_claim()->add_scores(1); }),
              HasCodeAndMessage(kInvalid, HasSubstr("0 ids and 1 scores")));
  EXPECT_THAT(code([](auto& r) { r.mutable_claim()->mutable_ids()->add_texts("a"); }),
              HasCode(kInvalid));
  EXPECT_THAT(code([](auto& r) { r.mutable_filter(); }), HasCode(kInvalid));
  EXPECT_THAT(code([](auto& r) { r.set_collection("x"); }), HasCode(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(code([](auto& r) { r.mutable_query()->mutable_row_id()->set_number(9); }),
              HasCode(grpc::StatusCode::NOT_FOUND));
  EXPECT_THAT(code([](auto& r) { r.set_epoch(7); }),
              HasCodeAndMessage(grpc::StatusCode::FAILED_PRECONDITION,
                                ::testing::AllOf(HasSubstr("7"), HasSubstr("1"))));
  EXPECT_THAT(code([](auto& r) {
                r.set_epoch(7);
                r.mutable_claim();
              }),
              HasCode(grpc::StatusCode::FAILED_PRECONDITION));

  script_->verify_gate.Close();
  auto first = std::async(std::launch::async, [&] {
    pb::VerifyResponse ignored;
    return Verify([](auto&) {}, &ignored);
  });
  script_->verify_gate.AwaitArrivals(1);
  grpc::ClientContext refused;
  EXPECT_THAT(
      Verify([](auto&) {}, &response, &refused),
      HasCodeAndMessage(grpc::StatusCode::RESOURCE_EXHAUSTED, HasSubstr("too many verifications")));
  EXPECT_TRUE(Trailer(refused, "retry-after-ms").has_value());
  script_->verify_gate.Open();
  EXPECT_THAT(first.get(), HasCode(grpc::StatusCode::OK));

  script_->verify_gate.Close();
  grpc::ClientContext late;
  late.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_THAT(Verify([](auto&) {}, &response, &late), HasCode(grpc::StatusCode::DEADLINE_EXCEEDED));
}

TEST_F(AdminServiceTest, NothingServesBeforeTheSelfTestHasPassed) {
  Listen();
  ExpectHealth(hv::HealthCheckResponse::NOT_SERVING);
  script_->self_test_gate.Close();
  auto boot = std::async(std::launch::async, [&] {
    return server_->Boot(
        [this](const EngineOptions&) { return testing::MakeScriptedEngine(script_); });
  });
  script_->self_test_gate.AwaitArrivals(1);
  ExpectHealth(hv::HealthCheckResponse::NOT_SERVING);
  grpc::ClientContext context;
  pb::SearchResponse response;
  EXPECT_THAT(retrieval_->Search(&context, SearchFor("c", {1, 0}), &response),
              HasCodeAndMessage(grpc::StatusCode::UNAVAILABLE, HasSubstr("starting")));
  EXPECT_TRUE(Trailer(context, "retry-after-ms").has_value());
  EXPECT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::UNAVAILABLE));
  EXPECT_THAT(UploadRows("c", {1}), HasCode(grpc::StatusCode::UNAVAILABLE));
  {
    grpc::ClientContext stream_context;
    const auto stream = retrieval_->SearchStream(&stream_context);
    stream->Write(SearchFor("c", {1, 0}));
    pb::SearchResponse ignored;
    EXPECT_FALSE(stream->Read(&ignored));
    EXPECT_THAT(stream->Finish(), HasCode(grpc::StatusCode::UNAVAILABLE));
  }
  script_->self_test_gate.Open();
  EXPECT_EQ(boot.get(), ExitCode::kClean);
  ExpectHealth(hv::HealthCheckResponse::SERVING);
  EXPECT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::OK));
}

TEST_F(AdminServiceTest, AFailedSelfTestNeverServes) {
  Listen();
  script_->self_test_differs = true;
  EXPECT_EQ(
      server_->Boot([this](const EngineOptions&) { return testing::MakeScriptedEngine(script_); }),
      ExitCode::kSelfTest);
  ExpectHealth(hv::HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(CreateCollection("c"), HasCode(grpc::StatusCode::UNAVAILABLE));
}

TEST_F(AdminServiceTest, AnEngineThatCannotBeMadeHasItsExitCode) {
  Listen();
  for (const auto& [error, code] : std::vector<std::pair<absl::Status, ExitCode>>{
           {absl::FailedPreconditionError("no GPU"), ExitCode::kConfiguration},
           {absl::ResourceExhaustedError("memory"), ExitCode::kConfiguration},
           {absl::InvalidArgumentError("k_max"), ExitCode::kConfiguration},
           {absl::UnavailableError("lost"), ExitCode::kDeviceLost},
           {absl::InternalError("?"), ExitCode::kFailure}}) {
    EXPECT_EQ(server_->Boot([&e = error](const EngineOptions&)
                                -> absl::StatusOr<std::unique_ptr<Engine>> { return e; }),
              code);
  }
}

// Regression: on a machine with a device node but no usable GPU, rows took half of the memory,
// which the plan had assigned to other parts.
TEST_F(AdminServiceTest, AGpuThatCannotBeUsedLeavesTheRowsTheirShareOfThePlan) {
  HostMachine machine = {.memory_bytes = 16 * kGiB, .cores = 4, .has_gpu = true};
  std::vector<EngineOptions> made;
  std::weak_ptr<testing::EngineScript> first;
  const auto engine = MakePlannedEngine(settings_, machine, [&](const EngineOptions& options) {
    EXPECT_TRUE(first.expired()) << "two engines at once";
    auto script = std::make_shared<testing::EngineScript>();
    first = script;
    made.push_back(options);
    return testing::MakeScriptedEngine(std::move(script));
  });
  ASSERT_TRUE(engine.ok());
  machine.has_gpu = false;
  const MemoryPlan plan = PlanMemory(settings_, machine);
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].memory_bytes, 0);
  EXPECT_GT(plan.memory_bytes, 0);
  EXPECT_EQ(made[1].memory_bytes, plan.memory_bytes);
  EXPECT_EQ(made[1].host_memory_bytes, plan.host_memory_bytes);
}

TEST_F(AdminServiceTest, WatchTellsEveryChangeAndEndsWithTheServer) {
  Listen();
  hv::HealthCheckRequest request;
  request.set_service("nearfield.v1.Ingest");
  grpc::ClientContext context;
  const auto watch = health_->Watch(&context, request);
  hv::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
  ASSERT_EQ(
      server_->Boot([this](const EngineOptions&) { return testing::MakeScriptedEngine(script_); }),
      ExitCode::kClean);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::SERVING);
  auto drained = std::async(std::launch::async, [&] { Drain(); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_THAT(watch->Finish(), HasCode(grpc::StatusCode::UNAVAILABLE));
  drained.get();
}

TEST_F(AdminServiceTest, UnknownServicesAreToldApart) {
  Serve();
  hv::HealthCheckRequest request;
  request.set_service("nope");
  hv::HealthCheckResponse response;
  grpc::ClientContext check;
  EXPECT_THAT(health_->Check(&check, request, &response), HasCode(grpc::StatusCode::NOT_FOUND));
  grpc::ClientContext context;
  const auto watch = health_->Watch(&context, request);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
  EXPECT_THAT(watch->Finish(), HasCode(grpc::StatusCode::CANCELLED));
}

TEST_F(AdminServiceTest, DrainingFinishesWhatIsInFlightAndRefusesTheRest) {
  ServeThreeRows();
  script_->search_gate.Close();
  auto search = std::async(std::launch::async, [&] {
    grpc::ClientContext context;
    pb::SearchResponse response;
    return retrieval_->Search(&context, SearchFor("c", {1, 0}), &response);
  });
  script_->search_gate.AwaitArrivals(1);
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  while (server_->state().phase() != ServerState::Phase::kDraining) std::this_thread::yield();
  ExpectHealth(hv::HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(CreateCollection("d"),
              HasCodeAndMessage(grpc::StatusCode::UNAVAILABLE, HasSubstr("draining")));
  script_->search_gate.Open();
  EXPECT_THAT(search.get(), HasCode(grpc::StatusCode::OK));
  EXPECT_EQ(drained.get(), ExitCode::kClean);
  server_ = nullptr;
}

TEST_F(AdminServiceTest, ASecondServerCannotTakeTheSamePort) {
  Serve();
  Settings settings;
  ASSERT_OK(settings.listen.Set(server_->address(), SettingSource::kFlag));
  Server second(&settings, &log_, &clock_);
  EXPECT_THAT(second.Listen(), ::absl_testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                                        HasSubstr(server_->address())));
}

// A method of an unregistered reflection service is UNIMPLEMENTED.
class ServerReflectionTest : public ServerFixture, public ::testing::WithParamInterface<bool> {};

TEST_P(ServerReflectionTest, IsServedOnlyWhereAskedFor) {
  Set(settings_.reflection, GetParam() ? "true" : "false");
  Serve();
  grpc::ClientContext context;
  grpc::internal::RpcMethod method("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                                   grpc::internal::RpcMethod::BIDI_STREAMING);
  const std::unique_ptr<grpc::ClientReaderWriter<hv::HealthCheckRequest, hv::HealthCheckResponse>>
      stream(grpc::internal::ClientReaderWriterFactory<
             hv::HealthCheckRequest, hv::HealthCheckResponse>::Create(channel_.get(), method,
                                                                      &context));
  stream->WritesDone();
  EXPECT_THAT(stream->Finish(),
              HasCode(GetParam() ? grpc::StatusCode::OK : grpc::StatusCode::UNIMPLEMENTED));
}

INSTANTIATE_TEST_SUITE_P(OnAndOff, ServerReflectionTest, ::testing::Bool());

}  // namespace
}  // namespace nearfield::server
