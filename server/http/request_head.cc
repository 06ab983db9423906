#include "server/http/request_head.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace nearfield::server {

namespace asio = boost::asio;

std::string PeerText(const asio::ip::tcp::endpoint& peer) {
  const asio::ip::address& address = peer.address();
  if (address.is_v4()) return absl::StrCat("ipv4:", address.to_string(), ":", peer.port());
  const asio::ip::address_v6 v6 = address.to_v6();
  if (v6.is_v4_mapped()) {
    return absl::StrCat("ipv4:", asio::ip::make_address_v4(asio::ip::v4_mapped, v6).to_string(),
                        ":", peer.port());
  }
  return absl::StrCat("ipv6:%5B", v6.to_string(), "%5D:", peer.port());
}

RequestHead RequestHeadOf(const HttpParser& parser, const std::string& peer) {
  const auto& message = parser.get();
  const auto header = [&message](const char* name) { return TextOf(message[name]); };
  RequestHead head = {.verb = TextOf(message.method_string()),
                      .target = TextOf(message.target()),
                      .browser = {.host = header("Host"),
                                  .origin = header("Origin"),
                                  .fetch_site = header("Sec-Fetch-Site")},
                      .authorization = header("Authorization"),
                      .content_type = header("Content-Type"),
                      .request_id = header("X-Request-Id"),
                      .caller_name = header("nearfield-caller"),
                      .trace_parent = header("traceparent"),
                      .timeout_ms = header("nearfield-timeout-ms"),
                      .peer = peer,
                      .content_length = std::nullopt};
  if (parser.content_length()) head.content_length = *parser.content_length();
  head.has_body = !parser.is_done();
  head.is_http_1_0 = message.version() < 11;
  head.has_two_keys = message.count("Authorization") > 1;
  return head;
}

}  // namespace nearfield::server
