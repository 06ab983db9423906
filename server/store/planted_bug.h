// Faults planted on purpose: the crash harness must catch each of them, or it proves nothing.
//
// Only the library nearfield_store_planted, which the crash worker links, is compiled with
// NEARFIELD_STORE_PLANTED_BUGS. Everywhere else Planted() is the constant false and the compiler
// removes what it guards; store_planted_test looks into the libraries to see that this is so.
#ifndef NEARFIELD_SERVER_STORE_PLANTED_BUG_H_
#define NEARFIELD_SERVER_STORE_PLANTED_BUG_H_

#include <cstdint>

namespace nearfield::store {

enum class PlantedBug : uint8_t {
  kCommitBeforeSync,     // the catalogue commits first, the segment is synced afterwards
  kSyncErrorIgnored,     // a failed fdatasync of a segment counts as done
  kChecksumsUnverified,  // pieces of a block are taken as they are read
  kOrphansKept,          // files of dead uploads stay
  kDeletionApart,        // an upsert's deletion record gets a transaction of its own
  kTokenApart,           // an upload's token is marked committed in a transaction of its own
  kReplaceApart,         // a replace removes the old segments in a transaction of its own
  kUnlinkBeforeSwap,     // compaction removes its inputs before the catalogue has the output
  kRecordsDroppedEarly,  // compaction drops deletion records that kept segments still need
  kLateEpoch,            // the output of a compaction counts as newer than it is
  kUndurableCheckpoint,  // a checkpoint records blocks that were not synced
};

#ifdef NEARFIELD_STORE_PLANTED_BUGS
// Whether the environment variable NEARFIELD_PLANTED_BUG names this one.
bool Planted(PlantedBug bug);
#else
constexpr bool Planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_PLANTED_BUG_H_
