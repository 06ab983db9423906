// Injects faults (fault_plan.h) into libc's functions that open, read and change files, if this
// library is preloaded. It works for any program that calls them, but not for stdio, which calls
// inside libc.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fault/allocation_fault.h"
#include "tests/fault/descriptor_path.h"
#include "tests/fault/disk_model.h"
#include "tests/fault/fault_plan.h"

namespace nearfield::fault {
namespace {

// State of the library: one plan per process. Every call that changes a covered file runs under the
// lock, so that no file changes while the process dies.
struct Shim {
  FaultPlan plan = FaultPlan::FromEnvironment();
  DiskModel disk{plan.stash()};
  std::mutex mutex;
  bool failed = false;  // a call was made to fail

  static Shim& Get() {
    const OwnAllocations own;
    static Shim* const shim = new Shim();  // lives as long as the process
    return *shim;
  }
};

// Returns the path of a regular file or directory under the root; empty for all others.
std::string Covered(int fd) {
  Shim& shim = Shim::Get();
  if (!shim.plan.active()) return "";
  struct stat facts = {};
  if (::fstat(fd, &facts) != 0 || !(S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode))) return "";
  const OwnAllocations own;
  const std::string path = PathOfFd(fd);
  return shim.plan.Covers(path) ? path : "";
}

// Returns the path if it lies under the root; empty for all others.
std::string Covered(int directory, const char* name) {
  Shim& shim = Shim::Get();
  if (!shim.plan.active()) return "";
  const OwnAllocations own;
  const std::string path = PathOf(directory, name);
  return shim.plan.Covers(path) ? path : "";
}

// Makes a system call that returns an int.
template <typename... Arguments>
int SystemCall(long number, Arguments... arguments) {
  return static_cast<int>(::syscall(number, arguments...));
}

[[noreturn]] void Die() {
  Shim& shim = Shim::Get();
  if (shim.plan.kind() == FaultKind::kPower) shim.disk.LosePower(shim.plan.random());
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

// A covered call: its name for the log, its kind and its path.
struct Call {
  const char* name;
  CallKind kind;
  const std::string& path;
};

// Runs one covered call according to the plan. `prepare` notifies the disk model before the call,
// `act` performs it, `part` performs a part of it, `done` notifies the model after a success.
template <typename Prepare, typename Act, typename Part, typename Done>
auto RunCall(const Call& call, Prepare prepare, Act act, Part part, Done done) -> decltype(act()) {
  Shim& shim = Shim::Get();
  const bool models = shim.plan.models_disk();
  const Step step = shim.plan.Next(call.kind);
  if (step == Step::kDieBefore) Die();
  if (step == Step::kFail) {
    shim.failed = true;
    shim.plan.LogFailure(call.name, call.path);
    errno = shim.plan.error();
    return -1;
  }
  if (models) prepare();
  if (step == Step::kDiePartial) {
    part();
    Die();
  }
  const auto result = act();
  const int error = errno;
  if (result >= 0 && models) done(result);
  if (step == Step::kDieAfter) Die();
  errno = error;
  return result;
}

constexpr auto kNothing = [](auto&&...) {};

// Returns true, with errno set, if a call that changes nothing must fail.
bool Fails(const Call& call) {
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  if (shim.plan.Next(call.kind) != Step::kFail) return false;
  shim.plan.LogFailure(call.name, call.path);
  errno = shim.plan.error();
  return true;
}

long Read(int fd, void* bytes, size_t count, int64_t offset) {
  const std::string path = Covered(fd);
  if (!path.empty() && Fails({"read", CallKind::kRead, path})) return -1;
  return offset < 0 ? ::syscall(SYS_read, fd, bytes, count)
                    : ::syscall(SYS_pread64, fd, bytes, count, offset);
}

long WriteParts(int fd, const iovec* parts, int count, int64_t offset, const char* name) {
  const auto act = [=] {
    return offset < 0 ? ::syscall(SYS_writev, fd, parts, count)
                      : ::syscall(SYS_pwritev, fd, parts, count, offset, 0);
  };
  const std::string path = Covered(fd);
  if (path.empty()) return act();
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  int64_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += static_cast<int64_t>(parts[i].iov_len);
  int64_t begin = offset;
  if (begin < 0) begin = ::syscall(SYS_lseek, fd, 0, SEEK_CUR);
  return RunCall(
      {name, CallKind::kWrite, path}, [&] { shim.disk.BeforeWrite(fd, begin, bytes); }, act,
      [&] {  // the first bytes only
        std::vector<char> all;
        for (int i = 0; i < count; ++i) {
          const char* const data = static_cast<const char*>(parts[i].iov_base);
          all.insert(all.end(), data, data + parts[i].iov_len);
        }
        const auto some = static_cast<size_t>(shim.plan.random().Between(0, bytes + 1));
        ::syscall(SYS_pwrite64, fd, all.data(), some, begin);
      },
      kNothing);
}

// Does not sync a covered file: the disk model decides which of its data is durable.
int Sync(int fd, long number, const char* name) {
  const std::string path = Covered(fd);
  if (path.empty()) return SystemCall(number, fd);
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  struct stat facts = {};
  ::fstat(fd, &facts);
  const bool is_directory = S_ISDIR(facts.st_mode);
  const bool ignored = shim.plan.IgnoresSync(path, is_directory);
  const int result = RunCall(
      {name, CallKind::kSync, path}, kNothing, [] { return 0; }, kNothing,
      [&](int) {
        if (ignored) return;
        if (is_directory) {
          shim.disk.AfterDirectorySync(path);
        } else {
          shim.disk.AfterSync(fd);
        }
      });
  if (result < 0 && shim.plan.models_disk()) {
    if (is_directory) {
      shim.disk.DirectorySyncFailed(path);
    } else {
      shim.disk.SyncFailed(fd);
    }
  }
  return result;
}

int Truncate(int fd, int64_t size) {
  const auto act = [=] { return SystemCall(SYS_ftruncate, fd, size); };
  const std::string path = Covered(fd);
  if (path.empty()) return act();
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  return RunCall(
      {"ftruncate", CallKind::kTruncate, path}, [&] { shim.disk.BeforeTruncate(fd, size); }, act,
      kNothing, kNothing);
}

int Reserve(int fd, int mode, int64_t offset, int64_t bytes) {
  const auto act = [=] { return SystemCall(SYS_fallocate, fd, mode, offset, bytes); };
  const std::string path = Covered(fd);
  if (path.empty()) return act();
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  return RunCall(
      {"fallocate", CallKind::kReserve, path}, [&] { shim.disk.BeforeWrite(fd, offset, 0); }, act,
      kNothing, kNothing);
}

int Open(int directory, const char* name, int flags, mode_t mode) {
  const auto act = [=](int how) { return SystemCall(SYS_openat, directory, name, how, mode); };
  const std::string path = Covered(directory, name);
  if (path.empty()) return act(flags);
  if (Fails({"open", CallKind::kOpen, path})) return -1;
  if ((flags & (O_CREAT | O_TRUNC)) == 0) return act(flags);
  Shim& shim = Shim::Get();
  std::unique_lock lock(shim.mutex);
  const bool exists = ::syscall(SYS_faccessat, AT_FDCWD, path.c_str(), F_OK) == 0;
  if (exists) {
    const int fd = act(flags & ~O_TRUNC);
    lock.unlock();
    if (fd >= 0 && (flags & O_TRUNC) != 0) Truncate(fd, 0);
    return fd;
  }
  return RunCall(
      {"open", CallKind::kMakeName, path}, kNothing, [&] { return act(flags); }, kNothing,
      [&](int fd) { shim.disk.AfterCreate(path, fd); });
}

int Unlink(int directory, const char* name, int flags) {
  const auto act = [=] { return SystemCall(SYS_unlinkat, directory, name, flags); };
  const std::string path = Covered(directory, name);
  if (path.empty()) return act();
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  if ((flags & AT_REMOVEDIR) != 0) {
    return RunCall({"rmdir", CallKind::kRemoveName, path}, kNothing, act, kNothing,
                   [&](int) { shim.disk.AfterRemoveDirectory(path); });
  }
  std::string kept;
  return RunCall(
      {"unlink", CallKind::kRemoveName, path}, [&] { kept = shim.disk.BeforeReplace(path); }, act,
      kNothing, [&](int) { shim.disk.AfterUnlink(path, kept); });
}

int Rename(int from_directory, const char* from, int to_directory, const char* to,
           unsigned int flags) {
  const auto act = [=] {
    return SystemCall(SYS_renameat2, from_directory, from, to_directory, to, flags);
  };
  const std::string old_path = Covered(from_directory, from);
  const std::string new_path = Covered(to_directory, to);
  if (old_path.empty() || new_path.empty()) return act();
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  std::string kept;
  return RunCall(
      {"rename", CallKind::kMakeName, new_path}, [&] { kept = shim.disk.BeforeReplace(new_path); },
      act, kNothing, [&](int) { shim.disk.AfterRename(old_path, new_path, kept); });
}

int Link(int from_directory, const char* from, int to_directory, const char* to, int flags) {
  const auto act = [=] {
    return SystemCall(SYS_linkat, from_directory, from, to_directory, to, flags);
  };
  const std::string path = Covered(to_directory, to);
  if (path.empty()) return act();
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  return RunCall({"link", CallKind::kMakeName, path}, kNothing, act, kNothing,
                 [&](int) { shim.disk.AfterLink(path); });
}

int MakeDirectory(int directory, const char* name, mode_t mode) {
  const auto act = [=] { return SystemCall(SYS_mkdirat, directory, name, mode); };
  const std::string path = Covered(directory, name);
  if (path.empty()) return act();
  Shim& shim = Shim::Get();
  const std::lock_guard lock(shim.mutex);
  return RunCall({"mkdir", CallKind::kMakeName, path}, kNothing, act, kNothing,
                 [&](int) { shim.disk.AfterMakeDirectory(path); });
}

// Called when the process exits: undoes the changes whose sync failed.
void End() {
  Shim& shim = Shim::Get();
  if (!shim.plan.active()) return;
  const std::lock_guard lock(shim.mutex);
  if (shim.failed) shim.disk.LoseDropped();
  shim.plan.WriteCalls(CountedAllocations());
}

__attribute__((destructor)) void AtExit() { End(); }

}  // namespace
}  // namespace nearfield::fault

