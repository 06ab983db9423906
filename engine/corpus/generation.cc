#include "engine/corpus/generation.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"

namespace nearfield::corpus {
namespace {

// Bytes for the end of a payload and slot_by_rank; during sorting also for a key and a rank.
constexpr int64_t kBytesPerRow = 8 + 4;
constexpr int64_t kSortBytesPerRow = 16 + 4;

// Moves superseded rows to the end of `order`: of equal ids, only the last row stays in front.
// Returns how many rows stay in front.
// `order`: OrderById(ids), in which equal ids are ordered by slot.
int64_t PutSupersededLast(const IdColumn& ids, std::vector<uint32_t>& order) {
  std::vector<uint32_t> superseded;
  size_t named = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool again = i + 1 < order.size() && ids.Compare(order[i], ids, order[i + 1]) == 0;
    if (again) {
      superseded.push_back(order[i]);
    } else {
      order[named++] = order[i];
    }
  }
  std::copy(superseded.begin(), superseded.end(), order.begin() + static_cast<int64_t>(named));
  return static_cast<int64_t>(named);
}

}  // namespace

void Generation::Check() const {
  CHECK_LE(rows_count(), kRowsMax);
  CHECK_EQ(planes->rows_count(), rows_count());
  CHECK_EQ(ordinals.size(), rows_count());
  CHECK_EQ(static_cast<int64_t>(slot_by_rank.size()), rows_count());
  CHECK(payloads.size() == 0 || payloads.size() == rows_count());
  CHECK(0 < named && named <= rows_count());
  DCHECK(!FindDouble(ids, ordered_ids().order).has_value());
  DCHECK(std::is_sorted(slot_by_rank.begin(), slot_by_rank.begin() + named,
                        [this](uint32_t a, uint32_t b) { return ids.Compare(a, ids, b) < 0; }));
}

std::vector<uint32_t> Generation::superseded() const {
  std::vector<uint32_t> slots(slot_by_rank.begin() + named, slot_by_rank.end());
  std::sort(slots.begin(), slots.end());
  return slots;
}

int64_t BuildBytes(int64_t rows_count, int64_t id_bytes, int64_t payload_bytes) {
  // There are fewer than 2^32 rows, so only the payload bytes can overflow the sum.
  const int64_t beside = rows_count * (kBytesPerRow + kSortBytesPerRow) +
                         IdFilter::BytesFor(rows_count) + Ordinals::kRunBytes;
  return CheckedAdd(beside + id_bytes, payload_bytes).value_or(-1);
}

absl::StatusOr<std::shared_ptr<const Generation>> Seal(GenerationParts parts,
                                                       DuplicatePolicy duplicates) {
  std::vector<uint32_t> slot_by_rank = OrderById(parts.ids);
  int64_t named = parts.ids.size();
  if (const std::optional<uint32_t> slot = FindDouble(parts.ids, slot_by_rank)) {
    if (duplicates == DuplicatePolicy::kRefused) {
      return absl::AlreadyExistsError(
          absl::StrCat("id ", IdText(parts.ids.at(*slot)), " occurs twice in the upload"));
    }
    named = PutSupersededLast(parts.ids, slot_by_rank);
  }
  ABSL_RETURN_IF_ERROR(parts.device->Observe(
      parts.planes->Seal({.ranks = Inverse(slot_by_rank), .ids = parts.ids.numbers()})));

  auto generation = std::make_shared<Generation>();
  generation->device = std::move(parts.device);
  generation->host = std::move(parts.host);
  generation->planes = std::move(parts.planes);
  generation->ordinals = std::move(parts.ordinals);
  generation->slot_by_rank = std::move(slot_by_rank);
  generation->named = named;
  // Copy the columns, because a copy has no spare capacity. Both exist during the copy: memory
  // reserved for sorting covers the fixed part, and Grow reserves the values. If there is no memory
  // for them, keep the columns with their spare capacity.
  const int64_t values_max = std::max(StringBytes(parts.ids), parts.payloads.value_bytes());
  const bool copied = generation->host.Grow(values_max).ok();
  generation->ids = copied ? IdColumn(std::as_const(parts.ids)) : std::move(parts.ids);
  parts.ids = IdColumn();
  generation->filter = IdFilter(generation->ids);
  if (parts.payloads.value_bytes() > 0) {
    generation->payloads =
        copied ? BytesColumn(std::as_const(parts.payloads)) : std::move(parts.payloads);
  }
  generation->host.ShrinkTo(generation->ids.bytes() + generation->payloads.bytes() +
                            generation->filter.bytes() + generation->ordinals.bytes() +
                            generation->rows_count() * static_cast<int64_t>(sizeof(uint32_t)));
  generation->Check();
  return std::shared_ptr<const Generation>(std::move(generation));
}

}  // namespace nearfield::corpus
