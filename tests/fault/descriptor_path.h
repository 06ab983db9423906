// Paths of files that system calls name by descriptor.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <string>

namespace nearfield::fault {

// Returns the path of a descriptor; empty if it has none.
inline std::string PathOfFd(int fd) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "";
}

// Returns the path that the arguments of an *at() call name.
inline std::string PathOf(int directory, const char* name) {
  if (name[0] == '/') return name;
  if (directory != AT_FDCWD) return PathOfFd(directory) + "/" + name;
  char here[PATH_MAX];
  return ::getcwd(here, sizeof here) != nullptr ? std::string(here) + "/" + name : name;
}

}  // namespace nearfield::fault
