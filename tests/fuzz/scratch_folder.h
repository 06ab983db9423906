// ScratchFolder: a folder of this process, in memory if possible, that its end removes.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/require.h"

namespace nearfield::fuzz {

class ScratchFolder {
 public:
  ScratchFolder() {
    const char* const place = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    static int folders_count = 0;
    path_ = std::string(place) + "/nearfield-fuzz-" + std::to_string(::getpid()) + "-" +
            std::to_string(++folders_count);
    std::filesystem::remove_all(path_);
    Require(std::filesystem::create_directory(path_));
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string Write(const std::string& name, std::string_view bytes) const {
    std::string path = *this / name;
    std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
    return path;
  }

 private:
  std::string path_;
};

}  // namespace nearfield::fuzz
