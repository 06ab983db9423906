#include "server/process/demo.h"

#include <spawn.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace nearfield::server {

absl::Status StartDemo(const std::string& address) {
  std::error_code error;
  const std::filesystem::path server = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return absl::NotFoundError(absl::StrCat("/proc/self/exe: ", error.message()));
  std::string program = server.parent_path() / "nearfield";
  std::string target = address;
  std::array<char*, 5> arguments = {program.data(), const_cast<char*>("--address"), target.data(),
                                    const_cast<char*>("demo"), nullptr};
  std::signal(SIGCHLD, SIG_IGN);  // the kernel then keeps no record of the ended process
  // The process gets the standard streams, and no signal that the server blocks.
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t signals;
  sigemptyset(&signals);
  posix_spawnattr_setsigmask(&attributes, &signals);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t process = 0;
  const int failed =
      posix_spawn(&process, program.c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (failed == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(failed, program);
}

}  // namespace nearfield::server
