#include "server/listener/connection_table.h"

#include <sys/socket.h>
#include <sys/stat.h>

namespace nearfield::server {

std::optional<ConnectionTable::Identity> ConnectionTable::IdentityOf(int fd) {
  struct stat file_info = {};
  if (fstat(fd, &file_info) != 0) return std::nullopt;
  return Identity(file_info.st_dev, file_info.st_ino);
}

void ConnectionTable::Add(int fd) {
  if (const auto identity = IdentityOf(fd); identity.has_value()) identities_[fd] = *identity;
}

void ConnectionTable::Shutdown() const {
  for (const auto& [fd, identity] : identities_) {
    if (IdentityOf(fd) == identity) shutdown(fd, SHUT_RDWR);
  }
}

void ConnectionTable::Sweep() {
  std::erase_if(identities_,
                [](const auto& each) { return IdentityOf(each.first) != each.second; });
}

}  // namespace nearfield::server
