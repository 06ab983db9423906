// PrincipalQuotas: what each principal holds of the resources of a server, next to its limits.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/keys/quota.h"
#include "engine/base/mutex.h"

namespace nearfield::server {

// The fields of a request that asks for more of a resource, for errors. The defaults are those of
// an upload.
struct QuotaFields {
  const char* device = "begin.rows_max";
  const char* host = "begin.payload_bytes_max";
  const char* attributes = "block.attributes";
  const char* disk = "begin.rows_max";
};

// A collection counts for its owner, the principal that created it, even if others upload into it:
//   * its rows as they are now, until its last holder has released it, so the memory of a dropped
//     collection counts for as long as a search reads it;
//   * its running uploads, each in full from its begin to its end; their attributes as they arrive.
//     So the rows of a commit count twice for a moment, and never less than once.
// Copies that a compaction makes, and rows of kept epochs, do not count. A deletion is never
// refused. Aliases count for the principal that created them. Thread-safe.
class PrincipalQuotas {
 public:
  struct Limits {
    QuotaAmounts defaults;
    std::map<std::string, QuotaAmounts> own;  // by principal; 0: the default
  };
  // Before the first call there is no limit. A principal that is above a new limit keeps what it
  // holds, and is refused more.
  void SetLimits(Limits limits);
  // Returns 0 if there is no limit.
  int64_t LimitOf(const std::string& owner, Quota quota);

  // Returns what one collection holds now; nullopt once it is gone. Called with a lock held: must
  // not call the quotas.
  using Usage = std::function<std::optional<int64_t>(Quota)>;
  // Begins to count a collection for `owner`.
  void Add(const std::string& owner, Usage usage);

  // Amounts that count for a principal until the hold is destroyed. The quotas outlive it. Not
  // thread-safe.
  class Hold {
   public:
    Hold() = default;
    Hold(Hold&& other) noexcept { *this = std::move(other); }
    Hold& operator=(Hold&& other) noexcept;
    ~Hold() { Release(); }
    void Release();
    // Raises the amount of one resource, never lowers it. Errors: as Reserve. An empty hold allows
    // everything.
    absl::Status RaiseTo(Quota quota, int64_t amount);

   private:
    friend class PrincipalQuotas;
    PrincipalQuotas* quotas_ = nullptr;
    std::string owner_;
    QuotaAmounts amounts_;
  };
  // Errors: ResourceExhausted (names the field of the request, the principal, what it holds, and
  // the limit).
  absl::StatusOr<Hold> Reserve(const std::string& owner, const QuotaAmounts& amounts,
                               const QuotaFields& fields = {});
  // As Reserve, for what exists already: there is no limit for it.
  Hold Note(const std::string& owner, const QuotaAmounts& amounts);

  struct Use {
    std::string principal;
    QuotaAmounts used;  // without snapshots, which only the disk knows
    QuotaAmounts max;   // 0: no limit
  };
  // Returns the principals that hold something or have a limit of their own, by name.
  std::vector<Use> Uses();

 private:
  struct Account {
    std::vector<Usage> collections;
    QuotaAmounts held;
    int64_t holds_count = 0;
  };
  int64_t LimitLocked(const std::string& owner, Quota quota) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks that the principal may hold `amount` more.
  absl::Status Check(const std::string& owner, Quota quota, int64_t amount,
                     const QuotaFields& fields = {}) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Hold Take(const std::string& owner, const QuotaAmounts& amounts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns what the account holds, and forgets collections that are gone.
  static int64_t UsedBy(Account* account, Quota quota);

  Mutex mutex_;
  Limits limits_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Account> accounts_ ABSL_GUARDED_BY(mutex_);
};

// Returns the ResourceExhausted of a principal that holds `used`, and may not hold `amount` more.
absl::Status QuotaExceeded(const std::string& owner, Quota quota, int64_t amount, int64_t used,
                           int64_t amount_max, const QuotaFields& fields = {});

}  // namespace nearfield::server
