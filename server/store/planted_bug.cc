#include "server/store/planted_bug.h"

#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

// Compiled only into nearfield_store_planted.
namespace nearfield::store {
namespace {

constexpr std::array<std::pair<PlantedBug, std::string_view>, 11> kNames = {{
    {PlantedBug::kCommitBeforeSync, "commit_before_sync"},
    {PlantedBug::kSyncErrorIgnored, "sync_error_ignored"},
    {PlantedBug::kChecksumsUnverified, "checksums_unverified"},
    {PlantedBug::kOrphansKept, "orphans_kept"},
    {PlantedBug::kDeletionApart, "deletion_apart"},
    {PlantedBug::kTokenApart, "token_apart"},
    {PlantedBug::kReplaceApart, "replace_apart"},
    {PlantedBug::kUnlinkBeforeSwap, "unlink_before_swap"},
    {PlantedBug::kRecordsDroppedEarly, "records_dropped_early"},
    {PlantedBug::kLateEpoch, "late_epoch"},
    {PlantedBug::kUndurableCheckpoint, "undurable_checkpoint"},
}};

}  // namespace

bool Planted(PlantedBug bug) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
  static const char* const named = std::getenv("NEARFIELD_PLANTED_BUG");
  if (named == nullptr) return false;
  for (const auto& [value, name] : kNames) {
    if (value == bug) return name == named;
  }
  return false;
}

}  // namespace nearfield::store
