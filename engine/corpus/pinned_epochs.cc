// Corpus: the snapshots that callers pin, and the memory that they hold.
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/base/check.h"
#include "engine/corpus/corpus.h"

namespace nearfield::corpus {

namespace {

class SnapshotPin final : public PinnedEpoch {
 public:
  SnapshotPin(const Corpus* corpus, std::shared_ptr<const CorpusSnapshot> snapshot)
      : corpus_(corpus), snapshot_(std::move(snapshot)) {}
  uint64_t epoch() const override { return snapshot_->epoch; }
  int64_t rows_count() const override { return snapshot_->rows_live(); }
  const Corpus* corpus() const { return corpus_; }
  const std::shared_ptr<const CorpusSnapshot>& snapshot() const { return snapshot_; }

 private:
  const Corpus* const corpus_;  // only compared, never dereferenced
  const std::shared_ptr<const CorpusSnapshot> snapshot_;
};

}  // namespace

std::shared_ptr<const PinnedEpoch> Corpus::PinEpoch() const {
  return std::make_shared<SnapshotPin>(this, Pin());
}

// After a compaction, several snapshots have the same epoch; they show the same rows.
PinnedEpochs Corpus::ReachableEpochs() const {
  std::vector<std::shared_ptr<const CorpusSnapshot>> held;
  {
    const MutexLock lock(mutex_);
    held.push_back(snapshot_);
    for (const auto& replaced : replaced_) {
      if (auto snapshot = replaced.lock()) held.push_back(std::move(snapshot));
    }
  }
  std::map<uint64_t, std::shared_ptr<const PinnedEpoch>> pins;
  for (auto& snapshot : held) {
    const uint64_t epoch = snapshot->epoch;
    pins.try_emplace(epoch, std::make_shared<SnapshotPin>(this, std::move(snapshot)));
  }
  PinnedEpochs epochs;
  for (auto& [epoch, pin] : pins) epochs.push_back(std::move(pin));
  return epochs;
}

HeldBytes Corpus::BytesHeldBy(const PinnedEpochs& epochs) const {
  const std::shared_ptr<const CorpusSnapshot> current = Pin();
  std::unordered_set<const void*> counted;
  for (const GenerationState& state : current->generations) {
    counted.insert(state.generation.get());
    counted.insert(state.tombstones.get());
    if (state.versions != nullptr) state.versions->CountBytes(&counted);
  }
  HeldBytes bytes;
  for (const std::shared_ptr<const PinnedEpoch>& epoch : epochs) {
    const auto* const pin = dynamic_cast<const SnapshotPin*>(epoch.get());
    if (pin == nullptr || pin->corpus() != this) continue;
    for (const GenerationState& state : pin->snapshot()->generations) {
      if (counted.insert(state.generation.get()).second) bytes += state.generation->bytes();
      if (state.tombstones != nullptr && counted.insert(state.tombstones.get()).second) {
        bytes.host += static_cast<int64_t>(state.tombstones->words().size() * sizeof(uint64_t));
      }
      if (state.versions != nullptr) bytes.host += state.versions->CountBytes(&counted);
    }
  }
  return bytes;
}

absl::StatusOr<std::shared_ptr<const CorpusSnapshot>> Corpus::At(const PinnedEpoch* epoch) const {
  if (epoch == nullptr) return Pin();
  const auto* const pin = dynamic_cast<const SnapshotPin*>(epoch);
  if (pin == nullptr || pin->corpus() != this) {
    return absl::InvalidArgumentError("at: an epoch of another collection");
  }
  DCHECK_GE(static_cast<int64_t>(Pin()->epoch - pin->epoch()), 0);  // modulo 2^64
  return pin->snapshot();
}

}  // namespace nearfield::corpus
