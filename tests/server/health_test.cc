// Tests of the health of one collection and of the whole server.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "server/grpc/health_service.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

namespace hv = ::grpc::health::v1;
using State = HealthService::CollectionState;

class HealthTest : public ::testing::Test {
 protected:
  HealthTest() {
    health_.SetCollections([this](const std::string& name) {
      return HealthService::Collection{name == "c" ? state_.load() : State::kUnknown, name};
    });
    health_.SetServing(true);
    grpc::ServerBuilder builder;
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    stub_ = hv::Health::NewStub(server_->InProcessChannel({}));
  }
  ~HealthTest() override {
    health_.Shutdown();
    server_->Shutdown();
  }

  static hv::HealthCheckRequest Of(const std::string& service) {
    hv::HealthCheckRequest request;
    request.set_service(service);
    return request;
  }
  hv::HealthCheckResponse::ServingStatus Check(const std::string& service) {
    grpc::ClientContext context;
    hv::HealthCheckResponse response;
    const grpc::Status status = stub_->Check(&context, Of(service), &response);
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
      return hv::HealthCheckResponse::SERVICE_UNKNOWN;
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.status();
  }

  std::atomic<State> state_{State::kGood};
  HealthService health_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<hv::Health::Stub> stub_;
};

// Regression: only the log showed that the stored rows of a collection could not be read any more.
TEST_F(HealthTest, ADamagedCollectionIsNotServingAndTheServerIs) {
  EXPECT_EQ(Check("nearfield.v1.Collection/c"), hv::HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("nearfield.v1.Collection/other"), hv::HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_EQ(Check("nearfield.v1.Collection"), hv::HealthCheckResponse::SERVICE_UNKNOWN);
  state_ = State::kDamaged;
  EXPECT_EQ(Check("nearfield.v1.Collection/c"), hv::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Check(""), hv::HealthCheckResponse::SERVING);
  EXPECT_EQ(Check("nearfield.v1.Retrieval"), hv::HealthCheckResponse::SERVING);
  state_ = State::kGood;
  health_.SetServing(false);
  EXPECT_EQ(Check("nearfield.v1.Collection/c"), hv::HealthCheckResponse::NOT_SERVING);
}

// Regression: the service held its lock while it asked the catalog and the store, and meanwhile
// answered no health check.
TEST_F(HealthTest, ALookAtACollectionHoldsUpNoOtherCheck) {
  std::promise<void> looking;
  std::promise<void> go_on;
  health_.SetCollections([&](const std::string& name) {
    looking.set_value();
    go_on.get_future().wait();
    return HealthService::Collection{State::kGood, name};
  });
  auto check =
      std::async(std::launch::async, [this] { return Check("nearfield.v1.Collection/c"); });
  looking.get_future().wait();
  health_.Refresh();
  EXPECT_EQ(Check(""), hv::HealthCheckResponse::SERVING);
  go_on.set_value();
  EXPECT_EQ(check.get(), hv::HealthCheckResponse::SERVING);
}

TEST_F(HealthTest, AWatchOfACollectionHearsOfItsDamage) {
  grpc::ClientContext context;
  const auto watch = stub_->Watch(&context, Of("nearfield.v1.Collection/c"));
  hv::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::SERVING);
  state_ = State::kDamaged;
  health_.Refresh();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), hv::HealthCheckResponse::NOT_SERVING);
  context.TryCancel();
  watch->Finish();
}

}  // namespace
}  // namespace nearfield::server
