#include "server/collections/expiry.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/attributes/filter_text.h"
#include "server/collections/delete_rows.h"

namespace nearfield::server {
namespace {

// Returns `rows` without those after the first `rows_max`.
std::shared_ptr<const RowFilter> FirstOf(const RowFilter& rows, int64_t rows_max) {
  auto first = std::make_shared<RowFilter>();
  for (uint64_t word : rows.chosen) {
    uint64_t kept = 0;
    for (; word != 0 && rows_max > 0; --rows_max) {
      kept |= word & -word;
      word &= word - 1;
    }
    first->chosen.push_back(kept);
    if (rows_max == 0) break;
  }
  return first;
}

}  // namespace

absl::StatusOr<int64_t> DeleteExpired(const NamedCollection& named, int64_t now_us,
                                      int64_t rows_max, const std::function<bool()>& cancelled) {
  const std::shared_ptr<const PinnedEpoch> at = named.collection->PinEpoch();
  const auto schema = named.attributes->SchemaAt(at->epoch());
  const std::optional<int32_t> expires = schema->expires();
  if (!expires.has_value()) return 0;
  ValueColumn now(AttributeType::kTimestamp);
  now.AppendInteger(now_us);
  ABSL_ASSIGN_OR_RETURN(
      FilterTree tree,
      ParseFilterText(absl::StrCat("`", schema->at(*expires).name, "` <= $1"), {std::move(now)},
                      named.collection->spec().id_type, *schema, AttributeLimits()));
  const Filter filter(std::move(tree), *schema);
  ABSL_ASSIGN_OR_RETURN(ChosenRows chosen,
                        named.attributes->Choose(*named.collection, filter, at, cancelled));
  if (chosen.rows_count_max == 0) return 0;
  if (chosen.rows_count_max > rows_max) {
    // The chosen rows may include deleted ones, which must not fill a step.
    ABSL_ASSIGN_OR_RETURN(RowFilter live, named.collection->LiveRows(at.get()));
    live.chosen.resize(std::min(live.chosen.size(), chosen.rows->chosen.size()));
    for (size_t word = 0; word < live.chosen.size(); ++word) {
      live.chosen[word] &= chosen.rows->chosen[word];
    }
    chosen.rows = FirstOf(live, rows_max);
  }
  ABSL_ASSIGN_OR_RETURN(const DeleteResult result, DeleteRows(named, chosen));
  return result.rows_deleted;
}

Expiry::Expiry(Base base) : base_(std::move(base)) {
  if (base_.interval_ms > 0) thread_ = std::thread([this] { Run(); });
}

Expiry::~Expiry() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

bool Expiry::ending() const {
  const MutexLock lock(mutex_);
  return ending_;
}

void Expiry::Run() {
  for (;;) {
    const auto next =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(base_.interval_ms);
    {
      MutexLock lock(mutex_);
      while (!ending_ && wake_.WaitUntil(lock, next)) {
      }
      if (ending_) return;
    }
    // If memory is exhausted even for this, the next interval tries again.
    CatchOutOfMemory([this] {
      Sweep();
      return absl::OkStatus();
    }).IgnoreError();
  }
}

void Expiry::Sweep() {
  const int64_t now_us = base_.now_us();
  for (const NamedCollectionPtr& named : base_.collections()) {
    absl::StatusOr<int64_t> rows = kStepRows;
    while (rows.ok() && *rows == kStepRows && !ending() && base_.may_delete() &&
           !named->dropped.load() && named->load_status.ok()) {
      rows = CatchOutOfMemory(
          [&] { return DeleteExpired(*named, now_us, kStepRows, [this] { return ending(); }); });
      if (absl::IsCancelled(rows.status()) || named->dropped.load()) break;
      if (!rows.ok() || *rows > 0) base_.report(named->name, rows);
    }
  }
}

}  // namespace nearfield::server
