// MemoryLedger: accounts for the bytes that calls make the server hold. Each byte is reserved when
// a call is admitted, before the work for it, and released when nothing holds it any more.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"

namespace nearfield::server {

// Bytes of one kind, with a limit in total and for each caller.
//
// A caller that holds nothing is admitted if the bytes fit and no other caller holds any, or if
// they are at most half of the free bytes. A sixteenth of the account is reserved for holds of at
// most 64 KiB, which only need to fit. So large holds under many names cannot make the server
// refuse every other caller.
// Thread-safe.
class ByteAccount {
 public:
  struct Options {
    std::string setting;  // name of the setting that limits the account
    std::string what;     // named in the error: "replies"
    std::string advice;   // named in the error: "read the replies"
    int64_t bytes_max = 0;
    int64_t copies = 1;  // each byte of a hold is charged this many times
    // Maximum share of `bytes_max` for a caller if no other caller holds anything. If others do,
    // the limit is lower, so that some bytes stay free for a new caller (TimesFree).
    double caller_share = 1;
  };

  // Reserved bytes, released on destruction. The account outlives the hold.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold();

    int64_t bytes() const { return bytes_; }
    // Grows the hold to `bytes` if the account has room; else changes nothing.
    // Errors: ResourceExhausted with a retry hint.
    absl::Status Grow(int64_t bytes);
    // Sets the hold to `bytes` without a check of the limits: for memory that is already in use.
    void Resize(int64_t bytes);

   private:
    friend class ByteAccount;
    ByteAccount* account_ = nullptr;
    std::string caller_;
    int64_t bytes_ = 0;
  };

  explicit ByteAccount(Options options);
  // Requires: every hold was released.
  ~ByteAccount();

  // Errors: ResourceExhausted with a retry hint; names the caller's bytes, all bytes and the limit.
  absl::StatusOr<Hold> Reserve(const std::string& caller, int64_t bytes);

  int64_t bytes_max() const { return options_.bytes_max; }
  // Returns the bytes of all holds, including their copies.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // Grows one hold from `bytes_before` to `bytes_after`.
  absl::Status TryAdd(const std::string& caller, int64_t bytes_before, int64_t bytes_after)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Add(const std::string& caller, int64_t held_bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void AddLocked(const std::string& caller, int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Full(int64_t bytes, int64_t own) const;

  const Options options_;
  const double times_free_;
  std::atomic<int64_t> bytes_{0};
  mutable Mutex mutex_;
  // Callers with a nonzero balance.
  std::unordered_map<std::string, int64_t> callers_ ABSL_GUARDED_BY(mutex_);
};

// The accounts. config/memory_plan.h lists what else bounds memory by its structure.
struct MemoryLedger {
  struct Limits {
    int64_t replies_bytes_max = 0;
    int64_t reply_copies = 1;
    int64_t requests_bytes_max = 0;
    double caller_share = 1;
  };
  explicit MemoryLedger(const Limits& limits);

  ByteAccount replies;   // held until their readers have them
  ByteAccount requests;  // messages, from before they are decoded; queries, rows of filters
};

// The reservations of one request, in addition to its message, and of its reply.
struct MemoryHolds {
  ByteAccount::Hold request;
  ByteAccount::Hold reply;
};

// Returns how many times the free bytes a caller may hold: s / (1 - s) for a share of s. A caller
// that is alone may hold s of the total.
double TimesFree(double caller_share);

}  // namespace nearfield::server
