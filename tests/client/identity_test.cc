// Tests of the credentials of a client: files, options that do not fit together, the environment.
#include "client/cpp/identity.h"

#include <cstdlib>
#include <string>

#include "tests/client/prelude.h"
#include "tests/client/test_files.h"
#include "tests/server/test_certificates.h"

namespace nearfield::client {
namespace {

class IdentityTest : public ::testing::Test {
 protected:
  IdentityTest() { token_ = folder_.Write("token", " nf_key\n"); }

  TempFolder folder_;
  std::string token_;
};

TEST_F(IdentityTest, AKeyIsSentWithoutTlsToThisMachineOnly) {
  for (const char* local : {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/tmp/x",
                            "dns:///localhost:1", "ipv4:127.0.0.1:1", "ipv6:[::1]:1"}) {
    const auto identity = ReadIdentity({.address = local, .token_file = token_});
    ASSERT_OK(identity.status()) << local;
    EXPECT_EQ(identity->authorization, "Bearer nf_key");
  }
  for (const char* remote :
       {"example.org:1", "10.0.0.1:1", "127.0.0.1.example:1", "localhost.example:1",
        "127.0.0.1:1,example.org:1", "ipv4:127.0.0.1:1,10.0.0.1:1", "dns:///example.org:1"}) {
    EXPECT_THAT(ReadIdentity({.address = remote, .token_file = token_}),
                StatusIs(kInvalidArgument, HasSubstr("unencrypted")))
        << remote;
    const auto with_tls =
        ReadIdentity({.address = remote, .ca_file = "system", .token_file = token_});
    ASSERT_OK(with_tls.status()) << remote;
    EXPECT_EQ(with_tls->authorization, "Bearer nf_key");
  }
}

TEST_F(IdentityTest, BadFilesAndOptionsAreRefused) {
  const auto refused = [](const ClientOptions& options, const char* part) {
    EXPECT_THAT(ReadIdentity(options), StatusIs(kInvalidArgument, HasSubstr(part)));
  };
  refused({.ca_file = "/none"}, "ca_file: /none");
  const std::string key = "-----BEGIN PRIVATE KEY-----\n";
  refused({.ca_file = folder_.Write("key.pem", key)}, "key.pem: has no certificate in PEM");
  refused({.client_cert_file = "a"}, "give both or none");
  refused({.client_cert_file = "a", .client_key_file = "b"}, "needs ca_file");
  refused({.token_file = "/none"}, "token_file: /none");
  refused({.token_file = folder_.Write("blank", " \n")}, "has no key");
  refused({.token_file = folder_.Write("two", "a\nb")}, "has no key");
  refused({.token_file = folder_.Write("large", std::string(2 << 20, 'x'))}, "more than");
  refused({.metadata = {{"Name", "x"}}}, "metadata: Name");
  refused({.metadata = {{"", "x"}}}, "metadata: ");
  refused({.metadata = {{"name", "\n"}}}, "metadata: name");
  EXPECT_OK(ReadIdentity({.metadata = {{"x-team_1.a", "any text~"}}}).status());
}

// Regression: the secret was in the error, and so in logs.
TEST_F(IdentityTest, AKeyInPlaceOfItsFileIsNotInTheError) {
  EXPECT_THAT(ReadIdentity({.token_file = "nf_0123456789abcdef_" + std::string(64, 'a')}),
              StatusIs(kInvalidArgument, "token_file: this is a key, not the name of a file"));
}

// Regression: the error named neither file, and asked whether a server runs.
TEST_F(IdentityTest, ACertificateAndAKeyBelongTogether) {
  const auto path = [this](const std::string& name) { return folder_.path() + "/" + name; };
  const server::TestAuthority authority("authority");
  authority.Write(path("ca"));
  authority.Issue(path("c1"), path("k1"));
  authority.Issue(path("c2"), path("k2"));
  const auto read = [&](const std::string& cert, const std::string& key) {
    return ReadIdentity(
        {.ca_file = path("ca"), .client_cert_file = path(cert), .client_key_file = path(key)});
  };
  EXPECT_OK(read("c1", "k1").status());
  EXPECT_THAT(read("c1", "k2"),
              StatusIs(kInvalidArgument,
                       "client_key_file: " + path("k2") + ": is not the key of " + path("c1")));
  EXPECT_THAT(read("k1", "k1"), StatusIs(kInvalidArgument, HasSubstr("has no certificate in PEM")));
  EXPECT_THAT(read("c1", "c1"), StatusIs(kInvalidArgument, HasSubstr("has no private key in PEM")));
}

TEST_F(IdentityTest, TheEnvironmentFillsWhatIsEmpty) {
  const auto set = [](const char* name, const char* value) {
    setenv(name, value, 1);  // NOLINT(concurrency-mt-unsafe): one thread
  };
  set("NEARFIELD_ADDRESS", "host:1");
  set("NEARFIELD_CA", "ca");
  set("NEARFIELD_TOKEN_FILE", "token");
  set("NEARFIELD_METADATA", "a=1,b=x=y");
  const auto filled = WithEnvironment();
  ASSERT_OK(filled.status());
  EXPECT_EQ(filled->address, "host:1");
  EXPECT_EQ(filled->ca_file, "ca");
  EXPECT_EQ(filled->token_file, "token");
  EXPECT_THAT(filled->metadata, ElementsAre(std::pair<std::string, std::string>("a", "1"),
                                            std::pair<std::string, std::string>("b", "x=y")));
  const auto given =
      WithEnvironment({.address = "other:2", .ca_file = "mine", .metadata = {{"c", "2"}}});
  ASSERT_OK(given.status());
  EXPECT_EQ(given->address, "other:2");
  EXPECT_EQ(given->ca_file, "mine");
  EXPECT_THAT(given->metadata, SizeIs(1));
  set("NEARFIELD_METADATA", "a");
  EXPECT_THAT(WithEnvironment(), StatusIs(kInvalidArgument, HasSubstr("NEARFIELD_METADATA")));
}

}  // namespace
}  // namespace nearfield::client
