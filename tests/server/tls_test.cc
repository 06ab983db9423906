// Tests of TLS on the port: certificates of the server and of clients, and their replacement while
// the server runs.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tests/server/http_client.h"
#include "tests/server/server_fixture.h"
#include "tests/server/test_certificates.h"

namespace nearfield::server {
namespace {

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

class TlsTest : public ServerFixture {
 protected:
  TlsTest() {
    dir_ = ::testing::TempDir() + "/tls_XXXXXX";
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
    authority_.Write(Path("ca"));
    authority_.Issue(Path("cert"), Path("key"));
    authority_.Issue(Path("client_cert"), Path("client_key"));
    stranger_.Write(Path("stranger_ca"));
    stranger_.Issue(Path("stranger_cert"), Path("stranger_key"));
    Set(settings_.tls_cert, Path("cert"));
    Set(settings_.tls_key, Path("key"));
  }

  std::string Path(const std::string& name) const { return dir_ + "/" + name; }

  // Calls the server over a new connection that trusts the authority in the file `ca`, with the
  // client's certificate in `NAME_cert`, if any.
  grpc::Status CallOver(const std::string& ca, const std::string& name = "") {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = TextOf(Path(ca));
    if (!name.empty()) {
      options.pem_cert_chain = TextOf(Path(name + "_cert"));
      options.pem_private_key = TextOf(Path(name + "_key"));
    }
    return CallWith(grpc::SslCredentials(options));
  }
  grpc::Status CallWith(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(server_->address(), credentials, arguments);
    grpc::ClientContext context;
    pb::GetLimitsResponse response;
    return pb::Retrieval::NewStub(channel)->GetLimits(&context, {}, &response);
  }

  const TestAuthority authority_{"authority"};
  const TestAuthority stranger_{"stranger"};
  std::string dir_;
};

TEST_F(TlsTest, OnlyAClientThatTrustsTheAuthorityGetsAnAnswer) {
  Serve();
  EXPECT_OK(CallOver("ca"));
  EXPECT_THAT(CallOver("stranger_ca"), HasCode(kUnavailable));
  EXPECT_THAT(CallWith(grpc::InsecureChannelCredentials()), HasCode(kUnavailable));
}

TEST_F(TlsTest, WithAnAuthorityForClientsACertificateIsRequired) {
  Set(settings_.tls_client_ca, Path("ca"));
  Serve();
  EXPECT_OK(CallOver("ca", "client"));
  EXPECT_THAT(CallOver("ca"), HasCode(kUnavailable));
  EXPECT_THAT(CallOver("ca", "stranger"), HasCode(kUnavailable));
}

// New connections get the new certificate; a connection that is open goes on.
TEST_F(TlsTest, ACertificateIsReplacedWhileTheServerRuns) {
  Set(settings_.tls_reload_s, "1");
  Serve();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = TextOf(Path("ca"));
  const auto channel = grpc::CreateChannel(server_->address(), grpc::SslCredentials(options));
  const auto open = pb::Retrieval::NewStub(channel);
  pb::GetLimitsResponse response;
  grpc::ClientContext before;
  EXPECT_OK(open->GetLimits(&before, {}, &response));
  stranger_.Issue(Path("new_cert"), Path("new_key"));
  std::filesystem::rename(Path("new_key"), Path("key"));
  std::filesystem::rename(Path("new_cert"), Path("cert"));
  EXPECT_TRUE(Eventually([this] { return CallOver("stranger_ca").ok(); }));
  EXPECT_THAT(CallOver("ca"), HasCode(kUnavailable));
  grpc::ClientContext after;
  EXPECT_OK(open->GetLimits(&after, {}, &response));
}

// Regression: from the replacement of one file to that of the other, every handshake failed, and
// /readyz and the log were silent.
TEST_F(TlsTest, WhileOnlyOneFileIsNewTheOldPairServes) {
  Set(settings_.ops_listen, "127.0.0.1:0");
  Serve();
  const auto readiness = [this] { return HttpGet(PortOf(server_->ops_address()), "/readyz"); };
  const std::string certificate_in_use = "the certificate before is still in use";
  int failures = 0;
  const auto replace_one = [&](const std::string& first, const TestAuthority& authority) {
    authority.Issue(Path("new_cert"), Path("new_key"));
    std::filesystem::rename(Path("new_" + first), Path(first));
    server_->WakeCertificates();
    EXPECT_TRUE(Eventually([&] {
      return LogLinesOf(
                 "the certificate is not reloaded: the one in force stays in use for new "
                 "connections")
                 .size() > static_cast<size_t>(failures);
    }));
    ++failures;
    EXPECT_EQ(readiness().status, 200);
    EXPECT_THAT(readiness().body, HasSubstr(certificate_in_use));
  };
  replace_one("key", stranger_);
  EXPECT_OK(CallOver("ca"));
  std::filesystem::rename(Path("new_cert"), Path("cert"));
  server_->WakeCertificates();
  EXPECT_TRUE(Eventually([this] { return CallOver("stranger_ca").ok(); }));
  EXPECT_THAT(readiness().body, Not(HasSubstr(certificate_in_use)));
  EXPECT_THAT(CallOver("ca"), HasCode(kUnavailable));
  // In the other order.
  replace_one("cert", authority_);
  EXPECT_OK(CallOver("stranger_ca"));
  std::filesystem::rename(Path("new_key"), Path("key"));
  server_->WakeCertificates();
  EXPECT_TRUE(Eventually([this] { return CallOver("ca").ok(); }));
  EXPECT_EQ(MetricsIn(HttpGet(PortOf(server_->ops_address()), "/metrics").body)
                .at("nearfield_certificate_failures_total"),
            failures);
}

TEST_F(TlsTest, AServerWithBadFilesDoesNotListen) {
  const auto listen = [this] {
    Server server(&settings_, &log_, &clock_);
    return server.Listen();
  };
  const auto status_with = [&](TextSetting& setting, const std::string& name) {
    const std::string before = setting.value();
    Set(setting, Path(name));
    const absl::Status status = listen();
    Set(setting, before);
    return status;
  };
  EXPECT_THAT(status_with(settings_.tls_key, "client_key"),
              FailsWith(kInvalidArgument, "tls_cert", "is not the private key"));
  EXPECT_THAT(status_with(settings_.tls_cert, "none"),
              FailsWith(kInvalidArgument, "tls_cert", "no such file"));
  EXPECT_THAT(status_with(settings_.tls_client_ca, "key"),
              FailsWith(kInvalidArgument, "tls_client_ca", "has no certificate"));
  EXPECT_THAT(status_with(settings_.key_file, "none"),
              FailsWith(kInvalidArgument, "key_file", "no such file"));
  // Beyond loopback a file without a key is refused, too.
  std::ofstream(Path("no_keys")) << R"({"format": 1, "keys": []})";
  Set(settings_.listen, "0.0.0.0:0");
  EXPECT_THAT(status_with(settings_.key_file, "no_keys"),
              FailsWith(kInvalidArgument, "key_file", "has no key"));
}

}  // namespace
}  // namespace nearfield::server
