// Tests of the table of routes, against the descriptors and the access table.
#include "server/http/routes.h"

#include <map>
#include <set>
#include <string>

#include "server/http/target.h"
#include "server/security/access_table.h"
#include "tests/server/http/service_methods.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {
namespace {

absl::Status NoLimit(int64_t /*bytes*/) { return absl::OkStatus(); }

// Returns the names of the fields in a path.
std::set<std::string> FieldsIn(std::string_view path) {
  std::set<std::string> fields;
  for (size_t at = path.find('{'); at != std::string_view::npos; at = path.find('{', at + 1)) {
    fields.insert(std::string(path.substr(at + 1, path.find('}', at) - at - 1)));
  }
  return fields;
}

TEST(RoutesTest, EveryCallHasOneRoute) {
  std::map<std::string, int> routes;
  for (const Route& route : Routes()) ++routes[std::string(route.rpc)];
  for (const auto* const method : ServiceMethods()) {
    EXPECT_EQ(routes[method->full_name()], 1) << method->full_name();
  }
  EXPECT_EQ(routes.size(), ServiceMethods().size());
}

// So a key for one collection can be checked by the path that it is shown.
TEST(RoutesTest, ThePathNamesTheCollectionsThatTheAccessTableNames) {
  for (const Route& route : Routes()) {
    const std::set<std::string> fields = FieldsIn(route.path);
    for (const std::string_view field : FindAccess(route.rpc)->fields) {
      const bool is_second = route.rpc == "nearfield.v1.Admin.SetAlias" && field == "collection";
      if (field.empty() || is_second) continue;
      EXPECT_EQ(fields.count(std::string(field)), 1u) << route.rpc;
    }
  }
}

TEST(RoutesTest, AFieldOfThePathIsSetUnlessTheRequestNamesAnother) {
  for (const Route& route : Routes()) {
    const auto* const method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
        std::string(route.rpc));
    PathFields fields;
    const std::set<std::string> names = FieldsIn(route.path);
    for (const std::string& name : names) fields.emplace_back(name, "value");
    const auto request = NewMessage(*method->input_type());
    EXPECT_OK(SetPathFields(fields, request.get())) << route.rpc;
    EXPECT_OK(SetPathFields(fields, request.get())) << route.rpc;
    for (auto& [name, value] : fields) value = "other";
    // The message that would hold the collection of an upload may be absent.
    if (!names.empty() && method->name() != "Upload") {
      EXPECT_THAT(SetPathFields(fields, request.get()),
                  FailsWith(kInvalidArgument, "\"value\"", "\"other\" as in the path"))
          << route.rpc;
    }
  }
}

TEST(RoutesTest, OnlyTheBeginOfAnUploadNamesItsCollection) {
  const RouteMatch match = FindRoute("POST", "/v1/collections/c/upload");
  pb::UploadRequest block = FromText("block {}");
  ASSERT_OK(SetPathFields(match.fields, &block));
  EXPECT_TRUE(block.has_block());
  pb::UploadRequest begin = FromText("begin {}");
  ASSERT_OK(SetPathFields(match.fields, &begin));
  EXPECT_EQ(begin.begin().collection(), "c");
}

TEST(RoutesTest, ANameIsDecoded) {
  const RouteMatch match = FindRoute("POST", "/v1/collections/a%2Fb%20%c3%a9/search");
  ASSERT_NE(match.route, nullptr);
  EXPECT_EQ(match.route->rpc, "nearfield.v1.Retrieval.Search");
  EXPECT_THAT(match.fields, ElementsAre(Pair("collection", "a/b \u00e9")));
}

TEST(RoutesTest, OtherPathsHaveNoRoute) {
  for (const char* const path :
       {"", "/", "/v1", "/v1/", "/v1/collections/", "/v1/collections/c/", "/v1/collections/c/x",
        "//v1/limits", "/v1/limits/", "/V1/limits", "v1/limits", "/v1/collections//search",
        "/v1/collections/%/search", "/v1/collections/%ff/search", "/v1/collections/c/search/x"}) {
    const RouteMatch match = FindRoute("POST", path);
    EXPECT_EQ(match.route, nullptr) << path;
    EXPECT_EQ(match.allow, "") << path;
  }
}

TEST(RoutesTest, AnotherMethodIsToldThoseOfThePath) {
  EXPECT_EQ(FindRoute("PATCH", "/v1/collections/c").allow, "GET, POST, DELETE");
  EXPECT_EQ(FindRoute("GET", "/v1/collections/c/search").allow, "POST");
  EXPECT_EQ(FindRoute("post", "/v1/collections/c/search").route, nullptr);
}

TEST(RoutesTest, ParametersAreFieldsOfTheRequest) {
  pb::DropCollectionRequest request;
  ASSERT_OK(FromQuery("only_if_empty=true&incarnation=18446744073709551615", NoLimit, &request));
  EXPECT_TRUE(request.only_if_empty());
  EXPECT_EQ(request.incarnation(), 18446744073709551615u);
  pb::GetUploadRequest upload;
  ASSERT_OK(FromQuery("upload_token=YS9i%2b%2B8%3D", NoLimit, &upload));
  EXPECT_EQ(upload.upload_token(), "a/b\xfb\xef");
}

TEST(RoutesTest, UnknownAndRepeatedParametersAreRefused) {
  pb::DropCollectionRequest request;
  EXPECT_THAT(FromQuery("only_if=true", NoLimit, &request),
              FailsWith(kInvalidArgument, "only_if: DropCollectionRequest has no such field"));
  EXPECT_THAT(FromQuery("only_if_empty=true&only_if_empty=true", NoLimit, &request),
              FailsWith(kInvalidArgument, "only_if_empty", "more than once"));
  EXPECT_THAT(FromQuery("only_if_empty=1", NoLimit, &request),
              FailsWith(kInvalidArgument, "only_if_empty", "true or false"));
  EXPECT_THAT(FromQuery("only_if_empty=%", NoLimit, &request),
              FailsWith(kInvalidArgument, "query", "%XX"));
  EXPECT_THAT(FromQuery("=", NoLimit, &request),
              FailsWith(kInvalidArgument, "query: a parameter without a name"));
}

TEST(ParameterInTest, DecodesTheValueOfTheFirstParameterOfTheName) {
  EXPECT_EQ(ParameterIn("a=1&b=x%20y+z&b=2", "b"), "x y z");
  EXPECT_EQ(ParameterIn("a=&b", "a"), "");
  EXPECT_EQ(ParameterIn("a=&b", "b"), "");
  EXPECT_THAT(ParametersIn("a=1&b&c=&a=2"),
              ElementsAre(Pair("a", "1"), Pair("b", ""), Pair("c", ""), Pair("a", "2")));
  EXPECT_THAT(ParametersIn(""), IsEmpty());
  for (const std::string query : {"", "ab=1", "b=a=1", "a=%", "a=%4", "a=%zz"}) {
    EXPECT_EQ(ParameterIn(query, "a"), std::nullopt) << query;
  }
}

}  // namespace
}  // namespace nearfield::server