namespace shim = nearfield::fault;

extern "C" {

// NOLINTBEGIN(google-runtime-int): libc's own signatures
#define NF_OPEN(name, directory_parameter, directory)                                              \
  __attribute__((visibility("default"))) int name(directory_parameter const char* path, int flags, \
                                                  ...) {                                           \
    mode_t mode = 0;                                                                               \
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {                                                    \
      va_list arguments;                                                                           \
      va_start(arguments, flags);                                                                  \
      mode = va_arg(arguments, mode_t);                                                            \
      va_end(arguments);                                                                           \
    }                                                                                              \
    return shim::Open(directory, path, flags, mode);                                               \
  }
#define NF_COMMA ,
NF_OPEN(open, , AT_FDCWD)
NF_OPEN(openat, int at NF_COMMA, at)

#define NF_EXPORT __attribute__((visibility("default")))
// Exports `name` as another name of a function with the same parameters: off64_t is off_t.
#define NF_ALIAS(name, function) NF_EXPORT __typeof(function) name __attribute__((alias(#function)))
NF_ALIAS(open64, open);
NF_ALIAS(openat64, openat);
NF_EXPORT int creat(const char* path, mode_t mode) {
  return shim::Open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
NF_EXPORT ssize_t read(int fd, void* bytes, size_t count) {
  return shim::Read(fd, bytes, count, -1);
}
NF_EXPORT ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  return shim::Read(fd, bytes, count, offset);
}
NF_ALIAS(pread64, pread);
NF_EXPORT ssize_t write(int fd, const void* bytes, size_t count) {
  const iovec part = {const_cast<void*>(bytes), count};
  return shim::WriteParts(fd, &part, 1, -1, "write");
}
NF_EXPORT ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  const iovec part = {const_cast<void*>(bytes), count};
  return shim::WriteParts(fd, &part, 1, offset, "pwrite");
}
NF_ALIAS(pwrite64, pwrite);
NF_EXPORT ssize_t writev(int fd, const iovec* parts, int count) {
  return shim::WriteParts(fd, parts, count, -1, "writev");
}
NF_EXPORT ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  return shim::WriteParts(fd, parts, count, offset, "pwritev");
}
NF_ALIAS(pwritev64, pwritev);
NF_EXPORT int fsync(int fd) { return shim::Sync(fd, SYS_fsync, "fsync"); }
NF_EXPORT int fdatasync(int fd) { return shim::Sync(fd, SYS_fdatasync, "fdatasync"); }
NF_EXPORT int ftruncate(int fd, off_t size) noexcept { return shim::Truncate(fd, size); }
NF_ALIAS(ftruncate64, ftruncate);
NF_EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return shim::Reserve(fd, mode, offset, bytes);
}
NF_ALIAS(fallocate64, fallocate);
NF_EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes) {
  return shim::Reserve(fd, 0, offset, bytes) == 0 ? 0 : errno;
}
NF_EXPORT int unlink(const char* path) noexcept { return shim::Unlink(AT_FDCWD, path, 0); }
NF_EXPORT int unlinkat(int at, const char* path, int flags) noexcept {
  return shim::Unlink(at, path, flags);
}
NF_EXPORT int rmdir(const char* path) noexcept {
  return shim::Unlink(AT_FDCWD, path, AT_REMOVEDIR);
}
NF_EXPORT int rename(const char* from, const char* to) noexcept {
  return shim::Rename(AT_FDCWD, from, AT_FDCWD, to, 0);
}
NF_EXPORT int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
  return shim::Rename(from_at, from, to_at, to, 0);
}
NF_EXPORT int renameat2(int from_at, const char* from, int to_at, const char* to,
                        unsigned int flags) noexcept {
  return shim::Rename(from_at, from, to_at, to, flags);
}
NF_EXPORT int link(const char* from, const char* to) noexcept {
  return shim::Link(AT_FDCWD, from, AT_FDCWD, to, 0);
}
NF_EXPORT int linkat(int from_at, const char* from, int to_at, const char* to, int flags) noexcept {
  return shim::Link(from_at, from, to_at, to, flags);
}
NF_EXPORT int mkdir(const char* path, mode_t mode) noexcept {
  return shim::MakeDirectory(AT_FDCWD, path, mode);
}
NF_EXPORT int mkdirat(int at, const char* path, mode_t mode) noexcept {
  return shim::MakeDirectory(at, path, mode);
}
NF_EXPORT void _exit(int code) {
  shim::End();
  for (;;) ::syscall(SYS_exit_group, code);
}
// NOLINTEND(google-runtime-int)

}  // extern "C"
