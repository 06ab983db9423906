#include "server/collections/delete_rows.h"

#include <vector>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

// `remove` receives the commit hook.
template <typename Remove>
absl::StatusOr<DeleteResult> DeleteDurably(const NamedCollection& named, Remove remove) {
  uint64_t epoch = 0;  // that the store recorded
  const CommitHook record = [&](const PendingChange& change) {
    epoch = change.epoch;
    return named.store->CommitDelete(named.store_id, change.epoch, *change.ids_removed);
  };
  ABSL_ASSIGN_OR_RETURN(const DeleteResult result,
                        remove(named.store == nullptr ? CommitHook() : record));
  CHECK(epoch == 0 || result.epoch == epoch);
  named.changed();
  return result;
}

}  // namespace

absl::StatusOr<DeleteResult> DeleteRows(const NamedCollection& named, const IdColumn& ids) {
  return DeleteDurably(
      named, [&](const CommitHook& record) { return named.collection->Delete(ids, record); });
}

absl::StatusOr<DeleteResult> DeleteRows(const NamedCollection& named, const ChosenRows& chosen) {
  ABSL_ASSIGN_OR_RETURN(RowFilter rows, named.collection->LiveRows(chosen.at.get()));
  const std::vector<uint64_t>& passing = chosen.rows->chosen;
  if (rows.chosen.size() > passing.size()) rows.chosen.resize(passing.size());
  for (size_t word = 0; word < rows.chosen.size(); ++word) rows.chosen[word] &= passing[word];
  return DeleteDurably(
      named, [&](const CommitHook& record) { return named.collection->DeleteRows(rows, record); });
}

}  // namespace nearfield::server
