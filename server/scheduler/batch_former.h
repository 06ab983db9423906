// BatchFormer: chooses the searches of the next pass.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/scheduler/clock.h"
#include "server/scheduler/fair_queue_accounts.h"
#include "server/scheduler/pending_queue.h"

namespace nearfield::server {

struct BatchLimits {
  int64_t batch_max = 1024;  // maximum queries in one batch
  // Limit on the sum of reply_bytes_min of a batch with several searches.
  int64_t reply_bytes_max = INT64_MAX;
  double batch_share = 0.1;  // share of device time for kBatch while both priorities wait
};

// One caller's share of a pass.
struct PassPart {
  FairQueueAccounts::Account* caller = nullptr;
  int64_t queries = 0;
};

// The searches chosen for one pass.
struct FormedBatch {
  SearchTickets tickets;
  SearchTickets dead;           // found expired or cancelled while choosing; the queue answers them
  std::vector<PassPart> parts;  // one for each ticket
  std::shared_ptr<LatencyModel> latency;
  PassKind kind;
  SearchWork work;
  int64_t queries = 0;
  SearchPriority leader = SearchPriority::kInteractive;
  bool yielded = false;  // true: kBatch leads although kInteractive waits
};

// Forms batches in turn order.
// The search with the earliest turn leads the pass. The leader is of kInteractive, unless kBatch
// has saved enough device time for a pass. While both priorities wait, kBatch saves batch_share of
// the time of each pass that kInteractive leads.
// Then searches that can share the pass are added, kInteractive first. In a pass led by
// kInteractive, searches of kBatch extend the pass by at most batch_share.
// Not thread-safe.
class BatchFormer {
 public:
  // `pending` and `accounts` outlive the former.
  BatchFormer(const BatchLimits& limits, PendingQueue* pending, FairQueueAccounts* accounts)
      : limits_(limits), pending_(pending), accounts_(accounts) {}

  // Returns no tickets if no search that waits is alive.
  FormedBatch Form(TimePoint now);
  // Records that the pass of `batch` took `us` and ended at `now`. Called once for each batch.
  void RecordPass(FormedBatch* batch, double us, TimePoint now);

 private:
  struct Room {
    int64_t queries = 0;
    int64_t reply_bytes = 0;
  };
  // Returns the group whose first search leads, and sets the leader's priority in `batch`. Drops
  // dead searches found before it.
  TicketGroup* Lead(TimePoint now, FormedBatch* batch);
  void Fill(TicketGroup* group, SearchPriority priority, Room room, TimePoint now,
            FormedBatch* batch);
  static void Take(PendingSearch& entry, FormedBatch* batch);
  static bool IsDead(const PendingSearch& entry, TimePoint now);
  int64_t AddedQueriesMax(const TicketGroup& group, int64_t queries) const;

  const BatchLimits limits_;
  PendingQueue* const pending_;
  FairQueueAccounts* const accounts_;
  double saved_us_ = 0;      // device time that kBatch may use while kInteractive waits
  int64_t reply_bytes_ = 0;  // reply bytes of the batch being formed
};

}  // namespace nearfield::server
