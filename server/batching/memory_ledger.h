// The one ledger of the bytes that calls make the server hold. Each byte is reserved when a call is
// admitted, before the work for it, and given back when nothing holds it any more.
#ifndef NEARFIELD_SERVER_BATCHING_MEMORY_LEDGER_H_
#define NEARFIELD_SERVER_BATCHING_MEMORY_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace nearfield::server {

// Bytes of one kind, bounded in all and for each caller. Thread-safe.
//
// A caller that holds nothing is admitted where nobody else holds anything and the bytes fit, or
// where they are at most half of what is free. A sixteenth is kept for holds of at most 64 KiB,
// which need only fit: large holds under many names do not refuse everybody else.
class ByteAccount {
 public:
  struct Options {
    std::string setting;  // that bounds it
    std::string what;     // in the refusal: "replies"
    std::string advice;   // in the refusal: "read the replies"
    int64_t bytes_max = 0;
    int64_t copies = 1;  // each byte of a hold counts as this many
    // What a caller may hold where no other holds anything: a share of `bytes_max`. With others
    // less, so that some is left for a new one (TimesFree).
    double caller_share = 1;
  };

  // Bytes that are held. The account outlives it.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold();

    int64_t bytes() const { return bytes_; }
    // Holds `bytes` from now on, where the account has room for more; else it changes nothing.
    // Errors: ResourceExhausted with a retry hint.
    absl::Status Grow(int64_t bytes);
    // Holds `bytes` from now on, whatever the limit: for what is there already.
    void Resize(int64_t bytes);

   private:
    friend class ByteAccount;
    ByteAccount* account_ = nullptr;
    std::string caller_;
    int64_t bytes_ = 0;
  };

  explicit ByteAccount(Options options);

  // Errors: ResourceExhausted with a retry hint, names the caller's bytes, all bytes and the limit.
  absl::StatusOr<Hold> Reserve(const std::string& caller, int64_t bytes);

  int64_t bytes_max() const { return options_.bytes_max; }
  // Of all holds, their copies included.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  // Of one hold, which has `bytes_before` already.
  absl::Status TryAdd(const std::string& caller, int64_t bytes_before, int64_t bytes_after);
  void Add(const std::string& caller, int64_t held_bytes);
  // Requires mutex_.
  void AddLocked(const std::string& caller, int64_t bytes);
  absl::Status Full(int64_t bytes, int64_t own) const;

  const Options options_;
  const double times_free_;
  std::atomic<int64_t> bytes_{0};
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int64_t> callers_;  // those that hold any
};

// The accounts; what else bounds memory by its structure is listed in config/memory_plan.h.
struct MemoryLedger {
  struct Limits {
    int64_t replies_bytes_max = 0;
    int64_t reply_copies = 1;
    int64_t requests_bytes_max = 0;
    double caller_share = 1;
  };
  explicit MemoryLedger(const Limits& limits);

  ByteAccount replies;   // until their readers have them
  ByteAccount requests;  // messages, from before they are decoded; queries, rows of filters
};

// Bytes held for one request, in addition to its message, and for its reply.
struct MemoryHolds {
  ByteAccount::Hold request;
  ByteAccount::Hold reply;
};

// With shares of s, a caller may hold s / (1 - s) times what is free: alone that is s of all.
double TimesFree(double caller_share);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_MEMORY_LEDGER_H_
