// Tests of who may call over HTTP: keys, pages of other sites, and names of the server.
#include <string>

#include "tests/server/access_fixture.h"
#include "tests/server/http/http_fixture.h"
#include "tests/server/http/service_methods.h"

namespace nearfield::server {
namespace {

class HttpAccessTest : public WithHttpPort<AccessTest> {
 protected:
  static ApiClient::Headers With(const std::string& key) {
    return {{"Authorization", "Bearer " + key}};
  }
};

TEST_F(HttpAccessTest, ACallNeedsAKeyWithItsScopeAndItsCollection) {
  const std::string search_key =
      AddKey({.scopes = static_cast<uint8_t>(Scope::kSearch), .collections = "c"});
  ServeTwo();
  const std::string path = "/v1/collections/c/count";
  const ApiAnswer none = Post(path, "{}");
  ExpectError(none, 401, kUnauthenticated, "authorization: absent");
  EXPECT_EQ(none.Header("WWW-Authenticate"), "Bearer");
  ExpectError(Post(path, "{}", With("nf_wrong")), 401, kUnauthenticated, "authorization");
  EXPECT_EQ(Post(path, "{}", With(search_key)).status, 200);
  ExpectError(Post("/v1/collections/other/count", "{}", With(search_key)), 403, kPermissionDenied,
              "other");
  ExpectError(Post("/v1/collections/c-alias/count", "{}", With(search_key)), 403, kPermissionDenied,
              "");
  ExpectError(Post("/v1/collections/c/fetch", "{}", With(search_key)), 403, kPermissionDenied,
              "scope");
  RemoveKey(search_key);
  ReloadKeys();
  ExpectError(Post(path, "{}", With(search_key)), 401, kUnauthenticated, "no such key");
}

// As gRPC: a denied call ends before its body is read.
TEST_F(HttpAccessTest, EveryRouteIsCheckedBeforeItsBody) {
  ServeTwo();
  for (const Route& route : Routes()) {
    ApiClient client(port());
    std::string path(route.path);
    for (size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) {
      path.replace(at, path.find('}') + 1 - at, "c");
    }
    const std::string length = route.takes_body() ? "Content-Length: 100\r\n" : "";
    client.Write(std::string(route.verb) + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" +
                 length + "Content-Type: application/json\r\n\r\n");
    ExpectError(client.Read(), 401, kUnauthenticated, "absent");
  }
}

TEST_F(HttpAccessTest, TwoKeysAreRefused) {
  ServeTwo();
  HttpClient client(port());
  const std::string key = "Authorization: Bearer " + admin_key_ + "\r\n";
  client.Write("GET /v1/limits HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n" + key + key +
               "\r\n");
  const HttpAnswer answer = client.Read();
  EXPECT_EQ(answer.status, 401);
  EXPECT_THAT(answer.body, HasSubstr("more than once"));
}

TEST_F(HttpAccessTest, AdministrativeCallsAreInTheAccessLog) {
  ServeTwo();
  ASSERT_EQ(Get("/v1/capacity", With(admin_key_)).status, 200);
  Drain();  // the line of a call is written after its reply
  EXPECT_FALSE(LogLinesOf("access").empty());
}

class HttpBrowserTest : public HttpFixture {};

TEST_F(HttpBrowserTest, PagesOfOtherSitesAreRefused) {
  ServeRows();
  const std::string path = "/v1/collections/c/count";
  const std::string own = "http://127.0.0.1";
  EXPECT_EQ(Post(path, "{}", {{"Origin", own}, {"Sec-Fetch-Site", "same-origin"}}).status, 200);
  ExpectError(Post(path, "{}", {{"Origin", "http://evil.example"}}), 403, kPermissionDenied,
              "Origin");
  ExpectError(Post(path, "{}", {{"Origin", "null"}}), 403, kPermissionDenied, "Origin");
  ExpectError(Post(path, "{}", {{"Origin", own + ":9464"}}), 403, kPermissionDenied, "Origin");
  for (const char* const site : {"cross-site", "same-site"}) {
    ExpectError(Post(path, "{}", {{"Sec-Fetch-Site", site}}), 403, kPermissionDenied,
                "Sec-Fetch-Site");
  }
  const ApiAnswer preflight = ApiClient(port()).Call("OPTIONS", path);
  EXPECT_EQ(preflight.status, 405);
  EXPECT_EQ(preflight.headers.count("Access-Control-Allow-Origin"), 0u);
}

// DNS rebinding: the page of a site whose name leads to 127.0.0.1.
TEST_F(HttpBrowserTest, OnLoopbackOnlyNamesOfLoopbackAreAccepted) {
  ServeRows();
  for (const char* const name : {"localhost", "localhost:50052", "127.0.0.1:1", "[::1]:50052"}) {
    EXPECT_EQ(Get("/v1/limits", {{"Host", name}}).status, 200) << name;
  }
  for (const char* const name : {"evil.example", "127.0.0.1.evil.example", "unix:x", "10.0.0.1"}) {
    ExpectError(Get("/v1/limits", {{"Host", name}}), 403, kPermissionDenied, "Host");
  }
  HttpClient two(port());
  two.Write("GET /v1/limits HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(two.Read().status, 400);
}

}  // namespace
}  // namespace nearfield::server
