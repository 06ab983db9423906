// EngineScript and Gate: gates, and records of the engine's calls.
#include <chrono>

#include "tests/testing/scripted_engine.h"

namespace nearfield::testing {

void Gate::Close() {
  const std::lock_guard lock(mutex_);
  open_ = false;
  arrivals_ = 0;
}

void Gate::Open() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  changed_.notify_all();
}

void Gate::Pass(const std::function<bool()>& give_up) {
  std::unique_lock lock(mutex_);
  if (open_) return;
  ++arrivals_;
  changed_.notify_all();
  while (!open_ && (give_up == nullptr || !give_up()))
    changed_.wait_for(lock, std::chrono::milliseconds(1));
}

void Gate::AwaitArrivals(int64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return arrivals_ >= count; });
}

void EngineScript::CorruptAnswers(std::function<void(Neighbors*)> corrupt) {
  const std::lock_guard lock(mutex_);
  corrupt_ = std::move(corrupt);
}

void EngineScript::Corrupt(Neighbors* neighbors) const {
  const std::lock_guard lock(mutex_);
  if (corrupt_ != nullptr) corrupt_(neighbors);
}

std::vector<int64_t> EngineScript::batch_sizes() const {
  const std::lock_guard lock(mutex_);
  return batch_sizes_;
}

void EngineScript::NoteBatch(int64_t size) {
  const std::lock_guard lock(mutex_);
  batch_sizes_.push_back(size);
}

}  // namespace nearfield::testing
