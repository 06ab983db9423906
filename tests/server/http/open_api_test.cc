// Tests of the OpenAPI document: it has every route, and each reference leads to a schema.
// tests/python/test_http.py validates it.
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "absl/strings/ascii.h"
#include "server/http/open_api.h"
#include "tests/server/http/http_fixture.h"

namespace nearfield::server {
namespace {

void CollectReferences(const nlohmann::json& json, std::set<std::string>* references) {
  if (json.is_object() && json.contains("$ref")) references->insert(json["$ref"]);
  if (!json.is_structured()) return;
  for (const nlohmann::json& each : json) CollectReferences(each, references);
}

TEST(OpenApiTest, HasEveryRouteAndEverySchemaThatItNames) {
  const nlohmann::json document = nlohmann::json::parse(OpenApiJson());
  size_t operations = 0;
  for (const nlohmann::json& path : document["paths"]) operations += path.size();
  EXPECT_EQ(operations, Routes().size());
  for (const Route& route : Routes()) {
    std::string path(route.path);
    for (const char* const prefix : {"search.", "begin."}) {
      const size_t at = path.find(prefix);
      if (at != std::string::npos) path.erase(at, std::string(prefix).size());
    }
    const std::string verb = absl::AsciiStrToLower(std::string(route.verb));
    ASSERT_TRUE(document["paths"].contains(path)) << path;
    EXPECT_TRUE(document["paths"][path].contains(verb)) << verb << " " << path;
  }
  std::set<std::string> references;
  CollectReferences(document, &references);
  EXPECT_GT(references.size(), 50u);
  for (const std::string& reference : references) {
    EXPECT_TRUE(document.contains(nlohmann::json::json_pointer(reference.substr(1)))) << reference;
  }
}

class OpenApiPortTest : public HttpFixture {};

TEST_F(OpenApiPortTest, IsServed) {
  Serve();
  const ApiAnswer answer = Get(kOpenApiPath);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, OpenApiJson());
}

}  // namespace
}  // namespace nearfield::server
