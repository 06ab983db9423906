// The format numbers of the store's files, and the numbers that this build reads.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace nearfield::store {

// The format of one kind of file. The number grows by one if an older build could misread a file
// of the new format.
struct FileFormat {
  const char* what = "";  // for messages
  int32_t written = 1;    // by this build
  int32_t read_min = 1;   // this build reads read_min .. written
};

// 2 has the table of upload results, 3 that of owners, 4 that of device counts. In 5 and later,
// uploads into different collections may have the same token, and aliases have owners. 6 has the
// table of embedding models, 7 those of patches and update tokens; in its attribute schemas,
// attributes may be dropped. A start upgrades older ones in place (MetadataDb::Upgrade).
inline constexpr FileFormat kCatalogFormat = {.what = "catalog", .written = 7, .read_min = 1};
// 2 has a SegmentStage in the header; 1 is treated as sealed after 0 commits. Segments are never
// rewritten for a new format.
inline constexpr FileFormat kSegmentFormat = {.what = "segment", .written = 2, .read_min = 1};
// Has the number of the catalog that the snapshot holds.
inline constexpr FileFormat kManifestFormat = {
    .what = "snapshot", .written = kCatalogFormat.written, .read_min = kCatalogFormat.read_min};

// The upgrade promise: a build reads the format that it writes, and at least the one before.
inline constexpr std::array kFileFormats = {kCatalogFormat, kSegmentFormat, kManifestFormat};
static_assert(std::all_of(kFileFormats.begin(), kFileFormats.end(), [](const FileFormat& format) {
  return format.read_min >= 1 && format.read_min <= std::max(1, format.written - 1);
}));

// Checks that this build reads a file of format `found`. `path` is for the message. Errors:
// FailedPrecondition (a newer format, or one that is too old: names both, and what to do), DataLoss
// (below 1).
absl::Status CheckReadable(const FileFormat& format, int64_t found, const std::string& path);

}  // namespace nearfield::store
