// Tests of a server's connections: number, lifetime, peers, and the limits of a call's metadata.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

namespace hv = ::grpc::health::v1;

class ServerConnectionsTest : public ServerFixture {
 protected:
  // Returns a separate connection.
  std::shared_ptr<grpc::Channel> NewChannel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  // `wait`: wait until a connection is available.
  static grpc::Status CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                                  bool wait = false) {
    grpc::ClientContext context;
    context.set_deadline(Deadline());
    context.set_wait_for_ready(wait);
    hv::HealthCheckResponse response;
    return hv::Health::NewStub(channel)->Check(&context, hv::HealthCheckRequest(), &response);
  }
  static std::chrono::system_clock::time_point Deadline() {
    return std::chrono::system_clock::now() + std::chrono::seconds(60);
  }
  void AwaitOpen(int64_t count) const {
    EXPECT_TRUE(Eventually([&] { return server_->connections().open == count; }));
  }
};

TEST_F(ServerConnectionsTest, TheConnectionBeyondTheLimitIsRefusedUntilOneEnds) {
  Set(settings_.connections_max, "2");
  Serve();
  auto first = NewChannel();
  auto second = NewChannel();
  ASSERT_OK(CheckHealth(first));
  ASSERT_OK(CheckHealth(second));
  const auto third = NewChannel();
  EXPECT_THAT(CheckHealth(third), HasCode(kUnavailable));
  EXPECT_GE(server_->connections().refused, 1);
  second = nullptr;
  EXPECT_OK(CheckHealth(third, /*wait=*/true));
  EXPECT_EQ(server_->connections().open, 2);
}

// Regression: idle connections held their descriptors as long as their clients answered pings.
TEST_F(ServerConnectionsTest, AConnectionWithoutACallIsClosedAndTheNextCallOpensAnother) {
  Set(settings_.connection_idle_ms, "100");
  Serve();
  const auto channel = NewChannel();
  ASSERT_OK(CheckHealth(channel));
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, Deadline()));
  AwaitOpen(0);
  EXPECT_OK(CheckHealth(channel, /*wait=*/true));
  EXPECT_EQ(server_->connections().accepted, 2);
}

TEST_F(ServerConnectionsTest, AnOldConnectionTakesNoNewCallAndItsUploadRunsToTheEnd) {
  Set(settings_.connection_age_ms, "300");
  ServeEmpty();
  const auto channel = NewChannel();
  const auto ingest = pb::Ingest::NewStub(channel);
  UploadCall upload(*ingest, {Begin("c", 1)});
  ASSERT_TRUE(upload.Read());
  EXPECT_TRUE(channel->WaitForStateChange(GRPC_CHANNEL_READY, Deadline()));
  const int64_t accepted = server_->connections().accepted;
  EXPECT_OK(CheckHealth(channel, /*wait=*/true));
  EXPECT_GT(server_->connections().accepted, accepted);
  upload.Write(Block({1}));
  upload.Write(Commit());
  EXPECT_OK(upload.ReadToEnd());
  EXPECT_EQ(upload.response.committed().rows_count(), 1u);
}

TEST_F(ServerConnectionsTest, TheLogNamesThePeerOfATcpConnection) {
  ServeRows();
  Drain();  // the log is complete
  EXPECT_THAT(LogLines(), Contains(HasSubstr("\"peer\":\"ipv4:127.0.0.1:")));
}

TEST_F(ServerConnectionsTest, AUnixSocketServesAndItsPeerIsNamed) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/connections_", getpid());
  Set(settings_.listen, "unix:" + path);
  ServeRows();
  EXPECT_EQ(server_->address(), "unix:" + path);
  Drain();
  EXPECT_THAT(LogLines(), Contains(HasSubstr("\"peer\":\"unix:")));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST_F(ServerConnectionsTest, CountersTellTheConnections) {
  Serve();
  const auto counters = CallOk(&Admin::GetCounters);
  EXPECT_EQ(counters.connections().open_count(), 1u);
  EXPECT_EQ(counters.connections().accepted_count(), 1u);
  EXPECT_EQ(counters.connections().refused_count(), 0u);
  EXPECT_EQ(counters.connections().pauses_count(), 0u);
  EXPECT_EQ(counters.log_lines_dropped_count(), 0u);
}

// Regression: the transport's limit applies to the connection. 20 kB of metadata on one call ended
// an upload on the same connection.
TEST_F(ServerConnectionsTest, TooMuchMetadataFailsItsOwnCallAlone) {
  ServeEmpty();
  UploadCall upload(*ingest_, {Begin("c", 1)});
  ASSERT_TRUE(upload.Read());
  const std::string much(20000, 'x');
  {
    grpc::ClientContext context;
    context.AddMetadata("much", much);
    EXPECT_THAT(Call(&Admin::GetCapacity, {}, nullptr, &context),
                RefusedWith(kResourceExhausted, "bytes, the limit is 16384"));
  }
  {
    grpc::ClientContext context;
    context.AddMetadata("much", much);
    const auto stream = retrieval_->SearchStream(&context);
    stream->Write(SearchFor("c", {1, 0}));
    EXPECT_THAT(stream->Finish(), RefusedWith(kResourceExhausted, "metadata"));
  }
  upload.Write(Block({1}));
  upload.Write(Commit());
  EXPECT_OK(upload.ReadToEnd());
  EXPECT_EQ(server_->connections().accepted, 1);
}

}  // namespace
}  // namespace nearfield::server
