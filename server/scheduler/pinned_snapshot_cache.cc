#include "server/scheduler/pinned_snapshot_cache.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

constexpr int64_t kCursorRetryMs = 1000;
// Interval at which pinned bytes are recomputed. A compaction, unlike a commit, does not report
// that an epoch pins more than before.
constexpr std::chrono::seconds kLookInterval(1);

absl::Status Full(const char* whose, int64_t count, const std::string& limit) {
  return WithReason(
      ExhaustedFor(kCursorRetryMs, "with_cursor: ", count, " epochs are kept for ", whose,
                   ", the limit is ", limit, ": let streams end, or search without a cursor"),
      "epochs_kept_max");
}

}  // namespace

PinnedSnapshotCache::PinnedSnapshotCache(const Options& options, const Clock* clock)
    : options_(options), clock_(clock), thread_([this] { Run(); }) {}

PinnedSnapshotCache::~PinnedSnapshotCache() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  wake_.NotifyOne();
  thread_.join();
}

absl::Status PinnedSnapshotCache::MakeRoom(const std::string& caller, Entries* forgotten) {
  int64_t own = 0;
  auto oldest = entries_.end();  // the caller's oldest entry that no stream holds
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->caller != caller) continue;
    ++own;
    if (entry->hold.expired()) oldest = entry;
  }
  const auto all = static_cast<int64_t>(entries_.size());
  const bool own_full = own >= options_.epochs_max;
  if (!own_full && all < options_.epochs_total_max) return absl::OkStatus();
  if (!own_full) oldest = OldestOfMost();
  if (oldest != entries_.end()) {
    Drop(oldest, forgotten);
    return absl::OkStatus();
  }
  if (own_full) {
    return Full("streams of this caller", own,
                absl::StrCat("epochs_kept_max = ", options_.epochs_max));
  }
  return Full("streams of all callers", all, absl::StrCat(options_.epochs_total_max));
}

PinnedSnapshotCache::Entries::iterator PinnedSnapshotCache::OldestOfMost() {
  std::map<std::string_view, int64_t> counts;
  for (const Entry& entry : entries_) ++counts[entry.caller];
  auto oldest = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (!entry->hold.expired()) continue;
    if (oldest == entries_.end() || counts[entry->caller] >= counts[oldest->caller]) oldest = entry;
  }
  return oldest;
}

absl::Status PinnedSnapshotCache::Keep(const std::string& caller,
                                       const std::shared_ptr<const Collection>& collection,
                                       std::shared_ptr<const PinnedEpoch> at, EpochHold* hold) {
  Entries forgotten;
  {
    const MutexLock lock(mutex_);
    auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.caller == caller && entry.IsOf(collection.get(), at->epoch());
    });
    const bool fresh = known == entries_.end();
    if (fresh) {
      if (absl::Status room = MakeRoom(caller, &forgotten); !room.ok()) return room;
      entries_.push_front({.caller = caller, .collection = collection, .at = std::move(at)});
      CHECK_LE(static_cast<int64_t>(entries_.size()), options_.epochs_total_max);
    } else {
      entries_.splice(entries_.begin(), entries_, known);
    }
    Entry& entry = entries_.front();
    entry.expires = clock_->Now() + options_.keep;
    if (hold != nullptr) {
      *hold = entry.hold.lock();
      if (*hold == nullptr) *hold = std::make_shared<char>();
      entry.hold = *hold;
    }
    if (fresh) TrimLocked(&forgotten);
  }
  wake_.NotifyOne();
  return absl::OkStatus();
}

std::shared_ptr<const PinnedEpoch> PinnedSnapshotCache::Find(
    const std::string& caller, const std::shared_ptr<const Collection>& collection,
    uint64_t epoch) {
  std::shared_ptr<const PinnedEpoch> found;
  {
    const MutexLock lock(mutex_);
    const TimePoint now = clock_->Now();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (!entry->IsOf(collection.get(), epoch)) continue;
      if (now >= entry->expires && entry->hold.expired()) continue;
      found = entry->at;
      if (entry->caller != caller) continue;
      entries_.splice(entries_.begin(), entries_, entry);
      entry->expires = now + options_.keep;
      return found;
    }
  }
  if (found != nullptr) return found;
  std::shared_ptr<const PinnedEpoch> current = collection->PinEpoch();
  return current->epoch() == epoch ? current : nullptr;
}

int64_t PinnedSnapshotCache::epochs_count() {
  const MutexLock lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

void PinnedSnapshotCache::Forget(const Collection* collection) {
  Entries forgotten;
  const MutexLock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->collection.lock().get() == collection) Drop(entry, &forgotten);
    entry = next;
  }
}

void PinnedSnapshotCache::DropExpired() {
  Entries forgotten;
  const MutexLock lock(mutex_);
  const TimePoint now = clock_->Now();
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    // After a stream has ended, its epoch stays for a cursor that continues after it.
    if (!entry->hold.expired()) entry->expires = now + options_.keep;
    if (entry->expires <= now) Drop(entry, &forgotten);
    entry = next;
  }
}

PinnedSnapshotCache::Candidates PinnedSnapshotCache::All() {
  Candidates all;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) all.push_back(entry);
  return all;
}

HeldBytes PinnedSnapshotCache::bytes() {
  const MutexLock lock(mutex_);
  return BytesOf(All());
}

HeldBytes PinnedSnapshotCache::BytesOf(const Candidates& entries) {
  std::map<std::shared_ptr<const Collection>, PinnedEpochs> pins;
  for (const Entries::iterator& entry : entries) {
    if (auto collection = entry->collection.lock()) pins[collection].push_back(entry->at);
  }
  HeldBytes bytes;
  for (const auto& [collection, epochs] : pins) bytes += collection->BytesHeldBy(epochs);
  return bytes;
}

PinnedSnapshotCache::Entries::iterator PinnedSnapshotCache::Victim() {
  const auto pinned = [](const Candidates& candidates) {
    const HeldBytes bytes = BytesOf(candidates);
    return bytes.device + bytes.host + bytes.host_rows;
  };
  std::map<std::string, Candidates> callers;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (pinned({entry}) > 0) callers[entry->caller].push_back(entry);
  }
  const Candidates* most = nullptr;
  int64_t most_bytes = 0;
  for (const auto& [caller, own] : callers) {
    const int64_t bytes = pinned(own);
    if (bytes <= most_bytes) continue;
    most = &own;
    most_bytes = bytes;
  }
  if (most == nullptr) return entries_.end();
  for (auto entry = most->rbegin(); entry != most->rend(); ++entry) {
    if ((*entry)->hold.expired()) return *entry;
  }
  return most->back();
}

void PinnedSnapshotCache::TrimLocked(Entries* forgotten) {
  while (true) {
    if (BytesOf(All()).FitsIn(options_.bytes_max)) return;
    const auto victim = Victim();
    if (victim == entries_.end()) return;
    Drop(victim, forgotten);
  }
}

void PinnedSnapshotCache::Trim() {
  Entries forgotten;
  const MutexLock lock(mutex_);
  TrimLocked(&forgotten);
}

void PinnedSnapshotCache::Run() {
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!ending_ && entries_.empty()) wake_.Wait(lock);
      if (!ending_) {
        const auto left = entries_.back().expires - clock_->Now();
        const auto look_at =
            std::chrono::steady_clock::now() + std::min<TimePoint::duration>(left, kLookInterval);
        while (!ending_ && wake_.WaitUntil(lock, look_at)) {
        }
      }
      if (ending_) return;
    }
    DropExpired();
    Trim();
  }
}

}  // namespace nearfield::server
