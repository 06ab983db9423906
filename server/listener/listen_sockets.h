// ListenSockets: the listening sockets of one address.
#pragma once

#include <netdb.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nearfield::server {

// Returns the IPv4 and IPv6 addresses of a getaddrinfo list, in its order, without duplicates: a
// name that is twice in /etc/hosts has the same address twice.
std::vector<sockaddr_storage> DistinctAddresses(const addrinfo* found);

class ListenSockets {
 public:
  // Binds and listens on `listen`: "HOST:PORT", "[IPV6]:PORT" or "unix:PATH". A host name may have
  // several addresses: binds those that belong to this machine. Each wildcard, 0.0.0.0 or [::],
  // accepts both IPv4 and IPv6. Port 0 takes a free port. The sockets do not block.
  //   setting: the name of the setting that has the address, for the message of an error.
  //   user_timeout: TCP_USER_TIMEOUT of the connections: data may stay unacknowledged for this
  //   time.
  // Errors: InvalidArgument (names the address and why it cannot be bound).
  static absl::StatusOr<std::unique_ptr<ListenSockets>> Bind(
      const char* setting, const std::string& listen, std::chrono::milliseconds user_timeout);
  // Closes the sockets. Removes the file of a unix socket, unless it has been replaced.
  ~ListenSockets();
  ListenSockets(const ListenSockets&) = delete;
  ListenSockets& operator=(const ListenSockets&) = delete;

  const std::vector<int>& descriptors() const { return descriptors_; }
  // Returns the bound port; 0 for a unix socket.
  int port() const { return port_; }

 private:
  ListenSockets() = default;
  absl::Status BindUnix(const std::string& path);
  absl::Status BindTcp(const std::string& host, const std::string& port,
                       std::chrono::milliseconds user_timeout);

  std::vector<int> descriptors_;
  int port_ = 0;
  std::string path_;  // for a unix socket
  ino_t path_inode_ = 0;
};

}  // namespace nearfield::server
