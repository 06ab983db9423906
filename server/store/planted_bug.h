// Planted bugs. The crash harness must catch each of them, else it proves nothing.
//
// Only the library nearfield_store_planted, which the crash worker links, is compiled with
// NEARFIELD_STORE_PLANTED_BUGS. Elsewhere Planted() is the constant false, and the compiler removes
// the code that it guards; store_planted_test checks the libraries for this.
#ifndef NEARFIELD_SERVER_STORE_PLANTED_BUG_H_
#define NEARFIELD_SERVER_STORE_PLANTED_BUG_H_

#include <cstdint>

namespace nearfield::store {

enum class PlantedBug : uint8_t {
  kCommitBeforeSync,     // the catalogue commits first, the segment is synced afterwards
  kSyncErrorIgnored,     // a failed fdatasync of a segment is taken as success
  kChecksumsUnverified,  // pieces of a block are used without verification
  kOrphansKept,          // files of interrupted uploads stay
  kDeletionApart,        // an upsert's deletion record is committed separately
  kTokenApart,           // an upload's token is marked committed in a separate transaction
  kReplaceApart,         // a replace removes the old segments in a separate transaction
  kUnlinkBeforeSwap,     // compaction removes its inputs before the catalogue has the output
  kRecordsDroppedEarly,  // compaction drops deletion records that kept segments still need
  kLateEpoch,            // the output of a compaction has too large a seq
  kUndurableCheckpoint,  // a checkpoint records blocks that were not synced
};

#ifdef NEARFIELD_STORE_PLANTED_BUGS
// Returns whether the environment variable NEARFIELD_PLANTED_BUG names this bug.
bool Planted(PlantedBug bug);
#else
constexpr bool Planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace nearfield::store

#endif  // NEARFIELD_SERVER_STORE_PLANTED_BUG_H_
