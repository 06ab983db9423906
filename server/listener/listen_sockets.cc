#include "server/listener/listen_sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

constexpr char kUnix[] = "unix:";
constexpr int kFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

absl::Status Failed(const char* what) {
  const int error = errno;
  const std::string text = std::generic_category().message(error);
  return error == EADDRINUSE ? absl::AlreadyExistsError(absl::StrCat(what, ": ", text))
                             : absl::InvalidArgumentError(absl::StrCat(what, ": ", text));
}

void SetOption(int fd, int level, int option, int value) {
  static_cast<void>(setsockopt(fd, level, option, &value, sizeof(value)));
}

int PortOf(const Address& address) {
  return ntohs(address.family() == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(address.get())->sin_port);
}

void SetPort(int port, Address* address) {
  const auto network = htons(static_cast<uint16_t>(port));
  if (address->family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address->get())->sin6_port = network;
  } else {
    reinterpret_cast<sockaddr_in*>(address->get())->sin_port = network;
  }
}

bool IsWildcard(const Address& address) {
  if (address.family() == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address.get());
    return IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr) != 0;
  }
  const auto* four = reinterpret_cast<const sockaddr_in*>(address.get());
  return four->sin_addr.s_addr == htonl(INADDR_ANY);
}

// Returns [::] with the port of `address`.
Address AnyIpv6(const Address& address) {
  Address any;
  auto* six = reinterpret_cast<sockaddr_in6*>(any.get());
  six->sin6_family = AF_INET6;
  six->sin6_addr = in6addr_any;
  any.size = sizeof(sockaddr_in6);
  SetPort(PortOf(address), &any);
  return any;
}

absl::StatusOr<std::vector<Address>> Resolve(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return absl::InvalidArgumentError(gai_strerror(error));
  std::vector<Address> addresses;
  for (const sockaddr_storage& each : DistinctAddresses(found)) {
    const bool is_ipv6 = each.ss_family == AF_INET6;
    addresses.push_back(
        {.storage = each,
         .size = static_cast<socklen_t>(is_ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in))});
  }
  freeaddrinfo(found);
  return addresses;
}

// Returns a listening TCP socket. Errors: AlreadyExists (in use), InvalidArgument.
absl::StatusOr<int> ListenTcp(const Address& address, std::chrono::milliseconds user_timeout) {
  const int fd = socket(address.family(), SOCK_STREAM | kFlags, 0);
  if (fd < 0) return Failed("socket");
  // SO_REUSEADDR allows a restart while old connections end. Without SO_REUSEPORT a second server
  // on the same address fails. Accepted connections inherit the other options.
  SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(user_timeout.count()));
  if (address.family() == AF_INET6) {
    SetOption(fd, IPPROTO_IPV6, IPV6_V6ONLY, IsWildcard(address) ? 0 : 1);
  }
  const bool bound = bind(fd, address.get(), address.size) == 0;
  if (!bound || listen(fd, SOMAXCONN) != 0) {
    const absl::Status status = Failed(bound ? "listen" : "bind");
    close(fd);
    return status;
  }
  return fd;
}

absl::StatusOr<Address> BoundAddress(int fd) {
  Address address;
  address.size = sizeof(address.storage);
  if (getsockname(fd, address.get(), &address.size) != 0) return Failed("getsockname");
  return address;
}

absl::StatusOr<Address> UnixAddress(const std::string& path) {
  Address address;
  auto* name = reinterpret_cast<sockaddr_un*>(address.get());
  if (path.size() >= sizeof(name->sun_path)) {
    return absl::InvalidArgumentError("the path is too long for a socket");
  }
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path, path.data(), path.size());
  address.size = sizeof(*name);
  return address;
}

// Returns true if `path` is a socket whose process has ended.
bool IsStale(const std::string& path, const Address& address) {
  struct stat file_info = {};
  if (stat(path.c_str(), &file_info) != 0 || !S_ISSOCK(file_info.st_mode)) return false;
  const int probe = socket(AF_UNIX, SOCK_STREAM | kFlags, 0);
  if (probe < 0) return false;
  const bool refused = connect(probe, address.get(), address.size) != 0 && errno == ECONNREFUSED;
  close(probe);
  return refused;
}

