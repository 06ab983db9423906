// The connections that were accepted and are still open.
#ifndef NEARFIELD_SERVER_EDGE_CONNECTION_TABLE_H_
#define NEARFIELD_SERVER_EDGE_CONNECTION_TABLE_H_

#include <cstdint>
#include <unordered_map>

namespace nearfield::server {

// Counts descriptors that belong to another owner, which closes them without notice. A descriptor
// number is reused after a close, so each entry keeps the kernel's identity of its socket
// (SO_COOKIE), which is not. Not thread-safe.
class ConnectionTable {
 public:
  // Adds an open socket, before its owner may close it.
  void Add(int fd);
  // Removes the sockets that are closed. Cost: one system call for each entry.
  void Sweep();
  // At least the number of open connections; exact after a sweep.
  int64_t size() const { return static_cast<int64_t>(cookies_.size()); }

 private:
  std::unordered_map<int, uint64_t> cookies_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_EDGE_CONNECTION_TABLE_H_
