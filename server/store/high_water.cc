#include "server/store/high_water.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "server/store/checksum.h"
#include "server/store/little_endian.h"

namespace nearfield::store {
namespace {

constexpr std::string_view kMagic = "NFHIGHWM";
constexpr size_t kBytes = 24;         // magic, commits, zero, checksum
constexpr int64_t kPlaceBytes = 512;  // a sector for each of the two marks

using Mark = std::array<uint8_t, kBytes>;

Mark Encode(int64_t commits) {
  Mark bytes = {};
  std::copy(kMagic.begin(), kMagic.end(), bytes.begin());
  PutUint64(static_cast<uint64_t>(commits), bytes.data() + 8);
  PutUint32(Crc32c(absl::MakeConstSpan(bytes.data(), kBytes - 4)), bytes.data() + kBytes - 4);
  return bytes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HighWater>> HighWater::Open(const Directory& directory) {
  if (!directory.Has(kHighWaterName)) return nullptr;
  ABSL_ASSIGN_OR_RETURN(File file, directory.OpenFile(kHighWaterName, O_RDWR));
  ABSL_ASSIGN_OR_RETURN(const int64_t size, file.Size());
  int64_t commits = 0;
  for (const int64_t place : {int64_t{0}, kPlaceBytes}) {
    Mark bytes = {};
    if (size < place + static_cast<int64_t>(kBytes)) break;
    ABSL_RETURN_IF_ERROR(file.ReadAt(place, absl::MakeSpan(bytes)));
    const auto marked = static_cast<int64_t>(GetUint64(bytes.data() + 8));
    if (bytes == Encode(marked)) commits = std::max(commits, marked);
  }
  return std::unique_ptr<HighWater>(new HighWater(std::move(file), commits));
}

absl::StatusOr<std::unique_ptr<HighWater>> HighWater::Create(const Directory& directory) {
  ABSL_ASSIGN_OR_RETURN(File file, directory.OpenFile(kHighWaterName, O_RDWR | O_CREAT));
  return std::unique_ptr<HighWater>(new HighWater(std::move(file), 0));
}

absl::Status HighWater::Raise(int64_t commits) {
  CHECK_GE(commits, commits_);
  const absl::Status written =
      file_.WriteAt(commits % 2 * kPlaceBytes, absl::MakeConstSpan(Encode(commits)));
  if (written.ok()) commits_ = commits;
  return absl::IsResourceExhausted(written) ? absl::OkStatus() : written;
}

}  // namespace nearfield::store
