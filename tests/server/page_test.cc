// Tests of the page of the operations port: its files, and its searches by stored id, which are
// those of the service and are refused to everyone who could not search there.
#include <google/protobuf/util/json_util.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/ops_http/page_search.h"
#include "tests/server/access_fixture.h"
#include "tests/server/http_client.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

constexpr char kOwnHost[] = "Host: 127.0.0.1\r\n";

// `Fixture`: ServerFixture or one derived from it.
template <typename Fixture>
class WithPage : public Fixture {
 protected:
  WithPage() { this->Set(this->settings_.ops_listen, "127.0.0.1:0"); }

  HttpAnswer Get(const std::string& path, const std::string& headers = kOwnHost) {
    return HttpGet(PortOf(this->server_->ops_address()), path, headers);
  }
  HttpAnswer SearchPage(const std::string& query, const std::string& headers = "") {
    return Get("/search.json?" + query, kOwnHost + headers);
  }
  // Expects that a search fails with this status, and that its message contains the text.
  void ExpectError(const std::string& query, int status, const std::string& code,
                   const std::string& text, const std::string& headers = "") {
    const HttpAnswer answer = SearchPage(query, headers);
    EXPECT_EQ(answer.status, status) << query << answer.body;
    const nlohmann::json error = nlohmann::json::parse(answer.body, nullptr, false);
    ASSERT_TRUE(error.is_object()) << query << ": " << answer.body;
    EXPECT_EQ(error["code"], code) << query;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(text)) << query;
  }
};

class PageTest : public WithPage<ServerFixture> {
 protected:
  static pb::SearchRequest SearchById(const std::string& collection, const std::string& id) {
    return FromText("collection: '" + collection + "' k: 3 with_payload: true attributes: '*' " +
                    "queries { row_id { " + id + " } }");
  }
  // Returns the number of calls that ended OK.
  int64_t CallsOf(const std::string& method) {
    const CallCounts counts = server_->state().call_counter().counts();
    const auto found = counts.find({method, "OK"});
    return found == counts.end() ? 0 : found->second.total_us.count();
  }
  // Expects that the page's answer is that of the service, to the byte.
  void ExpectSame(const std::string& query, const pb::SearchRequest& request) {
    pb::SearchResponse expected;
    ASSERT_OK(Search(request, &expected));
    ASSERT_GT(expected.results(0).scores_size(), 0);
    const HttpAnswer answer = SearchPage(query);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_THAT(answer.header, HasSubstr("\r\nContent-Type: application/json\r\n"));
    pb::SearchResponse found;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(answer.body, &found).ok());
    expected.clear_cost();
    found.clear_cost();
    EXPECT_EQ(found.SerializeAsString(), expected.SerializeAsString());
  }
};

// Regression: unknown parameters, such as a filter, were dropped.
TEST_F(PageTest, AnUnknownParameterIsRefused) {
  ServeEmpty();
  const HttpAnswer answer = SearchPage("collection=c&id=1&filter=year");
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, AllOf(HasSubstr("filter"), HasSubstr("one of collection, id, k")));
}

