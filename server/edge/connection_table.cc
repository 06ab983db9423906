#include "server/edge/connection_table.h"

#include <sys/socket.h>

#include <iterator>

namespace nearfield::server {
namespace {

// 0: no open socket.
uint64_t CookieOf(int fd) {
  uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

}  // namespace

void ConnectionTable::Add(int fd) { cookies_[fd] = CookieOf(fd); }

void ConnectionTable::Sweep() {
  for (auto it = cookies_.begin(); it != cookies_.end();) {
    it = CookieOf(it->first) == it->second ? std::next(it) : cookies_.erase(it);
  }
}

}  // namespace nearfield::server
