#include "server/collections/compactor.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

// Interval at which a waiting order checks whether it was cancelled.
constexpr std::chrono::milliseconds kCancelledWait{20};
// Maximum steps of one order, for memory and for disk each. Concurrent deletes could prolong it
// without end.
constexpr int kStepsMax = 4 * kGenerationsMax;
// On few cores, searches have priority.
constexpr int kNice = 10;

// A threshold that leaves no deleted row in memory. Parts are not joined beyond what the background
// compaction does, because that copies rows and frees nothing.
constexpr CompactionOptions kWholeMemory = {.dead_share_max = 0};

}  // namespace

Compactor::Compactor(Collections collections, Report report)
    : collections_(std::move(collections)),
      report_(std::move(report)),
      thread_([this] { Run(); }) {}

Compactor::~Compactor() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  wake_.NotifyOne();
  thread_.join();
}

void Compactor::Nudge() {
  {
    const MutexLock lock(mutex_);
    nudged_ = true;
  }
  wake_.NotifyOne();
}

absl::StatusOr<GivenBack> Compactor::CompactNow(NamedCollectionPtr named,
                                                std::function<bool()> cancelled) {
  Order order = {.named = std::move(named), .cancelled = std::move(cancelled)};
  MutexLock lock(mutex_);
  orders_.push_back(&order);
  wake_.NotifyOne();
  while (true) {
    const auto look_at = std::chrono::steady_clock::now() + kCancelledWait;
    while (!order.done && served_.WaitUntil(lock, look_at)) {
    }
    if (order.done) return order.result;
    if (order.begun || !order.cancelled()) continue;
    const auto place = std::find(orders_.begin(), orders_.end(), &order);
    CHECK(place != orders_.end());
    orders_.erase(place);
    return absl::CancelledError("cancelled while another compaction ran");
  }
}

bool Compactor::ending() const {
  const MutexLock lock(mutex_);
  return ending_;
}

bool Compactor::Interrupted() {
  const MutexLock lock(mutex_);
  nudged_ = nudged_ || !orders_.empty();  // to return to the remaining collections later
  return ending_ || !orders_.empty();
}

void Compactor::Run() {
  // Ignore a failure: the work is done at normal priority.
  static_cast<void>(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice));
  for (;;) {
    Order* order = nullptr;
    {
      MutexLock lock(mutex_);
      while (!nudged_ && !ending_ && orders_.empty()) wake_.Wait(lock);
      if (ending_) return;
      if (orders_.empty()) {
        nudged_ = false;
      } else {
        order = orders_.front();
        orders_.pop_front();
        order->begun = true;
      }
    }
    if (order != nullptr) {
      Serve(order);
    } else {
      // If memory is exhausted even for this, the next nudge tries again.
      CatchOutOfMemory([this] { return CompactAll(); }).IgnoreError();
    }
  }
}

absl::Status Compactor::CompactAll() {
  for (const NamedCollectionPtr& named : collections_()) {
    if (Interrupted()) return absl::OkStatus();
    if (named->dropped.load() || !named->load_status.ok()) continue;
    const absl::Status status = CatchOutOfMemory([&] { return CompactOne(*named); });
    // Aborted: something changed meanwhile, and another nudge follows.
    if (status.ok() || absl::IsAborted(status) || absl::IsCancelled(status)) continue;
    if (!named->dropped.load()) report_(named->name, status);
  }
  return absl::OkStatus();
}

absl::Status Compactor::CompactOne(const NamedCollection& named) {
  absl::Status memory;
  for (bool done = false; !done && !ending();) {
    const absl::StatusOr<CompactionResult> step = named.collection->Compact({});
    memory = step.status();
    done = !step.ok() || step->done || step->rows_copied == 0;
  }
  // Tidy attributes and the disk even if there is no memory for a copy.
  if (!memory.ok() && !absl::IsResourceExhausted(memory)) return memory;
  ABSL_RETURN_IF_ERROR(named.attributes->Tidy(*named.collection, CollectionAttributes::Drop::kMany,
                                              [this] { return ending(); }));
  if (named.store == nullptr) return memory;
  const store::CompactOptions options = {.cancelled = [this] { return ending(); }};
  if (!named.store->CompactionDue(named.store_id, options)) return memory;
  ABSL_RETURN_IF_ERROR(named.store->Compact(named.store_id, options).status());
  return memory;
}

void Compactor::Serve(Order* order) {
  absl::StatusOr<GivenBack> result = CatchOutOfMemory([&] { return CompactWhole(*order); });
  {
    const MutexLock lock(mutex_);
    order->result = std::move(result);
    order->done = true;
  }
  served_.NotifyAll();
}

absl::StatusOr<GivenBack> Compactor::CompactWhole(const Order& order) {
  GivenBack given;
  const absl::Status memory = CompactMemory(order, &given);
  // The disk can be compacted even if there is no memory for a copy, and vice versa.
  if (!memory.ok() && !absl::IsResourceExhausted(memory)) return memory;
  ABSL_RETURN_IF_ERROR(order.named->attributes->Tidy(*order.named->collection,
                                                     CollectionAttributes::Drop::kAll,
                                                     [&] { return !GoOn(order).ok(); }));
  if (order.named->store != nullptr) ABSL_RETURN_IF_ERROR(CompactDisk(order, &given));
  if (!memory.ok()) return memory;
  return given;
}

absl::Status Compactor::GoOn(const Order& order) const {
  if (order.named->dropped.load()) {
    return absl::AbortedError("the collection was dropped meanwhile");
  }
  if (ending() || order.cancelled()) return absl::CancelledError("cancelled");
  return absl::OkStatus();
}

absl::Status Compactor::CompactMemory(const Order& order, GivenBack* given) {
  Collection& collection = *order.named->collection;
  const CollectionStats before = collection.Stats();
  absl::Status status = absl::OkStatus();
  for (int steps = 0; steps < kStepsMax; ++steps) {
    status = GoOn(order);
    if (!status.ok()) break;
    const absl::StatusOr<CompactionResult> step = collection.Compact(kWholeMemory);
    status = step.status();
    if (!status.ok() || step->done) break;
    given->rows += step->rows_given_back;
  }
  const CollectionStats after = collection.Stats();
  given->device_bytes = std::max<int64_t>(0, before.device_bytes - after.device_bytes);
  given->host_bytes = std::max<int64_t>(0, before.host_bytes - after.host_bytes);
  return status;
}

absl::Status Compactor::CompactDisk(const Order& order, GivenBack* given) {
  const store::CompactOptions options = {.dead_share_max = 0,
                                         .cancelled = [this, &order] { return !GoOn(order).ok(); }};
  for (int steps = 0; steps < kStepsMax; ++steps) {
    ABSL_RETURN_IF_ERROR(GoOn(order));
    const auto step = order.named->store->Compact(order.named->store_id, options);
    if (absl::IsAborted(step.status())) continue;  // replaced as a whole: read the current state
    if (!step.ok() && !GoOn(order).ok()) return GoOn(order);
    ABSL_RETURN_IF_ERROR(step.status());
    given->stored_rows += step->rows_dropped;
    given->stored_bytes += std::max<int64_t>(0, step->bytes_before - step->bytes_after);
    if (step->rows_dropped == 0 && step->ids_dropped == 0) break;
  }
  return absl::OkStatus();
}

}  // namespace nearfield::server
