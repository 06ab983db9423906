#include "server/store/copy_file.h"

#include <algorithm>
#include <vector>

#include "engine/base/status_macros.h"
#include "server/store/checksum.h"

namespace nearfield::store {
namespace {

constexpr int64_t kCopyBytes = int64_t{4} << 20;

absl::StatusOr<FileInfo> ReadWhole(const Directory& directory, const std::string& name,
                                   const File* copy, const CancelCheck& cancelled) {
  ABSL_ASSIGN_OR_RETURN(const File file, directory.OpenFile(name, O_RDONLY));
  FileInfo info;
  ABSL_ASSIGN_OR_RETURN(info.bytes, file.Size());
  std::vector<uint8_t> bytes(static_cast<size_t>(std::min(kCopyBytes, info.bytes)));
  Sha256 sum;
  for (int64_t offset = 0; offset < info.bytes;) {
    if (cancelled && cancelled()) return absl::CancelledError("cancelled");
    const auto part = absl::MakeSpan(bytes).subspan(
        0, static_cast<size_t>(std::min(static_cast<int64_t>(bytes.size()), info.bytes - offset)));
    ABSL_RETURN_IF_ERROR(file.ReadAt(offset, part));
    sum.Add(part);
    if (copy != nullptr) ABSL_RETURN_IF_ERROR(copy->WriteAt(offset, part));
    offset += static_cast<int64_t>(part.size());
  }
  info.sha256 = DigestHex(sum.Value());
  return info;
}

}  // namespace

absl::StatusOr<FileInfo> ReadFile(const Directory& directory, const std::string& name,
                                  const CancelCheck& cancelled) {
  return ReadWhole(directory, name, nullptr, cancelled);
}

absl::StatusOr<FileInfo> CopyFile(const Directory& from, const std::string& name,
                                  const CopyTarget& to, const CancelCheck& cancelled) {
  ABSL_ASSIGN_OR_RETURN(const File copy,
                        to.directory.OpenFile(to.name, O_WRONLY | O_CREAT | O_EXCL));
  ABSL_ASSIGN_OR_RETURN(FileInfo info, ReadWhole(from, name, &copy, cancelled));
  ABSL_RETURN_IF_ERROR(copy.SyncData());
  return info;
}

}  // namespace nearfield::store
