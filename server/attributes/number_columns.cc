#include "server/attributes/number_columns.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

// A column, and the reservation of its memory.
struct HeldNumbers {
  HeldNumbers(MemoryReservation held, std::vector<double> values)
      : hold(std::move(held)), numbers(std::move(values)) {}

  MemoryReservation hold;
  RowNumbers numbers;
};

// Returns the number of ordinals up to the last row.
size_t OrdinalsCount(const AttributeSnapshot& snapshot) {
  size_t count = 0;
  for (const auto& chunk : snapshot.chunks) count = std::max(count, size_t{chunk->last()} + 1);
  return count;
}

}  // namespace

std::shared_ptr<const RowNumbers> NumberColumns::Find(const AttributeSnapshot& snapshot,
                                                      int32_t attribute) {
  const MutexLock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->version != snapshot.version || entry->attribute != attribute) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entry->numbers;
  }
  return nullptr;
}

absl::StatusOr<MemoryReservation> NumberColumns::Reserve(int64_t bytes) {
  for (;;) {
    absl::StatusOr<MemoryReservation> hold = budget_->Reserve(bytes);
    if (hold.ok()) return hold;
    std::list<Entry> last;  // destroyed after the lock is released
    const MutexLock lock(mutex_);
    if (entries_.empty()) return hold;
    last.splice(last.begin(), entries_, std::prev(entries_.end()));
  }
}

std::shared_ptr<const RowNumbers> NumberColumns::Keep(Entry entry) {
  std::list<Entry> added;
  added.push_front(std::move(entry));
  const MutexLock lock(mutex_);
  for (const Entry& kept : entries_) {
    if (kept.version == added.front().version && kept.attribute == added.front().attribute) {
      return kept.numbers;
    }
  }
  entries_.splice(entries_.begin(), added);
  return entries_.front().numbers;
}

absl::StatusOr<std::shared_ptr<const RowNumbers>> NumberColumns::Get(
    const AttributeSnapshot& snapshot, int32_t attribute, const std::function<bool()>& cancelled) {
  if (std::shared_ptr<const RowNumbers> kept = Find(snapshot, attribute)) return kept;
  const AttributeSpec& spec = snapshot.schema->at(attribute);
  CHECK(!spec.is_list && spec.type != AttributeType::kKeyword);
  const size_t count = OrdinalsCount(snapshot);
  ABSL_ASSIGN_OR_RETURN(MemoryReservation hold, Reserve(RowNumbers::BytesOf(count)));
  std::shared_ptr<const HeldNumbers> held;
  ABSL_RETURN_IF_ERROR(CatchOutOfMemory([&]() -> absl::Status {
    std::vector<double> numbers(count, std::numeric_limits<double>::quiet_NaN());
    for (const auto& chunk : snapshot.chunks) {
      if (cancelled && cancelled()) return absl::CancelledError("the search was cancelled");
      chunk->index(attribute).CopyNumbers(spec.type, absl::MakeSpan(numbers));
    }
    held = std::make_shared<const HeldNumbers>(std::move(hold), std::move(numbers));
    return absl::OkStatus();
  }));
  const std::shared_ptr<const RowNumbers> shared(held, &held->numbers);
  return Keep({.version = snapshot.version, .attribute = attribute, .numbers = shared});
}

}  // namespace nearfield::server
