#include "server/collections/update_queue.h"

#include <algorithm>
#include <cstddef>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "server/collections/catalog.h"
#include "server/collections/update_group.h"
#include "server/store/checksum.h"

namespace nearfield::server {
namespace {

// Bounds of the updates that share a commit. The first one is taken in any case.
constexpr size_t kGroupUpdatesMax = 256;
constexpr int64_t kGroupRowsMax = 10'000;

// The ids and tokens of the updates of a group.
class Taken {
 public:
  // Adds an update; returns false, and adds nothing, if it has an id or a token of another one.
  bool Add(const RowUpdate& update) {
    std::vector<std::string> keys;
    if (!update.token.empty()) keys.push_back(absl::StrCat("t", update.token));
    for (int64_t i = 0; i < update.ids.size(); ++i) {
      keys.push_back(update.ids.type() == IdType::kUint64
                         ? absl::StrCat(update.ids.number(i))
                         : absl::StrCat("s", std::string(update.ids.string(i))));
    }
    for (const std::string& key : keys) {
      if (keys_.contains(key)) return false;
    }
    keys_.insert(keys.begin(), keys.end());
    return true;
  }

 private:
  std::unordered_set<std::string> keys_;
};

}  // namespace

std::string DigestOfRequest(std::string_view request) {
  return store::DigestBytes(store::Sha256().Add(request).Value());
}

UpdateQueue::Place UpdateQueue::Add(RowUpdate update) {
  auto place = std::make_shared<Waiting>();
  place->update = std::move(update);
  const MutexLock lock(mutex_);
  waiting_.push_back(place);
  return place;
}

void UpdateQueue::Remove(const Place& place) {
  const MutexLock lock(mutex_);
  std::erase(waiting_, place);
}

std::vector<UpdateQueue::Place> UpdateQueue::TakeGroup() {
  const MutexLock lock(mutex_);
  std::vector<Place> group;
  Taken taken;
  int64_t rows = 0;
  while (!waiting_.empty() && group.size() < kGroupUpdatesMax) {
    const RowUpdate& next = waiting_.front()->update;
    rows += next.ids.size();
    const bool first = group.empty();
    if (!first && (next.choose.has_value() || rows > kGroupRowsMax)) break;
    if (!taken.Add(next)) break;
    group.push_back(waiting_.front());
    waiting_.pop_front();
    if (next.choose.has_value()) break;
  }
  return group;
}

absl::StatusOr<UpdateReply> UpdateQueue::Run(const NamedCollection& named, const Place& place) {
  const MutexLock run(run_mutex_);
  while (!place->done) {
    std::vector<Place> group = TakeGroup();
    CHECK(!group.empty());
    const absl::Status status =
        CatchOutOfMemory([&] { return UpdateGroup(named, absl::MakeSpan(group)).Run(); });
    for (const Place& each : group) {
      // One update may be at fault if a whole group stops, so each runs alone.
      absl::Status alone = status;
      if (!status.ok() && !each->done && group.size() > 1) {
        Place single = each;
        alone =
            CatchOutOfMemory([&] { return UpdateGroup(named, absl::MakeSpan(&single, 1)).Run(); });
      }
      if (!each->done) each->result = alone;
      CHECK(each->done || !alone.ok());
      each->done = true;
    }
  }
  return place->result;
}

}  // namespace nearfield::server
