// The reads of MetadataDb that compare everything with its digests.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/metadata_db.h"

namespace nearfield::store {

absl::StatusOr<std::string> MetadataDb::ReadDeletedIds(const DeletionRow& row) {
  std::string ids;
  ABSL_RETURN_IF_ERROR(database_->Query(
      "SELECT ids FROM deletions WHERE id=?", {Value(row.id)}, [&ids](std::vector<Value> values) {
        if (auto* const bytes = absl::get_if<std::string>(&values[0])) {
          ids = std::move(*bytes);
        }
        return absl::OkStatus();
      }));
  if (DigestBytes(Sha256().Add(ids).Value()) != row.digest) {
    return absl::DataLossError(absl::StrCat(directory_->PathOf(kCatalogName), ": deletion record ",
                                            row.id, " differs from its digest"));
  }
  return ids;
}

absl::StatusOr<int64_t> MetadataDb::Audit() {
  std::string verdict;
  ABSL_RETURN_IF_ERROR(
      database_->Query("PRAGMA integrity_check", {}, [&verdict](const std::vector<Value>& row) {
        if (const auto* const text = absl::get_if<std::string>(&row[0])) verdict += *text;
        return absl::OkStatus();
      }));
  if (verdict != "ok") {
    return absl::DataLossError(absl::StrCat(directory_->PathOf(kCatalogName), ": ", verdict));
  }
  CommitRow last;
  ABSL_ASSIGN_OR_RETURN(const int64_t links, ReadChain(&last));
  ABSL_ASSIGN_OR_RETURN(const Tables tables, ReadTables());
  for (const auto& [id, row] : tables.Of<DeletionRow>()) {
    ABSL_RETURN_IF_ERROR(ReadDeletedIds(row).status());
  }
  return links;
}

}  // namespace nearfield::store
