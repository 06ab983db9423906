#include "engine/gpu/memory/gpu_number_columns.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"

namespace nearfield::gpu {
namespace {

// The kept columns take at most this share of the arena.
constexpr int64_t kArenaShare = 16;
// Rows whose numbers are copied at once.
constexpr int64_t kPieceRows = int64_t{1} << 17;

static_assert(kPieceRows % kNumberTileRows == 0);

int64_t NumberBytes(int64_t rows_count) { return rows_count * int64_t{sizeof(double)}; }
int64_t RangeBytes(int64_t rows_count) {
  return CeilDiv(rows_count, kNumberTileRows) * int64_t{sizeof(TileRange)};
}
// Returns the bytes of a column, with what alignment adds.
int64_t BytesOf(int64_t rows_count) {
  return NumberBytes(rows_count) + int64_t{sizeof(TileRange)} + RangeBytes(rows_count);
}

// Returns the ranges of the numbers of whole tiles.
std::vector<TileRange> RangesOf(absl::Span<const double> numbers) {
  constexpr auto kTile = static_cast<size_t>(kNumberTileRows);
  std::vector<TileRange> ranges((numbers.size() + kTile - 1) / kTile);
  for (size_t row = 0; row < numbers.size(); ++row) ranges[row / kTile].range.Add(numbers[row]);
  return ranges;
}

}  // namespace

absl::StatusOr<GpuNumberColumns::Column> GpuNumberColumns::Get(const backend::TermSource& source,
                                                               size_t term, size_t generation,
                                                               int64_t rows_count) {
  backend::NumbersSource wanted = source.SourceOf(term, generation);
  {
    const MutexLock lock(mutex_);
    const auto known = std::find_if(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.source == wanted; });
    if (known != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, known);
      return known->column;
    }
    ABSL_RETURN_IF_ERROR(MakeRoom(BytesOf(rows_count)));
  }
  auto made = Make(source, term, generation, rows_count);
  if (absl::IsResourceExhausted(made.status()) && Clear()) {
    made = Make(source, term, generation, rows_count);
  }
  ABSL_RETURN_IF_ERROR(made.status());
  const MutexLock lock(mutex_);
  entries_.push_front({.source = std::move(wanted), .column = *made});
  return made;
}

absl::StatusOr<GpuNumberColumns::Column> GpuNumberColumns::Make(const backend::TermSource& source,
                                                                size_t term, size_t generation,
                                                                int64_t rows_count) {
  auto stored = std::make_shared<Stored>(core_);
  SlabRange& memory = stored->memory;
  ABSL_RETURN_IF_ERROR(memory.Take(BytesOf(rows_count)));
  const int64_t offset = memory.offset();
  stored->column = {
      .extent = memory.view(),
      .offset = offset,
      .ranges_offset = RoundUp(offset + NumberBytes(rows_count), int64_t{sizeof(TileRange)})};
  std::vector<double> numbers;
  for (int64_t begin = 0; begin < rows_count; begin += kPieceRows) {
    numbers.resize(static_cast<size_t>(std::min(kPieceRows, rows_count - begin)));
    source.CopyNumbers(term, generation, begin, absl::MakeSpan(numbers));
    ABSL_RETURN_IF_ERROR(memory.Write(NumberBytes(begin), numbers.data(),
                                      NumberBytes(static_cast<int64_t>(numbers.size()))));
    const std::vector<TileRange> ranges = RangesOf(numbers);
    ABSL_RETURN_IF_ERROR(memory.Write(stored->column.ranges_offset - offset + RangeBytes(begin),
                                      ranges.data(),
                                      static_cast<int64_t>(ranges.size() * sizeof(TileRange))));
  }
  ABSL_RETURN_IF_ERROR(core_->DrainUploads());
  return stored;
}

// Drops columns until `bytes` more may be kept: first those that no search can use again, then the
// least recently used. Those that a search uses stay.
absl::Status GpuNumberColumns::MakeRoom(int64_t bytes) {
  const auto unused = [](const Entry& entry) { return entry.column.use_count() == 1; };
  std::erase_if(entries_,
                [&](const Entry& entry) { return unused(entry) && entry.source.expired(); });
  int64_t free = core_->arena().bytes_total() / kArenaShare;
  for (const Entry& entry : entries_) free -= entry.column->memory.device_bytes();
  for (auto entry = entries_.end(); entry != entries_.begin() && free < bytes;) {
    --entry;
    if (!unused(*entry)) continue;
    free += entry->column->memory.device_bytes();
    entry = entries_.erase(entry);
  }
  if (free >= bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the numbers of a row term need ", bytes,
                                                   " bytes of device memory, and ", free,
                                                   " are free for them"));
}

bool GpuNumberColumns::Clear() {
  const MutexLock lock(mutex_);
  return std::erase_if(entries_, [](const Entry& entry) { return entry.column.use_count() == 1; }) >
         0;
}

int64_t GpuNumberColumns::device_bytes() const {
  const MutexLock lock(mutex_);
  int64_t bytes = 0;
  for (const Entry& entry : entries_) bytes += entry.column->memory.device_bytes();
  return bytes;
}

}  // namespace nearfield::gpu
