#include "client/cpp/check_address.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr uint32_t kPortMin = 1;
constexpr uint32_t kPortMax = 65535;

// Returns true for a form that has no port.
bool IsWithoutPort(std::string_view address) {
  for (const std::string_view scheme : {"unix:", "unix-abstract:", "vsock:"}) {
    if (address.substr(0, scheme.size()) == scheme) return true;
  }
  return false;
}

// Returns the part after the scheme of gRPC.
std::string_view HostsOf(std::string_view address) {
  for (const std::string_view scheme : {"dns:", "ipv4:", "ipv6:"}) {
    if (address.substr(0, scheme.size()) != scheme) continue;
    address.remove_prefix(scheme.size());
    if (address.substr(0, 2) != "//") return address;
    const size_t path = address.find('/', 2);  // after the name server
    return path == std::string_view::npos ? "" : address.substr(path + 1);
  }
  return address;
}

// Returns the text after the colon of one host, or empty.
std::string_view PortOf(std::string_view host) {
  const size_t bracket = std::min(host.rfind(']'), host.rfind("%5D"));  // gRPC escapes it
  const size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon == std::string_view::npos) return "";
  const std::string_view port = host.substr(colon + 1);
  return port.find(':') == std::string_view::npos ? port : "";  // an IPv6 address without a port
}

// Returns true if a resolver parses this as a number. Names of services begin with a letter.
bool IsNumber(std::string_view port) {
  return !port.empty() &&
         std::string_view("0123456789+- \t").find(port[0]) != std::string_view::npos;
}

bool IsGood(std::string_view port) {
  const auto value = ParseNumber<uint32_t>(port);
  return value && *value >= kPortMin && *value <= kPortMax;
}

}  // namespace

absl::Status CheckAddress(std::string_view address) {
  if (address.empty()) {
    return absl::InvalidArgumentError("address: empty; give host:port, such as 127.0.0.1:50051");
  }
  if (address.find_first_not_of("0123456789") == std::string_view::npos) {
    return absl::InvalidArgumentError(
        Cat("address: ", address, " has no host; give host:port, such as 127.0.0.1:", address));
  }
  if (IsWithoutPort(address)) return absl::OkStatus();
  std::string_view hosts = HostsOf(address);
  do {
    const size_t comma = std::min(hosts.find(','), hosts.size());
    const std::string_view port = PortOf(hosts.substr(0, comma));
    hosts.remove_prefix(std::min(comma + 1, hosts.size()));
    if (port.empty() || port.find('/') != std::string_view::npos) {
      return absl::InvalidArgumentError(
          Cat("address: ", address, "; give host:port, such as 127.0.0.1:50051"));
    }
    if (IsNumber(port) && !IsGood(port)) {
      return absl::InvalidArgumentError(OutOfRange("address: port", port, kPortMin, kPortMax));
    }
  } while (!hosts.empty());
  return absl::OkStatus();
}

}  // namespace nearfield::client
