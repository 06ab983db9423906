#include "tests/fault/crash_runner.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "server/store/store.h"
#include "tests/fault/crash_exit.h"

namespace nearfield::fault {
namespace {

// Far more than the worker needs: after this time it hangs.
constexpr int kLifeSecondsMax = 300;
constexpr int kFlipsSecondsMax = 500;

// Waits for the process. Kills one that hangs; its exit code is then -1.
Death Await(pid_t child, int seconds_max) {
  const int watched = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  pollfd ready = {.fd = watched, .events = POLLIN};
  const bool ended = ::poll(&ready, 1, seconds_max * 1000) == 1;
  if (!ended) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ::close(watched);
  if (!ended) return {.code = -1};
  if (WIFSIGNALED(status)) {
    return {.killed = WTERMSIG(status) == SIGKILL, .code = 128 + WTERMSIG(status)};
  }
  return {.code = WEXITSTATUS(status)};
}

// `quiet`: discards the output.
pid_t Start(const std::vector<std::string>& command, const std::vector<std::string>& environment,
            bool quiet) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  for (const std::string& word : environment) variables.push_back(const_cast<char*>(word.c_str()));
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    if (quiet) ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_WRONLY, 0);
  }
  pid_t child = -1;
  const int failed =
      ::posix_spawn(&child, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? child : -1;
}

}  // namespace

void Tally::Add(const Tally& other) {
  points += other.points;
  acked += other.acked;
  lost += other.lost;
  half += other.half;
  wrong += other.wrong;
  if (first.empty()) first = other.first;
}

void CrashRunner::Reset() {
  std::filesystem::remove_all(options_.dir);
  std::filesystem::create_directories(Path("root"));
  std::filesystem::create_directories(Path("stash"));
}

Death CrashRunner::Run(const Life& life) const {
  std::filesystem::remove(Path("result"));
  std::filesystem::remove(Path("calls"));
  std::filesystem::remove_all(Path("stash"));
  std::filesystem::create_directories(Path("stash"));
  std::vector<std::string> environment = {"LD_PRELOAD=" + options_.library,
                                          "NEARFIELD_FAULT_ROOT=" + Path("root"),
                                          "NEARFIELD_FAULT_STASH=" + Path("stash"),
                                          "NEARFIELD_FAULT_LOG=" + Path("log"),
                                          "NEARFIELD_FAULT_CALLS=" + Path("calls"),
                                          "NEARFIELD_FAULT_ALLOCATIONS=marked",
                                          "NEARFIELD_FAULT_KIND=" + life.kind,
                                          "NEARFIELD_FAULT_AT=" + std::to_string(life.at),
                                          "NEARFIELD_FAULT_TIMES=" + std::to_string(life.times),
                                          "NEARFIELD_FAULT_SEED=" + std::to_string(life.seed)};
  for (const auto& [name, value] : life.environment) environment.push_back(name + "=" + value);
  const pid_t child = Start({options_.worker, Path("root"), Path("log"), Path("result"),
                             std::to_string(life.seed % (uint64_t{1} << 62)),
                             std::to_string(life.steps), std::to_string(life.threads)},
                            environment, /*quiet=*/true);
  if (child < 0) return {.code = kExitUsage};
  Death death = Await(child, kLifeSecondsMax);
  std::ifstream(Path("calls")) >> death.calls >> death.reads >> death.opens >> death.allocations;
  return death;
}

int CrashRunner::Flips(const FlipOptions& options) const {
  std::vector<std::string> variables;
  for (const auto& [name, value] : options.environment) variables.push_back(name + "=" + value);
  const pid_t child = Start({options_.worker, "flips", Path("root"), std::to_string(options.first),
                             std::to_string(options.stride)},
                            variables, options.quiet);
  return child < 0 ? kExitUsage : Await(child, kFlipsSecondsMax).code;
}

void CrashRunner::Count(const Death& death, Tally* tally) const {
  if (death.killed || death.code == 0) return;
  Tally found;
  std::ifstream result(Path("result"));
  if (result >> found.lost >> found.half >> found.wrong) {
    std::getline(result, found.first);
  } else {
    found.wrong = 1;
    found.first = "the worker ended with code " + std::to_string(death.code);
  }
  tally->Add(found);
}

std::vector<std::string> CrashRunner::LogLines() const {
  std::vector<std::string> lines;
  std::ifstream log(Path("log"));
  for (std::string line; std::getline(log, line);) lines.push_back(line);
  return lines;
}

bool CrashRunner::AckAfterFailedSync() const {
  // Counts only syncs of the store itself; a failed snapshot has no further effect. SQLite syncs a
  // directory with fdatasync and ignores a failure. The store does not rely on that sync, which
  // this harness tests: the names that it should have made durable are lost afterwards.
  const std::string data = Path("root/data");
  bool failed = false;
  for (const std::string& line : LogLines()) {
    const bool of_store = line.find(data) != std::string::npos;
    failed = failed || (of_store && line.rfind("fault eio fsync ", 0) == 0) ||
             (of_store && line.rfind("fault eio fdatasync ", 0) == 0 &&
              line.find(data + "/") != std::string::npos);
    if (failed && line.rfind("ack ", 0) == 0) return true;
  }
  return false;
}

std::string CrashRunner::FailedCall() const {
  for (const std::string& line : LogLines()) {
    if (line.rfind("fault ", 0) == 0) return line;
  }
  return "";
}

int64_t CrashRunner::LinesThatBegin(const std::string& with) const {
  int64_t count = 0;
  for (const std::string& line : LogLines()) {
    if (line.rfind(with, 0) == 0) ++count;
  }
  return count;
}

}  // namespace nearfield::fault
