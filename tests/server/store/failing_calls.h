// FailingCalls: makes system calls of this process fail. In a test program, the definitions in
// failing_calls.cc replace those of libc, for the store and for SQLite.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace nearfield::store {

struct FileCall {
  enum class Kind : uint8_t { kOpen, kRead, kWrite, kSync };
  Kind kind = Kind::kOpen;
  std::string path;
  bool grows = false;  // needs disk space: a write past the end, a reservation
};

// During its lifetime every call asks `rule`, which returns the errno of a call that must fail, or
// 0. At most one object exists at a time. Every thread that makes a call asks the rule, without a
// lock; the rule may make calls itself.
class FailingCalls {
 public:
  using Rule = std::function<int(const FileCall& call)>;
  explicit FailingCalls(Rule rule);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
};

// During its lifetime this process can start only a limited number of additional threads.
class ThreadLimit {
 public:
  explicit ThreadLimit(int threads);
  ~ThreadLimit();
  ThreadLimit(const ThreadLimit&) = delete;
  ThreadLimit& operator=(const ThreadLimit&) = delete;
};

}  // namespace nearfield::store
