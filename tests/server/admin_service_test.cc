// Tests of Admin and health over a real channel, and of the server's life as callers see it.
#include <filesystem>
#include <future>
#include <thread>

#include "tests/server/server_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {
namespace {

namespace hv = ::grpc::health::v1;

class AdminServiceTest : public ServerFixture {
 protected:
  // Returns a request for the health of a service.
  static FromText HealthOf(const std::string& service) {
    return FromText("service: '" + service + "'");
  }
  void ExpectHealth(hv::HealthCheckResponse::ServingStatus status) {
    for (const char* service :
         {"", "nearfield.v1.Retrieval", "nearfield.v1.Ingest", "nearfield.v1.Admin"}) {
      EXPECT_EQ(CallOk(&Health::Check, HealthOf(service)).status(), status) << service;
    }
  }
  // Creates a collection "c" that differs from the usual one in some fields.
  grpc::Status Create(const std::string& fields, pb::CreateCollectionResponse* response = nullptr) {
    const std::string usual =
        "name: 'c' dim: 3 metric: METRIC_L2 dtype: DATA_TYPE_BFLOAT16 id_type: ID_TYPE_STRING ";
    return Call(&Admin::CreateCollection, FromText(usual + fields), response);
  }
  grpc::Status Verify(const std::string& fields, pb::VerifyResponse* response = nullptr,
                      grpc::ClientContext* context = nullptr) {
    const std::string usual = "collection: 'c' query { vector { values: [1, 0] } } ";
    return Call(&Admin::Verify, FromText(usual + fields), response, context);
  }
  ExitCode Boot() {
    return server_->Boot(
        [this](const EngineOptions&) { return testing::MakeScriptedEngine(script_); });
  }
  void ServeThreeRows() {
    ServeEmpty();
    ASSERT_OK(UploadRows("c", {1, 2, 3}));
  }
};

TEST_F(AdminServiceTest, CollectionsAreCreatedDescribedListedAndDropped) {
  Set(settings_.collections_max, "2");
  Serve();
  pb::CreateCollectionResponse created;
  ASSERT_OK(Create("", &created));
  EXPECT_EQ(created.collection().name(), "c");
  EXPECT_EQ(created.collection().dim(), 3u);
  EXPECT_EQ(created.collection().metric(), pb::METRIC_L2);
  EXPECT_EQ(created.collection().dtype(), pb::DATA_TYPE_BFLOAT16);
  EXPECT_EQ(created.collection().id_type(), pb::ID_TYPE_STRING);
  EXPECT_EQ(created.collection().epoch(), 0u);
  EXPECT_THAT(Create(""), HasCode(kAlreadyExists));
  ASSERT_OK(CreateCollection("a"));
  ASSERT_OK(UploadRows("a", {1, 2}));
  EXPECT_THAT(CreateCollection("b"), RefusedWith(kResourceExhausted, "collections_max is 2"));
  const auto list = CallOk(&Admin::ListCollections);
  ASSERT_EQ(list.collections_size(), 2);
  EXPECT_EQ(list.collections(0).name(), "a");
  EXPECT_EQ(list.collections(0).rows_count(), 2u);
  EXPECT_EQ(list.collections(0).device_bytes(), static_cast<uint64_t>(2 * kDeviceRowBytes));
  EXPECT_EQ(list.collections(0).scan(), pb::SCAN_CHOICE_AUTO);
  EXPECT_EQ(list.collections(0).scan_precision(), pb::SCAN_PRECISION_ROWS);
  EXPECT_EQ(list.collections(1).name(), "c");
  EXPECT_EQ(CallOk(&Admin::GetCollection, Named("a")).collection().epoch(), 1u);
  EXPECT_EQ(CallOk(&Admin::DropCollection, Named("a")).rows_count(), 2u);
  EXPECT_THAT(Call(&Admin::DropCollection, Named("a")), HasCode(kNotFound));
  EXPECT_THAT(Call(&Admin::GetCollection, Named("a")), HasCode(kNotFound));
  EXPECT_OK(CreateCollection("a")) << "the name is free at once";
}

TEST_F(AdminServiceTest, EveryBadCollectionIsNamed) {
  Serve();
  EXPECT_THAT(Create("name: 'a/b'"), RefusedWith(kInvalidArgument, "name: \"a/b\""));
  EXPECT_THAT(Create("name: ''"), HasCode(kInvalidArgument));
  EXPECT_THAT(Create("dim: 0"), RefusedWith(kInvalidArgument, "dim = 0, must be 1 .. 8192"));
  EXPECT_THAT(Create("dim: 8193"), HasCode(kInvalidArgument));
  EXPECT_THAT(Create("metric: 0"), RefusedWith(kInvalidArgument, "metric = 0"));
  EXPECT_THAT(Create("dtype: 0"), RefusedWith(kInvalidArgument, "dtype = 0"));
  EXPECT_THAT(Create("id_type: 0"), RefusedWith(kInvalidArgument, "id_type = 0"));
  EXPECT_THAT(Create("metric: 77"), HasCode(kInvalidArgument));
  EXPECT_THAT(Create("attributes {}"), HasCode(kInvalidArgument));
}

TEST_F(AdminServiceTest, CapacityIsExactAtTheMomentOfTheCall) {
  ServeThreeRows();
  const auto capacity = CallOk(&Admin::GetCapacity);
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
  ASSERT_OK(Verify("", &response));
  EXPECT_TRUE(response.equal());
  EXPECT_EQ(response.first_difference(), -1);
  EXPECT_EQ(response.rows_checked(), 3u);
  EXPECT_EQ(response.epoch(), 1u);
  EXPECT_EQ(response.expected().scores_size(), 3);
  const std::string claim = "k: 2 claim { ids { numbers: [3, 2] } scores: 3 ";
  ASSERT_OK(Verify(claim + "scores: 2 }", &response));
  EXPECT_TRUE(response.equal());
  ASSERT_OK(Verify(claim + "scores: 2.5 } epoch: 1", &response));
  EXPECT_FALSE(response.equal());
  EXPECT_FALSE(response.explanation().empty());
  ASSERT_OK(Verify("query { row_id { number: 2 } }", &response));
  EXPECT_TRUE(response.equal());
}

TEST_F(AdminServiceTest, VerifyRefusesWhatTheContractSays) {
  Set(settings_.verify_max, "1");
  ServeThreeRows();
  EXPECT_THAT(Verify("query { vector { values: 1 } }"),
              RefusedWith(kInvalidArgument, "query.vector: 3 values"));
  EXPECT_THAT(Call(&Admin::Verify, Of("c")), HasCode(kInvalidArgument));
  EXPECT_THAT(Verify("k: 0"), HasCode(kInvalidArgument));
  EXPECT_THAT(Verify("skip: 100001"),
              RefusedWith(kInvalidArgument, "skip: 100001, the limit page_rows_max"));
  EXPECT_THAT(Verify("claim { scores: 1 }"), RefusedWith(kInvalidArgument, "0 ids and 1 scores"));
  EXPECT_THAT(Verify("claim { ids { texts: 'a' } }"), HasCode(kInvalidArgument));
  EXPECT_THAT(Verify("filter_text: ''"), HasCode(kInvalidArgument));
  EXPECT_THAT(Verify("collection: 'x'"), HasCode(kNotFound));
  EXPECT_THAT(Verify("query { row_id { number: 9 } }"), HasCode(kNotFound));
  EXPECT_THAT(Verify("epoch: 7"), RefusedWith(kFailedPrecondition, "7", "1"));
  EXPECT_THAT(Verify("epoch: 7 claim {}"), HasCode(kFailedPrecondition));

  script_->verify_gate.Close();
  auto first = std::async(std::launch::async, [&] { return Verify(""); });
  script_->verify_gate.AwaitArrivals(1);
  grpc::ClientContext refused;
  EXPECT_THAT(Verify("", nullptr, &refused),
              RefusedWith(kResourceExhausted, "too many verifications"));
  EXPECT_TRUE(Trailer(refused, "grpc-retry-pushback-ms").has_value());
  script_->verify_gate.Open();
  EXPECT_OK(first.get());

  script_->verify_gate.Close();
  grpc::ClientContext late;
  late.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  EXPECT_THAT(Verify("", nullptr, &late), HasCode(kDeadlineExceeded));
}

TEST_F(AdminServiceTest, NothingServesBeforeTheSelfTestHasPassed) {
  Listen();
  ExpectHealth(hv::HealthCheckResponse::NOT_SERVING);
  script_->self_test_gate.Close();
  auto boot = std::async(std::launch::async, [&] { return Boot(); });
  script_->self_test_gate.AwaitArrivals(1);
  ExpectHealth(hv::HealthCheckResponse::NOT_SERVING);
  ExpectRefusedWithHint(&Retrieval::Search, SearchFor("c", {1, 0}),
                        RefusedWith(kUnavailable, "starting: running the self-test"));
  EXPECT_EQ(CallOk(&Admin::GetServerState).phase(), pb::SERVER_PHASE_STARTING);
  EXPECT_THAT(CreateCollection("c"), HasCode(kUnavailable));
  EXPECT_THAT(UploadRows("c", {1}), HasCode(kUnavailable));
  SearchStreamCall stream(*retrieval_, {SearchFor("c", {1, 0})});
  EXPECT_FALSE(stream.Read());
  EXPECT_THAT(stream.Finish(), HasCode(kUnavailable));
  script_->self_test_gate.Open();
  EXPECT_EQ(boot.get(), ExitCode::kClean);
  ExpectHealth(hv::HealthCheckResponse::SERVING);
  EXPECT_OK(CreateCollection("c"));
}

// Regression: while collections were loaded, the error was that the self-test had not passed yet.
TEST_F(AdminServiceTest, ALoadingServerReportsHowFarItIs) {
  const store::TempDir dir;
  Set(settings_.data_dir, dir / "data");
  ServeThreeRows();
  EXPECT_OK(CreateCollection("d"));
  EXPECT_EQ(CallOk(&Admin::GetServerState).phase(), pb::SERVER_PHASE_SERVING);
  Drain();
  Listen();
  script_->append_gate.Close();
  auto boot = std::async(std::launch::async, [&] { return Boot(); });
  script_->append_gate.AwaitArrivals(1);
  const auto state = CallOk(&Admin::GetServerState);
  EXPECT_EQ(state.phase(), pb::SERVER_PHASE_STARTING);
  EXPECT_EQ(state.loading().collections_loaded(), 0u);
  EXPECT_EQ(state.loading().collections_count(), 2u);
  EXPECT_GT(state.loading().bytes_total(), 0u);
  EXPECT_LE(state.loading().bytes_read(), state.loading().bytes_total());
  EXPECT_THAT(state.reason(), HasSubstr("the server is starting: loading collections: 0 of 2, "));
  EXPECT_THAT(Call(&Retrieval::Search, SearchFor("c", {1, 0})),
              RefusedWith(kUnavailable, "loading collections: 0 of 2"));
  script_->append_gate.Open();
  EXPECT_EQ(boot.get(), ExitCode::kClean);
  const auto serving = CallOk(&Admin::GetServerState);
  EXPECT_EQ(serving.phase(), pb::SERVER_PHASE_SERVING);
  EXPECT_EQ(serving.reason(), "");
  EXPECT_FALSE(serving.has_loading());
}

TEST_F(AdminServiceTest, AFailedSelfTestNeverServes) {
  Listen();
  script_->self_test_differs = true;
  EXPECT_EQ(Boot(), ExitCode::kSelfTest);
  ExpectHealth(hv::HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(CreateCollection("c"), HasCode(kUnavailable));
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

// Regression: a start that failed left a new data directory, which the next start found empty.
TEST_F(AdminServiceTest, AStartThatFailsLeavesNoDataDirectory) {
  const store::TempDir dir;
  Set(settings_.data_dir, dir / "data");
  Listen();
  const auto no_engine = [](const EngineOptions&) -> absl::StatusOr<std::unique_ptr<Engine>> {
    return absl::ResourceExhaustedError("memory");
  };
  EXPECT_EQ(server_->Boot(no_engine), ExitCode::kConfiguration);
  script_->self_test_differs = true;
  EXPECT_EQ(Boot(), ExitCode::kSelfTest);
  EXPECT_FALSE(std::filesystem::exists(settings_.data_dir.value()));
  script_->self_test_differs = false;
  EXPECT_EQ(Boot(), ExitCode::kClean);
  EXPECT_TRUE(store::Store::IsIn(settings_.data_dir.value()));
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
  grpc::ClientContext context;
  const auto watch = health_->Watch(&context, HealthOf("nearfield.v1.Ingest"));
  hv::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
  ASSERT_EQ(Boot(), ExitCode::kClean);
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::SERVING);
  auto drained = std::async(std::launch::async, [&] { Drain(); });
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_THAT(watch->Finish(), HasCode(kUnavailable));
  drained.get();
}

TEST_F(AdminServiceTest, UnknownServicesAreToldApart) {
  Serve();
  EXPECT_THAT(Call(&Health::Check, HealthOf("nope")), HasCode(kNotFound));
  grpc::ClientContext context;
  const auto watch = health_->Watch(&context, HealthOf("nope"));
  hv::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::SERVICE_UNKNOWN);
  context.TryCancel();
  EXPECT_THAT(watch->Finish(), HasCode(kCancelled));
}

TEST_F(AdminServiceTest, DrainingFinishesWhatIsInFlightAndRefusesTheRest) {
  ServeThreeRows();
  script_->search_gate.Close();
  auto search = std::async(std::launch::async, [&] { return Search(SearchFor("c", {1, 0})); });
  script_->search_gate.AwaitArrivals(1);
  auto drained = std::async(std::launch::async, [&] { return server_->Drain(); });
  EXPECT_TRUE(
      Eventually([&] { return server_->state().phase() == ServerState::Phase::kDraining; }));
  ExpectHealth(hv::HealthCheckResponse::NOT_SERVING);
  EXPECT_THAT(CreateCollection("d"), RefusedWith(kUnavailable, "draining"));
  script_->search_gate.Open();
  EXPECT_OK(search.get());
  EXPECT_EQ(drained.get(), ExitCode::kClean);
  server_ = nullptr;
}

TEST_F(AdminServiceTest, ASecondServerCannotTakeTheSamePort) {
  Serve();
  Settings settings;
  ASSERT_OK(settings.listen.Set(server_->address(), SettingSource::kFlag));
  Server second(&settings, &log_, &clock_);
  EXPECT_THAT(second.Listen(), FailsWith(kInvalidArgument, server_->address()));
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
  EXPECT_THAT(stream->Finish(), HasCode(GetParam() ? kOk : kUnimplemented));
}

INSTANTIATE_TEST_SUITE_P(OnAndOff, ServerReflectionTest, ::testing::Bool());

}  // namespace
}  // namespace nearfield::server
