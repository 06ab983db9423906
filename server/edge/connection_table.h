// The connections that were accepted and are still open.
#ifndef NEARFIELD_SERVER_EDGE_CONNECTION_TABLE_H_
#define NEARFIELD_SERVER_EDGE_CONNECTION_TABLE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

namespace nearfield::server {

// Counts descriptors that belong to another owner, which closes them without notice. A descriptor
// number is reused after a close, so each entry keeps the device and the inode of its socket: the
// kernel counts inodes of sockets up. SO_COOKIE is not there in every sandbox. Not thread-safe.
class ConnectionTable {
 public:
  // Adds an open socket, before its owner may close it.
  void Add(int fd);
  // Removes the sockets that are closed. Cost: one system call for each entry.
  void Sweep();
  // At least the number of open connections; exact after a sweep.
  int64_t size() const { return static_cast<int64_t>(identities_.size()); }

 private:
  using Identity = std::pair<dev_t, ino_t>;
  static std::optional<Identity> IdentityOf(int fd);  // nullopt: it is not open

  std::unordered_map<int, Identity> identities_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_EDGE_CONNECTION_TABLE_H_
