#include "engine/corpus/generation.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"

namespace nearfield::corpus {
namespace {

// End of a payload, slot_by_rank; and only while sorting: a key and a rank.
constexpr int64_t kBytesPerRow = 8 + 4;
constexpr int64_t kSortBytesPerRow = 16 + 4;

}  // namespace

int64_t BuildBytes(int64_t rows_count, int64_t id_bytes, int64_t payload_bytes) {
  // Rows are fewer than 2^32: only the payload can be beyond counting.
  const int64_t beside =
      rows_count * (kBytesPerRow + kSortBytesPerRow) + IdFilter::BytesFor(rows_count);
  return CheckedAdd(beside + id_bytes, payload_bytes).value_or(-1);
}

absl::StatusOr<std::shared_ptr<const Generation>> Seal(GenerationParts parts) {
  std::vector<uint32_t> slot_by_rank = OrderById(parts.ids);
  if (const std::optional<uint32_t> slot = FindDouble(parts.ids, slot_by_rank)) {
    return absl::AlreadyExistsError(
        absl::StrCat("id ", IdText(parts.ids.at(*slot)), " is twice in the upload"));
  }
  ABSL_RETURN_IF_ERROR(parts.device->Observe(parts.planes->Seal(Inverse(slot_by_rank))));

  auto generation = std::make_shared<Generation>();
  generation->device = std::move(parts.device);
  generation->host = std::move(parts.host);
  generation->planes = std::move(parts.planes);
  generation->slot_by_rank = std::move(slot_by_rank);
  // Copies, not moves: a copy holds just what its values need.
  generation->ids = IdColumn(std::as_const(parts.ids));
  generation->filter = IdFilter(generation->ids);
  if (parts.payloads.value_bytes() > 0) {
    generation->payloads = BytesColumn(std::as_const(parts.payloads));
  }
  generation->host.ShrinkTo(generation->ids.bytes() + generation->payloads.bytes() +
                            generation->filter.bytes() +
                            generation->rows_count() * static_cast<int64_t>(sizeof(uint32_t)));
  return std::shared_ptr<const Generation>(std::move(generation));
}

}  // namespace nearfield::corpus