TEST_F(PageTest, ServesTheFilesOfTheTree) {
  Listen();
  const std::vector<std::pair<std::string, std::string>> files = {
      {"index.html", "text/html"},       {"page.css", "text/css"},
      {"page.js", "text/javascript"},    {"draw.js", "text/javascript"},
      {"figures.js", "text/javascript"}, {"search.js", "text/javascript"},
      {"start.js", "text/javascript"},   {"terms.js", "text/javascript"}};
  for (const auto& [name, type] : files) {
    std::ifstream file(NEARFIELD_PAGE "/" + name, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    EXPECT_FALSE(content.empty()) << name;
    const HttpAnswer answer = Get(name == "index.html" ? "/" : "/" + name);
    EXPECT_EQ(answer.status, 200) << name;
    EXPECT_EQ(answer.body, content) << name;
    EXPECT_THAT(answer.header,
                AllOf(HasSubstr("\r\nContent-Type: " + type + "; charset=utf-8\r\n"),
                      HasSubstr("\r\nX-Content-Type-Options: nosniff\r\n"),
                      HasSubstr("default-src 'none'; script-src 'self'; style-src 'self'"),
                      HasSubstr("require-trusted-types-for 'script'"),
                      HasSubstr("\r\nReferrer-Policy: no-referrer\r\n"),
                      Not(HasSubstr("Access-Control-Allow"))));
  }
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

TEST_F(PageTest, TheFormOfACollectionIsExported) {
  ServeRows();
  const pb::CollectionInfo info = CallOk(&Admin::GetCollection, Named("c")).collection();
  EXPECT_EQ(info.scan_precision(), pb::SCAN_PRECISION_ROWS);
  EXPECT_THAT(Get("/metrics").body,
              HasSubstr("\nnearfield_collection_info{collection=\"c\",dim=\"2\",metric=\"dot\","
                        "dtype=\"float32\",id_type=\"uint64\",scan=\"rows\"} 1\n"));
}

TEST_F(PageTest, ASearchIsThatOfTheService) {
  ServeEmpty();
  ASSERT_OK(UploadRows("c", {1, 2, 3, 4}, std::string("a\0\xff<script>", 11)));
  ExpectSame("collection=c&id=2&k=3", SearchById("c", "number: 2"));
  EXPECT_EQ(SearchPage("collection=c&id=2").status, 200);  // k is 10 if absent
}

// The example is an id by which a search succeeds.
TEST_F(PageTest, TheExampleIsAnIdOfTheCollection) {
  ServeEmpty();
  EXPECT_EQ(Get("/example.json?collection=c").body, "{\"id\":null}\n");
  const uint64_t large = (uint64_t{1} << 63) + 1;  // not a number of JavaScript
  ASSERT_OK(UploadRows("c", {large, large + 1}));
  const HttpAnswer example = Get("/example.json?collection=c");
  EXPECT_EQ(example.body, "{\"id\":\"9223372036854775809\"}\n");
  EXPECT_THAT(example.header, HasSubstr("\r\nContent-Type: application/json\r\n"));
  EXPECT_EQ(SearchPage("collection=c&id=9223372036854775809").status, 200);
  EXPECT_EQ(Get("/example.json?collection=absent").status, 404);
  EXPECT_EQ(Get("/example.json?collection=c&id=1").status, 400);
  EXPECT_EQ(Get("/example.json").status, 404);
}

TEST_F(PageTest, TheHistoryHasTheSearchesSinceTheStart) {
  ServeRows();
  const auto searches = [this](const char* list, bool last) {
    const nlohmann::json moments = nlohmann::json::parse(Get("/history.json").body)[list];
    int64_t sum = 0;
    for (const int64_t count : (last ? moments.back() : moments.front())["by_time"]) sum += count;
    return sum;
  };
  for (int i = 0; i < 3; ++i) ASSERT_OK(Search(SearchFor("c", {1, 0})));
  EXPECT_TRUE(Eventually([&] { return searches("recent", true) == 3; }));
  EXPECT_EQ(searches("whole", true), 3);
  EXPECT_EQ(searches("recent", false), 0);
  EXPECT_EQ(searches("whole", false), 0);
}

TEST_F(PageTest, TheFirstStepsHaveTheAddressOfTheServer) {
  ServeEmpty();
  const nlohmann::json start = nlohmann::json::parse(Get("/start.json").body);
  EXPECT_EQ(start["address"], "127.0.0.1:" + std::to_string(server_->port()));
  EXPECT_EQ(start["files"], nlohmann::json::array());
}

TEST_F(PageTest, ASearchIsACallWithACallerOfItsOwn) {
  ServeRows();
  EXPECT_EQ(SearchPage("collection=c&id=2&k=3").status, 200);
  EXPECT_EQ(CallsOf("Search"), 1);
  Drain();
  int lines = 0;
  for (const nlohmann::json& line : LogLinesOf("request")) {
    if (line["method"] != "Search") continue;
    ++lines;
    EXPECT_EQ(line["peer"], "operations port");
  }
  EXPECT_EQ(lines, 1);
}

TEST_F(PageTest, ErrorsNameTheirReason) {
  ServeRows();
  ExpectError("collection=absent&id=1", 404, "NOT_FOUND", "absent");
  ExpectError("collection=c&id=7", 404, "NOT_FOUND", "7");
  ExpectError("collection=c&id=1&k=0", 400, "INVALID_ARGUMENT", "k = 0, must be 1 .. 50");
  ExpectError("collection=c&id=1&k=51", 400, "INVALID_ARGUMENT", "k = 51, must be 1 .. 50");
  ExpectError("collection=c&id=1&k=x", 400, "INVALID_ARGUMENT", "k = \"x\"");
  ExpectError("collection=c&id=one", 400, "INVALID_ARGUMENT", "id = \"one\"");
  ExpectError("collection=c", 400, "INVALID_ARGUMENT", "id = \"\"");
  ExpectError("k=1", 404, "NOT_FOUND", "");
  ExpectError("collection=%ff&id=1", 400, "INVALID_ARGUMENT", "must be UTF-8");
  ExpectError("collection=c%00&id=1", 404, "NOT_FOUND", "c\\x00");
}

TEST_F(PageTest, AServerThatStartsRefusesSearches) {
  Listen();
  ExpectError("collection=c&id=1", 503, "UNAVAILABLE", "starting");
  ASSERT_EQ(server_->Boot(make_engine_), ExitCode::kClean);
}

TEST_F(PageTest, SearchesAtATimeAreBoundedAndProbesAreAnsweredMeanwhile) {
  ServeRows();
  script_->search_gate.Close();
  std::vector<std::thread> searches;
  for (int i = 0; i < kPageSearchesMax; ++i) {
    searches.emplace_back([this] { EXPECT_EQ(SearchPage("collection=c&id=2").status, 200); });
  }
  // Each looked up its collection. None ends before the gate opens.
  EXPECT_TRUE(Eventually([&] { return CallsOf("GetCollection") >= kPageSearchesMax; }));
  ExpectError("collection=c&id=2", 429, "RESOURCE_EXHAUSTED", "the limit is 2");
  EXPECT_EQ(Get("/livez").status, 200);
  script_->search_gate.Open();
  for (std::thread& search : searches) search.join();
  EXPECT_EQ(SearchPage("collection=c&id=2").status, 200);
}

TEST_F(PageTest, TheBytesOfAReplyAreBounded) {
  ServeEmpty();
  std::vector<uint64_t> ids(kPageKMax);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = i;
  const size_t payload_bytes = 60 << 10;
  ASSERT_GT(payload_bytes * ids.size(), kPageReplyBytesMax);
  ASSERT_OK(UploadRows("c", ids, std::string(payload_bytes, 'x')));
  ExpectError("collection=c&id=2&k=50", 429, "RESOURCE_EXHAUSTED", "choose a smaller k");
  EXPECT_EQ(SearchPage("collection=c&id=2&k=20").status, 200);
}

TEST_F(PageTest, PagesOfOtherSitesCannotSearch) {
  ServeRows();
  const std::string query = "collection=c&id=2";
  for (const std::string header : {"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site",
                                   "Origin: http://evil.example", "Origin: null"}) {
    ExpectError(query, 403, "PERMISSION_DENIED", header.substr(0, header.find(':')),
                header + "\r\n");
    EXPECT_EQ(Get("/example.json?collection=c", kOwnHost + header + "\r\n").status, 403);
  }
  for (const std::string header :
       {"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none", "Origin: http://127.0.0.1"}) {
    EXPECT_EQ(SearchPage(query, header + "\r\n").status, 200) << header;
  }
}

// DNS rebinding: the name of another site that leads to loopback.
TEST_F(PageTest, OnLoopbackTheHostMustBeLoopback) {
  ServeRows();
  for (const std::string path : {"/", "/metrics", "/readyz", "/search.json?collection=c&id=2"}) {
    for (const std::string host : {"evil.example", "evil.example:9464", "127.evil.example:9464",
                                   "localhost.evil.example", "[::2]:9464", "10.0.0.1", "unix"}) {
      EXPECT_EQ(Get(path, "Host: " + host + "\r\n").status, 403) << path << " of " << host;
    }
    for (const std::string host :
         {"localhost", "localhost:9464", "127.0.0.1:1", "[::1]", "[::1]:9464"}) {
      EXPECT_EQ(Get(path, "Host: " + host + "\r\n").status, 200) << path << " of " << host;
    }
  }
}

TEST_F(PageTest, BeyondLoopbackThereIsNoSearch) {
  Set(settings_.ops_listen, "0.0.0.0:0");
  ServeRows();
  ExpectError("collection=c&id=2", 403, "PERMISSION_DENIED", "off");
  EXPECT_EQ(nlohmann::json::parse(Get("/search.json").body)["access"], "off");
  EXPECT_EQ(Get("/example.json?collection=c").status, 403);
  for (const char* const path : {"/", "/metrics"}) {
    EXPECT_EQ(Get(path, "Host: nearfield.example:9464\r\n").status, 200);
  }
}

// Where the gRPC port is narrower than loopback, this port must not be wider.
TEST(PageSearchTest, IsOpenOnlyWhereTheGrpcPortIs) {
  const auto access = [](const Settings& settings, const AccessControl& control) {
    PageSearch search(&settings, nullptr, &control);
    const HttpReply reply = search.Answer({.path = "/search.json"});
    return nlohmann::json::parse(reply.body)["access"].get<std::string>();
  };
  const auto set = [](SettingBase& setting, const std::string& value) {
    ASSERT_OK(setting.Set(value, SettingSource::kFlag));
  };
  AccessControl no_keys;
  AccessControl no_key;
  no_key.SetKeys({});
  Settings settings;
  EXPECT_EQ(access(settings, no_keys), "open");
  EXPECT_EQ(access(settings, no_key), "key");
  set(settings.tls_client_ca, "ca.pem");
  EXPECT_EQ(access(settings, no_keys), "off");
  EXPECT_EQ(access(settings, no_key), "key");
  set(settings.tls_client_ca, "");
  set(settings.listen, "unix:/run/nearfield.sock");
  EXPECT_EQ(access(settings, no_keys), "off");
  set(settings.ops_listen, "10.0.0.1:9464");
  EXPECT_EQ(access(settings, no_key), "off");
}

using PageAccessTest = WithPage<AccessTest>;

TEST_F(PageAccessTest, WithKeysASearchNeedsOneForItsCollection) {
  const std::string reader = AddKey({.scopes = static_cast<uint8_t>(Scope::kRead)});
  const std::string other =
      AddKey({.scopes = static_cast<uint8_t>(Scope::kSearch), .collections = "other"});
  const std::string searcher =
      AddKey({.scopes = static_cast<uint8_t>(Scope::kSearch), .collections = "c"});
  ServeTwo();
  EXPECT_EQ(nlohmann::json::parse(Get("/search.json").body)["access"], "key");
  const std::string query = "collection=c&id=2";
  const auto bearer = [](const std::string& key) {
    return "Authorization: Bearer " + key + "\r\n";
  };
  ExpectError(query, 401, "UNAUTHENTICATED", "absent");
  ExpectError(query, 401, "UNAUTHENTICATED", "no such key", bearer("nf_0123456789abcdef_x"));
  ExpectError(query, 403, "PERMISSION_DENIED", "needs one of search", bearer(reader));
  ExpectError(query, 403, "PERMISSION_DENIED", "not for \"c\"", bearer(other));
  // Its alias names a collection that the key does not cover.
  ExpectError("collection=c-alias&id=2", 403, "PERMISSION_DENIED", "c-alias", bearer(searcher));
  // The collection is empty: the key was accepted.
  ExpectError(query, 404, "NOT_FOUND", "row_id = 2", bearer(searcher));
  // An example is a row that the caller did not know: it needs the scope that lists rows.
  const auto example = [&](const std::string& key) {
    return Get("/example.json?collection=c", kOwnHost + key).status;
  };
  EXPECT_EQ(example(""), 401);
  EXPECT_EQ(example(bearer(searcher)), 403);
  EXPECT_EQ(example(bearer(other)), 403);
  EXPECT_EQ(example(bearer(reader)), 200);
}

}  // namespace
}  // namespace nearfield::server
