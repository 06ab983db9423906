#include "tests/server/store/older_catalog.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/catalog_rows.h"
#include "server/store/sqlite.h"

namespace nearfield::store {
namespace {

constexpr size_t kScanColumn = 6;  // CollectionRow::kColumns

absl::StatusOr<std::vector<Value>> LastRow(Database* database, const std::string& sql) {
  std::vector<Value> row;
  ABSL_RETURN_IF_ERROR(database->Query(sql, {}, [&row](std::vector<Value> values) {
    row = std::move(values);
    return absl::OkStatus();
  }));
  return row;
}

}  // namespace

absl::Status SetStoredScan(const std::string& dir, int64_t number) {
  ABSL_ASSIGN_OR_RETURN(
      const std::unique_ptr<Database> database,
      Database::Open(absl::StrCat(dir, "/catalog.db"), Database::Mode::kExisting));
  ABSL_ASSIGN_OR_RETURN(const std::vector<Value> fact,
                        LastRow(database.get(), "SELECT store FROM facts WHERE id=1"));
  ABSL_ASSIGN_OR_RETURN(const std::vector<Value> link,
                        LastRow(database.get(), "SELECT * FROM commits ORDER BY id"));
  ABSL_ASSIGN_OR_RETURN(CommitRow last, RowFrom<CommitRow>(link));
  RowSum sum = RowSum::FromBytes(last.state);
  ABSL_RETURN_IF_ERROR(
      database->Query("SELECT * FROM collections", {}, [&](std::vector<Value> values) {
        sum.Subtract(RowDigest(CollectionRow::kTable, values));
        values[kScanColumn] = number;
        sum.Add(RowDigest(CollectionRow::kTable, values));
        return absl::OkStatus();
      }));
  last.state = sum.Bytes();
  last.chain = DigestBytes(last.Chain(absl::get<std::string>(fact.front())));
  ABSL_RETURN_IF_ERROR(
      database->Run("UPDATE collections SET scan=?", std::vector<Value>{Value(number)}));
  ABSL_RETURN_IF_ERROR(
      database->Run("UPDATE commits SET state=?, chain=? WHERE id=?",
                    std::vector<Value>{Value(last.state), Value(last.chain), Value(last.id)}));
  return database->Close();
}

}  // namespace nearfield::store