ino_t InodeOf(const std::string& path) {
  struct stat file_info = {};
  return stat(path.c_str(), &file_info) == 0 ? file_info.st_ino : 0;
}

}  // namespace

std::vector<sockaddr_storage> DistinctAddresses(const addrinfo* found) {
  std::vector<sockaddr_storage> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    sockaddr_storage address = {};
    std::memcpy(&address, each->ai_addr, each->ai_addrlen);
    const bool is_known =
        std::any_of(addresses.begin(), addresses.end(), [&](const sockaddr_storage& other) {
          return std::memcmp(&address, &other, sizeof(address)) == 0;
        });
    if (!is_known) addresses.push_back(address);
  }
  return addresses;
}

absl::Status ListenSockets::BindUnix(const std::string& path) {
  ABSL_ASSIGN_OR_RETURN(const Address address, UnixAddress(path));
  const int fd = socket(AF_UNIX, SOCK_STREAM | kFlags, 0);
  if (fd < 0) return Failed("socket");
  descriptors_.push_back(fd);
  bool bound = bind(fd, address.get(), address.size) == 0;
  if (!bound && errno == EADDRINUSE) {
    if (!IsStale(path, address)) {
      errno = EADDRINUSE;
      return Failed("bind");
    }
    unlink(path.c_str());
    bound = bind(fd, address.get(), address.size) == 0;
  }
  if (!bound) return Failed("bind");
  path_ = path;
  path_inode_ = InodeOf(path);
  return listen(fd, SOMAXCONN) == 0 ? absl::OkStatus() : Failed("listen");
}

absl::Status ListenSockets::BindTcp(const std::string& host, const std::string& port,
                                    std::chrono::milliseconds user_timeout) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<Address> addresses, Resolve(host, port));
  absl::Status last = absl::InvalidArgumentError("the host has no address");
  for (Address address : addresses) {
    if (port_ != 0) SetPort(port_, &address);
    absl::StatusOr<int> fd = last;
    if (IsWildcard(address)) fd = ListenTcp(AnyIpv6(address), user_timeout);
    // Without IPv6 on this machine, fall back to the IPv4 wildcard.
    if (!fd.ok() && !absl::IsAlreadyExists(fd.status())) fd = ListenTcp(address, user_timeout);
    if (absl::IsAlreadyExists(fd.status())) return fd.status();
    if (!fd.ok()) {
      last = fd.status();  // a name may have addresses that this machine does not have
      continue;
    }
    descriptors_.push_back(*fd);
    ABSL_ASSIGN_OR_RETURN(const Address bound, BoundAddress(*fd));
    port_ = PortOf(bound);
  }
  return descriptors_.empty() ? last : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ListenSockets>> ListenSockets::Bind(
    const char* setting, const std::string& listen, std::chrono::milliseconds user_timeout) {
  std::unique_ptr<ListenSockets> sockets(new ListenSockets());
  absl::Status bound;
  if (absl::StartsWith(listen, kUnix)) {
    bound = sockets->BindUnix(listen.substr(sizeof(kUnix) - 1));
  } else {
    const size_t colon = listen.rfind(':');
    std::string host = listen.substr(0, colon);
    if (absl::StartsWith(host, "[")) host = host.substr(1, host.size() - 2);
    bound = sockets->BindTcp(host, listen.substr(colon + 1), user_timeout);
  }
  if (bound.ok()) return sockets;
  const char* const advice =
      absl::IsAlreadyExists(bound) ? "; another process, perhaps a server, listens there" : "";
  return absl::InvalidArgumentError(absl::StrCat(
      setting, " = \"", listen, "\": cannot be bound: ", std::string(bound.message()), advice));
}

ListenSockets::~ListenSockets() {
  if (!path_.empty() && InodeOf(path_) == path_inode_) unlink(path_.c_str());
  for (const int fd : descriptors_) close(fd);
}

}  // namespace nearfield::server
