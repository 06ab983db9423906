#include "engine/gpu/memory/gpu_device_ids.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "engine/base/status_macros.h"

namespace nearfield::gpu {
namespace {

constexpr int64_t kIdsPerPart = 32768;  // 256 KiB of host memory

}  // namespace

absl::StatusOr<std::unique_ptr<GpuDeviceIds>> GpuDeviceIds::Make(std::shared_ptr<GpuCore> core,
                                                                 int64_t rows_count,
                                                                 backend::FillIds fill) {
  constexpr auto kIdBytes = static_cast<int64_t>(sizeof(uint64_t));
  ABSL_RETURN_IF_ERROR(core->Bind());
  std::unique_ptr<GpuDeviceIds> made(new GpuDeviceIds(std::move(core), rows_count));
  SlabRange& range = made->range_;
  ABSL_RETURN_IF_ERROR(range.Take(rows_count * kIdBytes));
  std::vector<uint64_t> part(static_cast<std::size_t>(std::min(kIdsPerPart, rows_count)));
  for (int64_t begin = 0; begin < rows_count; begin += kIdsPerPart) {
    const int64_t count = std::min(kIdsPerPart, rows_count - begin);
    fill(begin, absl::MakeSpan(part).first(static_cast<std::size_t>(count)));
    ABSL_RETURN_IF_ERROR(range.Write(begin * kIdBytes, part.data(), count * kIdBytes));
  }
  ABSL_RETURN_IF_ERROR(range.core()->DrainUploads());
  return made;
}

}  // namespace nearfield::gpu
