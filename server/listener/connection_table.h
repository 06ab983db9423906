// ConnectionTable: the accepted connections that are still open.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

namespace nearfield::server {

// Counts descriptors whose owner closes them without notice. A descriptor number is reused after a
// close, so each entry stores the device and inode of its socket. A new socket with the same
// number has another inode, because the kernel assigns them in ascending order. (SO_COOKIE would
// identify a socket too, but is not available in every sandbox.) Not thread-safe.
class ConnectionTable {
 public:
  // Adds an open socket. Call it before its owner may close it.
  void Add(int fd);
  // Ends both directions of the open sockets, whose owner then closes them. The clients still get
  // what was written before.
  void Shutdown() const;
  // Removes the sockets that are closed. Cost: one system call for each entry.
  void Sweep();
  // Returns an upper bound of the number of open connections; exact after a sweep.
  int64_t size() const { return static_cast<int64_t>(identities_.size()); }

 private:
  using Identity = std::pair<dev_t, ino_t>;
  static std::optional<Identity> IdentityOf(int fd);  // nullopt: not open

  std::unordered_map<int, Identity> identities_;
};

}  // namespace nearfield::server
