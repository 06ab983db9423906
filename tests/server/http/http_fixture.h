// WithHttpPort: a server fixture with an HTTP port.
#pragma once

#include <string>

#include "tests/server/http/api_client.h"
#include "tests/server/http_client.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {

// `Fixture`: ServerFixture or one derived from it.
template <typename Fixture>
class WithHttpPort : public Fixture {
 protected:
  WithHttpPort() { this->Set(this->settings_.http_listen, "127.0.0.1:0"); }

  int port() const { return PortOf(this->server_->http_address()); }
  // Makes one call on a connection of its own.
  ApiAnswer Post(const std::string& target, const std::string& body,
                 const ApiClient::Headers& headers = {}) {
    return ApiClient(port()).Post(target, body, headers);
  }
  ApiAnswer Get(const std::string& target, const ApiClient::Headers& headers = {}) {
    return ApiClient(port()).Get(target, headers);
  }
  // Expects an error: its HTTP status, its code, and a message that contains the text.
  static void ExpectError(const ApiAnswer& answer, int status, absl::StatusCode code,
                          const std::string& text) {
    EXPECT_EQ(answer.status, status) << answer.body;
    const nlohmann::json error = answer.Json();
    ASSERT_TRUE(error.is_object() && error.contains("code")) << answer.body;
    EXPECT_EQ(error["code"], static_cast<int>(code)) << answer.body;
    EXPECT_THAT(error["message"].template get<std::string>(), HasSubstr(text));
  }
};
using HttpFixture = WithHttpPort<ServerFixture>;

// The search that most tests make.
inline constexpr char kSearch[] = R"({"queries": [{"vector": {"values": [1, 0]}}], "k": 2})";

}  // namespace nearfield::server
