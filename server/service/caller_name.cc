#include "server/service/caller_name.h"

#include <cstddef>

namespace nearfield::server {
namespace {

constexpr size_t kNameBytesMax = 128;

}  // namespace

std::string CallerName(std::string_view from_client, std::string_view peer) {
  if (!from_client.empty() && from_client.size() <= kNameBytesMax) {
    // Marked, so that nobody can take the address of another.
    return std::string("name:").append(from_client);
  }
  if (peer.substr(0, 3) != "ipv") return std::string(peer);
  return std::string(peer.substr(0, peer.rfind(':')));
}

}  // namespace nearfield::server
