#include "engine/gpu/memory/gpu_tombstones.h"

#include <utility>

#include "engine/base/count_bits.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::gpu {
namespace {

// The live slots are listed if at most one row in this number is live. The list then takes at most
// one bit per row.
constexpr int64_t kRowsPerListed = 32;

std::vector<uint32_t> FewLiveSlots(const std::vector<uint64_t>& words) {
  const auto slots = static_cast<int64_t>(words.size()) * 64;
  const int64_t live = slots - CountBits(words);
  if (live * kRowsPerListed > slots) return {};
  return corpus::ZeroBits(words, slots);
}

}  // namespace

GpuTombstones::GpuTombstones(std::shared_ptr<GpuCore> core, std::vector<uint64_t> words)
    : range_(std::move(core)), words_(std::move(words)) {}

absl::StatusOr<std::unique_ptr<GpuTombstones>> GpuTombstones::Make(std::shared_ptr<GpuCore> core,
                                                                   std::vector<uint64_t> words) {
  ABSL_RETURN_IF_ERROR(core->Bind());
  std::unique_ptr<GpuTombstones> made(new GpuTombstones(std::move(core), std::move(words)));
  SlabRange& range = made->range_;
  const auto words_bytes = static_cast<int64_t>(made->words_.size() * 8);
  if (words_bytes == 0) return made;
  const std::vector<uint32_t> live = FewLiveSlots(made->words_);
  const auto live_bytes = static_cast<int64_t>(live.size() * sizeof(uint32_t));
  ABSL_RETURN_IF_ERROR(range.Take(words_bytes + live_bytes));
  made->view_ = {
      .bits = range.view(), .words_offset = range.offset(), .words_count = words_bytes / 8};
  made->live_slots_ = {.extent = range.view(),
                       .offset = range.offset() + words_bytes,
                       .count = static_cast<int64_t>(live.size())};
  ABSL_RETURN_IF_ERROR(range.Write(0, made->words_.data(), words_bytes));
  if (!live.empty()) ABSL_RETURN_IF_ERROR(range.Write(words_bytes, live.data(), live_bytes));
  ABSL_RETURN_IF_ERROR(range.core()->DrainUploads());
  return made;
}

}  // namespace nearfield::gpu
