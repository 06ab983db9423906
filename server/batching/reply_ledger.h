// The bytes of replies that wait to be read, so that slow readers cannot fill the memory.
#ifndef NEARFIELD_SERVER_BATCHING_REPLY_LEDGER_H_
#define NEARFIELD_SERVER_BATCHING_REPLY_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"

namespace nearfield::server {

// Thread-safe.
class ReplyLedger {
 public:
  // One reply, from the engine's answer until the transport has it.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&& other) noexcept;
    ~Hold();
    // It has `bytes` from now on.
    void Resize(int64_t bytes);

   private:
    friend class ReplyLedger;
    ReplyLedger* ledger_ = nullptr;
    std::string caller_;
    int64_t bytes_ = 0;
  };

  // A caller alone may hold `caller_share` of `bytes_max`; with others less, so that some is left
  // for a new one (TimesFree).
  ReplyLedger(int64_t bytes_max, double caller_share);

  // Whether the caller may ask for one more. Errors: ResourceExhausted with a retry hint.
  absl::Status Check(const std::string& caller) const;
  // True where Check finds room for any caller, at the cost of one load.
  bool HasRoomForAll() const { return bytes_.load(std::memory_order_relaxed) <= roomy_bytes_; }

  // The ledger outlives the hold.
  Hold Take(const std::string& caller, int64_t bytes);

  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  void Add(const std::string& caller, int64_t bytes);

  const int64_t bytes_max_;
  const double times_free_;
  const int64_t roomy_bytes_;
  std::atomic<int64_t> bytes_{0};
  mutable std::mutex mutex_;
  std::unordered_map<std::string, int64_t> callers_;
};

// With shares of s, a caller may hold s / (1 - s) times what is free: alone that is s of all.
double TimesFree(double caller_share);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_REPLY_LEDGER_H_
