// DeviceQuotas: the device memory that the collections of each principal hold, next to its limit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/mutex.h"
#include "nearfield/engine/collection.h"

namespace nearfield::server {

// A collection counts for its owner, the principal that created it, also if others upload into it:
//   * its rows as they are now (CollectionStats::device_bytes), until its last holder has released
//     it, so a dropped collection counts for as long as a search reads it;
//   * its running uploads, each in full from its begin to its end. So the rows of a commit count
//     twice for a moment, and never less than once.
// Copies that a compaction makes, and rows of kept epochs, do not count. Only an upload is refused:
// a deletion takes one bit for each row and never fails for lack of quota. Thread-safe.
class DeviceQuotas {
 public:
  struct Limits {
    int64_t bytes_max_default = 0;             // 0: no limit
    std::map<std::string, int64_t> bytes_max;  // by principal, instead of the default
  };
  // Before the first call there is no limit. A principal that is above a new limit keeps its
  // collections, and its next upload is refused.
  void SetLimits(Limits limits);

  // Counts the collection for `owner` from now on.
  void Add(const std::string& owner, const std::shared_ptr<const Collection>& collection);

  // The bytes of one upload. Released on destruction; the quotas outlive it.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { Release(); }
    void Release();

   private:
    friend class DeviceQuotas;
    DeviceQuotas* quotas_ = nullptr;
    std::string owner_;
    int64_t bytes_ = 0;
  };
  // Errors: ResourceExhausted (names the principal, its bytes and its limit).
  absl::StatusOr<Hold> Reserve(const std::string& owner, int64_t bytes);

  struct Use {
    std::string principal;
    int64_t bytes = 0;
    int64_t bytes_max = 0;  // 0: no limit
  };
  // Returns the principals that own a collection or have a limit of their own, by name.
  std::vector<Use> Uses();

 private:
  struct Account {
    std::vector<std::weak_ptr<const Collection>> collections;
    int64_t bytes_reserved = 0;  // of running uploads
  };
  int64_t LimitOf(const std::string& owner) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the bytes of the account, and forgets collections that are gone.
  static int64_t BytesOf(Account* account);

  Mutex mutex_;
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Account> accounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace nearfield::server
