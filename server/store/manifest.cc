#include "server/store/manifest.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "server/store/checksum.h"
#include "server/store/format.h"
#include "server/store/metadata_db.h"
#include "server/store/segment_format.h"

namespace nearfield::store {
namespace {

constexpr char kTitle[] = "nearfield snapshot ";
constexpr char kOwner[] = "owner ";
constexpr char kSum[] = "sha256 ";
constexpr size_t kHexDigits = 64;

absl::Status Damaged(const std::string& path, const std::string& what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

bool LegalName(const std::string& name) {
  return name == kCatalogName || SegmentOfFileName(name).has_value();
}

}  // namespace

std::string EncodeManifest(const Manifest& manifest) {
  std::string text = absl::StrCat(kTitle, kManifestFormat.written, "\n");
  if (!manifest.owner.empty()) absl::StrAppend(&text, kOwner, manifest.owner, "\n");
  for (const ManifestFile& file : manifest.files) {
    absl::StrAppend(&text, "file ", file.sha256, " ", file.bytes, " ", file.name, "\n");
  }
  absl::StrAppend(&text, kSum, DigestHex(Sha256().Add(text).Value()), "\n");
  return text;
}

absl::StatusOr<Manifest> ParseManifest(const std::string& text, const std::string& path) {
  const size_t sum_bytes = sizeof(kSum) - 1 + kHexDigits + 1;
  if (text.size() < sum_bytes) return Damaged(path, "too short");
  const std::string listed = text.substr(0, text.size() - sum_bytes);
  if (text.substr(listed.size()) !=
      absl::StrCat(kSum, DigestHex(Sha256().Add(listed).Value()), "\n")) {
    return Damaged(path, "differs from its own digest");
  }
  const std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(listed, "\n"), '\n');
  absl::string_view title = lines.front();
  int64_t format = 0;
  if (!absl::ConsumePrefix(&title, kTitle) || !absl::SimpleAtoi(title, &format)) {
    return Damaged(path, "is no manifest");
  }
  ABSL_RETURN_IF_ERROR(CheckReadable(kManifestFormat, format, path));
  Manifest manifest;
  for (size_t i = 1; i < lines.size(); ++i) {
    absl::string_view owner = lines[i];
    if (i == 1 && absl::ConsumePrefix(&owner, kOwner)) {
      manifest.owner = std::string(owner);
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(lines[i], ' ');
    ManifestFile file;
    if (words.size() != 4 || words[0] != "file" || !absl::SimpleAtoi(words[2], &file.bytes) ||
        file.bytes < 0 || !LegalName(words[3])) {
      return Damaged(path, absl::StrCat("line ", i + 1, " cannot be"));
    }
    file.sha256 = words[1];
    file.name = words[3];
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

}  // namespace nearfield::store
