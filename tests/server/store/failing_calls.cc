#include "tests/server/store/failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <memory>
#include <mutex>
#include <utility>

#include "tests/fault/descriptor_path.h"

namespace nearfield::store {
namespace {

struct Rules {
  std::mutex mutex;
  std::shared_ptr<const FailingCalls::Rule> rule;
};

Rules& Shared() {
  static Rules* const rules = new Rules();
  return *rules;
}

std::atomic<int> g_threads_left{INT_MAX};

// Returns true and sets errno if the call must fail.
bool Fails(FileCall::Kind kind, const std::string& path, bool grows = false) {
  std::shared_ptr<const FailingCalls::Rule> rule;
  {
    const std::lock_guard lock(Shared().mutex);
    rule = Shared().rule;
  }
  if (rule == nullptr) return false;
  const int error = (*rule)({.kind = kind, .path = path, .grows = grows});
  if (error != 0) errno = error;
  return error != 0;
}

bool PassesEnd(int fd, int64_t end) {
  struct stat facts = {};
  return ::fstat(fd, &facts) == 0 && end > facts.st_size;
}

bool WriteFails(int fd, int64_t end) {
  return Fails(FileCall::Kind::kWrite, fault::PathOfFd(fd), PassesEnd(fd, end));
}

int Open(int directory, const char* name, int flags, mode_t mode) {
  if (Fails(FileCall::Kind::kOpen, fault::PathOf(directory, name))) return -1;
  return static_cast<int>(::syscall(SYS_openat, directory, name, flags, mode));
}

ssize_t Read(int fd, void* bytes, size_t count, int64_t offset) {
  if (Fails(FileCall::Kind::kRead, fault::PathOfFd(fd))) return -1;
  return ::syscall(SYS_pread64, fd, bytes, count, offset);
}

ssize_t Write(int fd, const void* bytes, size_t count, int64_t offset) {
  if (WriteFails(fd, offset + static_cast<int64_t>(count))) return -1;
  return ::syscall(SYS_pwrite64, fd, bytes, count, offset);
}

ssize_t WriteParts(int fd, const iovec* parts, int count, int64_t offset) {
  int64_t end = offset;
  for (int i = 0; i < count; ++i) end += static_cast<int64_t>(parts[i].iov_len);
  if (WriteFails(fd, end)) return -1;
  return ::syscall(SYS_pwritev, fd, parts, count, offset, 0);
}

int Truncate(int fd, int64_t size) {
  if (WriteFails(fd, size)) return -1;
  return static_cast<int>(::syscall(SYS_ftruncate, fd, size));
}

int Reserve(int fd, int mode, int64_t offset, int64_t bytes) {
  if (Fails(FileCall::Kind::kWrite, fault::PathOfFd(fd), /*grows=*/true)) return -1;
  return static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, bytes));
}

int Sync(int fd, long number) {  // NOLINT(google-runtime-int): type of syscall
  if (Fails(FileCall::Kind::kSync, fault::PathOfFd(fd))) return -1;
  return static_cast<int>(::syscall(number, fd));
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace

FailingCalls::FailingCalls(Rule rule) {
  auto shared = std::make_shared<const Rule>(std::move(rule));
  const std::lock_guard lock(Shared().mutex);
  Shared().rule = std::move(shared);
}

ThreadLimit::ThreadLimit(int threads) { g_threads_left = threads; }
ThreadLimit::~ThreadLimit() { g_threads_left = INT_MAX; }

FailingCalls::~FailingCalls() {
  const std::lock_guard lock(Shared().mutex);
  Shared().rule = nullptr;
}

}  // namespace nearfield::store

namespace calls = nearfield::store;

extern "C" {

#define NF_OPEN(name, directory_parameter, directory)              \
  int name(directory_parameter const char* path, int flags, ...) { \
    va_list arguments;                                             \
    va_start(arguments, flags);                                    \
    const mode_t mode = calls::ModeOf(flags, arguments);           \
    va_end(arguments);                                             \
    return calls::Open(directory, path, flags, mode);              \
  }
#define NF_COMMA ,
NF_OPEN(open, , AT_FDCWD)
NF_OPEN(open64, , AT_FDCWD)
NF_OPEN(openat, int at NF_COMMA, at)
NF_OPEN(openat64, int at NF_COMMA, at)

ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  return calls::Read(fd, bytes, count, offset);
}
ssize_t pread64(int fd, void* bytes, size_t count, off64_t offset) {
  return calls::Read(fd, bytes, count, offset);
}
ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  return calls::Write(fd, bytes, count, offset);
}
ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset) {
  return calls::Write(fd, bytes, count, offset);
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  return calls::WriteParts(fd, parts, count, offset);
}
int ftruncate(int fd, off_t size) noexcept { return calls::Truncate(fd, size); }
int ftruncate64(int fd, off64_t size) noexcept { return calls::Truncate(fd, size); }
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return calls::Reserve(fd, mode, offset, bytes);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (calls::g_threads_left-- <= 0) return EAGAIN;
  return create(thread, attributes, start, argument);
}
int fsync(int fd) { return calls::Sync(fd, SYS_fsync); }
int fdatasync(int fd) { return calls::Sync(fd, SYS_fdatasync); }

}  // extern "C"
