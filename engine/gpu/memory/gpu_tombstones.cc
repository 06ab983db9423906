#include "engine/gpu/memory/gpu_tombstones.h"

#include <bit>
#include <utility>

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::gpu {
namespace {

// The live slots are listed if at most one row in this number is live. The list then takes at most
// one bit per row.
constexpr int64_t kRowsPerListed = 32;

std::vector<uint32_t> FewLiveSlots(const std::vector<uint64_t>& words) {
  const auto slots = static_cast<int64_t>(words.size()) * 64;
  int64_t live = 0;
  for (const uint64_t word : words) live += std::popcount(~word);
  if (live * kRowsPerListed > slots) return {};
  return corpus::ZeroBits(words, slots);
}

}  // namespace

GpuTombstones::GpuTombstones(std::shared_ptr<GpuCore> core, std::vector<uint64_t> words)
    : core_(std::move(core)), words_(std::move(words)) {}

absl::StatusOr<std::unique_ptr<GpuTombstones>> GpuTombstones::Make(std::shared_ptr<GpuCore> core,
                                                                   std::vector<uint64_t> words) {
  ABSL_RETURN_IF_ERROR(core->Bind());
  std::unique_ptr<GpuTombstones> made(new GpuTombstones(std::move(core), std::move(words)));
  GpuCore& device = *made->core_;
  const auto words_bytes = static_cast<int64_t>(made->words_.size() * 8);
  if (words_bytes == 0) return made;
  const int64_t slab_bytes = device.arena().slab_bytes();
  const std::vector<uint32_t> live = FewLiveSlots(made->words_);
  const auto live_bytes = static_cast<int64_t>(live.size() * sizeof(uint32_t));
  const int64_t content_bytes = words_bytes + live_bytes;
  // The table of the slabs comes first, 8 bytes per slab. It needs at most one slab more itself.
  const int64_t table_bytes = 8 * (CeilDiv(content_bytes, slab_bytes) + 1);
  ABSL_ASSIGN_OR_RETURN(made->slabs_,
                        device.arena().TakeSlabs(CeilDiv(table_bytes + content_bytes, slab_bytes)));
  const std::vector<char*>& slabs = made->slabs_;
  made->view_.bits = {.slabs = reinterpret_cast<char* const*>(slabs.front()),
                      .slab_shift = device.arena().slab_shift()};
  made->view_.words_offset = table_bytes;
  made->view_.words_count = words_bytes / 8;
  made->live_slots_ = {.extent = made->view_.bits,
                       .offset = table_bytes + words_bytes,
                       .count = static_cast<int64_t>(live.size())};
  ABSL_RETURN_IF_ERROR(device.WriteExtent({.slabs = &slabs, .offset = 0}, slabs.data(),
                                          static_cast<int64_t>(slabs.size() * sizeof(char*))));
  ABSL_RETURN_IF_ERROR(device.WriteExtent({.slabs = &slabs, .offset = table_bytes},
                                          made->words_.data(), words_bytes));
  if (!live.empty()) {
    ABSL_RETURN_IF_ERROR(device.WriteExtent({.slabs = &slabs, .offset = made->live_slots_.offset},
                                            live.data(), live_bytes));
  }
  ABSL_RETURN_IF_ERROR(device.DrainUploads());
  return made;
}

GpuTombstones::~GpuTombstones() { core_->arena().Release(slabs_); }

}  // namespace nearfield::gpu
