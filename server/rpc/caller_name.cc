#include "server/rpc/caller_name.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"

namespace nearfield::server {
namespace {

constexpr size_t kNameBytesMax = 128;

}  // namespace

absl::Status CheckCallerName(std::string_view from_client) {
  if (from_client.size() <= kNameBytesMax) return absl::OkStatus();
  return MustBe("nearfield-caller", absl::StrCat(from_client.size(), " bytes"),
                absl::StrCat("1 .. ", kNameBytesMax));
}

std::string CallerName(std::string_view from_client, std::string_view peer) {
  if (!from_client.empty() && from_client.size() <= kNameBytesMax) {
    // The prefix prevents that a name equals the address of another client.
    return std::string("name:").append(from_client);
  }
  if (peer.substr(0, 3) != "ipv") return std::string(peer);
  return std::string(peer.substr(0, peer.rfind(':')));
}

std::string CallerOf(const CallFacts& facts) {
  // A holder of keys has one share, whatever names it sends.
  if (facts.key != nullptr) return "principal:" + facts.key->principal;
  return CallerName(facts.caller_name, facts.peer);
}

}  // namespace nearfield::server
