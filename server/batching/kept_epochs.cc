#include "server/batching/kept_epochs.h"

#include <utility>

namespace nearfield::server {

// In all of them what is given up is destroyed without the lock: it may be the last hold on rows.

KeptEpochs::KeptEpochs(const Options& options, const Clock* clock)
    : options_(options), clock_(clock), thread_([this] { Run(); }) {}

KeptEpochs::~KeptEpochs() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

KeptEpochs::Entries::iterator KeptEpochs::FindEntry(const Collection* collection, uint64_t epoch) {
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->at->epoch() == epoch && entry->collection.lock().get() == collection) return entry;
  }
  return entries_.end();
}

void KeptEpochs::Keep(const std::shared_ptr<const Collection>& collection,
                      std::shared_ptr<const PinnedEpoch> at) {
  Entries forgotten;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint expires = clock_->Now() + options_.keep;
    const auto known = FindEntry(collection.get(), at->epoch());
    if (known != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, known);
      known->expires = expires;
    } else {
      entries_.push_front({.collection = collection, .at = std::move(at), .expires = expires});
    }
    while (static_cast<int64_t>(entries_.size()) > options_.epochs_max) {
      forgotten.splice(forgotten.end(), entries_, std::prev(entries_.end()));
    }
  }
  wake_.notify_one();
}

std::shared_ptr<const PinnedEpoch> KeptEpochs::Find(
    const std::shared_ptr<const Collection>& collection, uint64_t epoch) {
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = clock_->Now();
    const auto known = FindEntry(collection.get(), epoch);
    if (known != entries_.end() && now < known->expires) {
      entries_.splice(entries_.begin(), entries_, known);
      known->expires = now + options_.keep;
      return known->at;
    }
  }
  std::shared_ptr<const PinnedEpoch> current = collection->PinEpoch();
  return current->epoch() == epoch ? current : nullptr;
}

void KeptEpochs::Forget(const Collection* collection) {
  Entries forgotten;
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->collection.lock().get() == collection) {
      forgotten.splice(forgotten.end(), entries_, entry);
    }
    entry = next;
  }
}

void KeptEpochs::DropExpired() {
  Entries forgotten;
  const std::lock_guard lock(mutex_);
  while (!entries_.empty() && entries_.back().expires <= clock_->Now()) {
    forgotten.splice(forgotten.end(), entries_, std::prev(entries_.end()));
  }
}

void KeptEpochs::Run() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return ending_ || !entries_.empty(); });
      if (!ending_) {
        wake_.wait_for(lock, entries_.back().expires - clock_->Now(), [this] { return ending_; });
      }
      if (ending_) return;
    }
    DropExpired();
  }
}

}  // namespace nearfield::server
