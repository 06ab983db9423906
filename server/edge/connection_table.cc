#include "server/edge/connection_table.h"

#include <sys/stat.h>

#include <iterator>

namespace nearfield::server {

std::optional<ConnectionTable::Identity> ConnectionTable::IdentityOf(int fd) {
  struct stat file_info = {};
  if (fstat(fd, &file_info) != 0) return std::nullopt;
  return Identity(file_info.st_dev, file_info.st_ino);
}

void ConnectionTable::Add(int fd) {
  if (const auto identity = IdentityOf(fd); identity.has_value()) identities_[fd] = *identity;
}

void ConnectionTable::Sweep() {
  for (auto it = identities_.begin(); it != identities_.end();) {
    it = IdentityOf(it->first) == it->second ? std::next(it) : identities_.erase(it);
  }
}

}  // namespace nearfield::server
