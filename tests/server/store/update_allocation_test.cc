// Tests updates of the store while any allocation fails.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/allocation_fixture.h"

namespace nearfield::store {
namespace {

TEST_F(StoreAllocationTest, AnUpdateCommitsAsAWholeOrNotAtAll) {
  std::vector<fault::UpdateData> updates;
  std::vector<std::vector<const std::string*>> pointers;
  std::vector<StoredUpdate> views;
  FailEach(
      AllocationFailure::Threads::kThis,
      [&] {
        KeepRows();
        const fault::ModelCollection& collection = tested_.model().collections.at("a");
        updates = fault::UpdatesOf(collection, ++number_);
        pointers.assign(updates.size(), {});
        views.clear();
        for (size_t i = 0; i < updates.size(); ++i) {
          views.push_back(updates[i].View(collection.epoch + 1 + i, &pointers[i]));
        }
        views.front().token = absl::StrCat("token ", number_);
        views.front().reply = "reply";
      },
      [&] { return tested_.store().CommitUpdates(id_, views); },
      [&] {
        tested_.model().Apply(
            {.kind = fault::Operation::Kind::kUpdate, .number = number_, .collection = "a"});
      });
}

}  // namespace
}  // namespace nearfield::store
