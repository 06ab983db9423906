// Chooses which searches make the next pass.
#ifndef NEARFIELD_SERVER_BATCHING_BATCH_FORMER_H_
#define NEARFIELD_SERVER_BATCHING_BATCH_FORMER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "server/batching/caller_table.h"
#include "server/batching/clock.h"
#include "server/batching/ticket_lines.h"

namespace nearfield::server {

struct BatchLimits {
  int64_t batch_max = 1024;             // queries in one batch
  int64_t reply_bytes_max = INT64_MAX;  // sum of reply_bytes_min over one batch of several
  double batch_share = 0.1;             // of device time that kBatch gets while both wait
};

// A caller's part in a pass.
struct PassPart {
  CallerTable::Caller* caller = nullptr;
  int64_t queries = 0;
};

// A chosen batch.
struct FormedBatch {
  SearchTickets tickets;
  SearchTickets dead;           // met on the way; to be answered
  std::vector<PassPart> parts;  // one a ticket
  std::shared_ptr<PassTimes> times;
  PassKind kind;
  SearchWork work;
  int64_t queries = 0;
  SearchPriority leader = SearchPriority::kInteractive;
  bool yielded = false;  // kInteractive waited, and it was the turn of kBatch
};

// The pass is led by the search with the earliest turn: among kInteractive, unless kBatch has saved
// up a pass. While both wait, kBatch saves its share of the time of each pass of kInteractive. Then
// come those that can share the pass, kInteractive first. Searches of kBatch in a pass led by
// kInteractive make it longer by no more than the share. Not thread-safe.
class BatchFormer {
 public:
  // All outlive the former.
  BatchFormer(const BatchLimits& limits, TicketLines* lines, CallerTable* callers)
      : limits_(limits), lines_(lines), callers_(callers) {}

  // Empty tickets: nothing that waits is wanted.
  FormedBatch Form(TimePoint now);
  // The pass of `batch`, which took `us`, ended at `now`. Called once for each batch.
  void Settle(FormedBatch* batch, double us, TimePoint now);

 private:
  struct Room {
    int64_t queries = 0;
    int64_t reply_bytes = 0;
  };
  // The group whose first search leads, and its priority; drops dead ones that stand before it.
  TicketGroup* Lead(TimePoint now, FormedBatch* batch);
  void Fill(TicketGroup* group, SearchPriority priority, Room room, TimePoint now,
            FormedBatch* batch);
  static void Take(LineEntry& entry, FormedBatch* batch);
  static bool IsDead(const LineEntry& entry, TimePoint now);
  int64_t RidersMax(const TicketGroup& group, int64_t queries) const;

  const BatchLimits limits_;
  TicketLines* const lines_;
  CallerTable* const callers_;
  double saved_us_ = 0;      // device time that kBatch may take while kInteractive waits
  int64_t reply_bytes_ = 0;  // of the batch that is formed
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_BATCH_FORMER_H_
