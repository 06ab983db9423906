#include "server/audit/record_folder.h"

#include <fcntl.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/file.h"

namespace nearfield::server {
namespace {

constexpr char kSuffix[] = ".json";
constexpr char kPartial[] = ".partial";

int64_t CountRecords(const store::Directory& directory) {
  const auto names = directory.Names().value_or(std::vector<std::string>());
  return std::count_if(names.begin(), names.end(),
                       [](const std::string& name) { return absl::EndsWith(name, kSuffix); });
}

absl::Status WriteWhole(const store::Directory& directory, const std::string& name,
                        const std::string& text) {
  ABSL_ASSIGN_OR_RETURN(const store::File file,
                        directory.OpenFile(name + kPartial, O_WRONLY | O_CREAT | O_TRUNC));
  ABSL_RETURN_IF_ERROR(file.WriteAt(0, text));
  ABSL_RETURN_IF_ERROR(file.SyncData());
  ABSL_RETURN_IF_ERROR(directory.Rename(name + kPartial, name));
  return directory.Sync();
}

}  // namespace

absl::StatusOr<std::string> RecordFolder::Write(const std::string& text, int64_t unix_seconds) {
  if (path_.empty()) {
    return absl::FailedPreconditionError("no audit_dir, and no data_dir for it to lie in");
  }
  if (static_cast<int64_t>(text.size()) > kRecordBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a record of ", text.size(), " bytes, the limit is ", kRecordBytesMax));
  }
  const MutexLock lock(mutex_);
  ABSL_ASSIGN_OR_RETURN(const auto directory, store::Directory::OpenOrMake(path_));
  if (const int64_t count = CountRecords(*directory); count >= kRecordsMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path_, " holds ", count, " records, the limit is ", kRecordsMax));
  }
  std::string name;
  int number = 0;
  do {
    name = absl::StrCat("audit-", unix_seconds, "-", ++number, kSuffix);
  } while (directory->Has(name));
  ABSL_RETURN_IF_ERROR(WriteWhole(*directory, name, text));
  return directory->PathOf(name);
}

int64_t RecordFolder::Count() const {
  if (path_.empty()) return 0;
  const auto directory = store::Directory::Open(path_);
  return directory.ok() ? CountRecords(**directory) : 0;
}

}  // namespace nearfield::server
