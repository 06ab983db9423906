// The reads of MetadataDb that compare everything with its digests.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/metadata_db.h"

namespace nearfield::store {

absl::StatusOr<std::string> MetadataDb::ReadBodyOf(const char* table, const char* column,
                                                   int64_t id, const std::string& digest) {
  std::string body;
  ABSL_RETURN_IF_ERROR(
      database_->Query(absl::StrCat("SELECT ", column, " FROM ", table, " WHERE id=?"), {Value(id)},
                       [&body](std::vector<Value> values) {
                         if (auto* const bytes = absl::get_if<std::string>(&values[0])) {
                           body = std::move(*bytes);
                         }
                         return absl::OkStatus();
                       }));
  if (DigestBytes(Sha256().Add(body).Value()) != digest) {
    return absl::DataLossError(absl::StrCat(directory_->PathOf(kCatalogName), ": row ", id, " of ",
                                            table, " differs from its digest"));
  }
  return body;
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
    ABSL_RETURN_IF_ERROR(ReadBody(row).status());
  }
  for (const auto& [id, row] : tables.Of<PatchRow>()) {
    ABSL_RETURN_IF_ERROR(ReadBody(row).status());
  }
  for (const auto& [id, row] : tables.Of<UpdateTokenRow>()) {
    ABSL_RETURN_IF_ERROR(ReadBody(row).status());
  }
  return links;
}

}  // namespace nearfield::store
