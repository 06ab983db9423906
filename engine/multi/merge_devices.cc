#include "engine/multi/merge_devices.h"

#include <algorithm>
#include <array>

#include "engine/base/check.h"
#include "nearfield/engine/types.h"

namespace nearfield::multi {
namespace {

using backend::RankedLists;
using backend::RankedScore;

struct FoundRow {
  float score = 0;
  uint32_t rank = 0;
  size_t generation = 0;
};

// The rows of one device, by descending score. Rows of equal score come in any order.
class DeviceRows {
 public:
  DeviceRows(const DeviceLists& device, size_t query) : device_(device), query_(query) {
    CHECK_LE(device.generations.size(), places_.size());
    size_t rows_count = 0;
    for (size_t g = 0; g < device.generations.size(); ++g) rows_count += ListOf(g).size();
    order_ = device.lists->order(query);
    has_order_ = order_.size() == rows_count;
    FindNext();
  }

  bool empty() const { return empty_; }
  float score() const { return ListOf(next_)[places_[next_]].score; }  // of the next row

  FoundRow Take() {
    const RankedScore& row = ListOf(next_)[places_[next_]++];
    const absl::Span<const uint32_t> ranks = device_.ranks[next_];
    const FoundRow found = {.score = row.score,
                            .rank = ranks.empty() ? row.rank : ranks[row.rank],
                            .generation = device_.generations[next_]};
    FindNext();
    return found;
  }

 private:
  absl::Span<const RankedScore> ListOf(size_t generation) const {
    return device_.lists->list(query_, generation);
  }

  void FindNext() {
    if (has_order_) {
      empty_ = taken_ == order_.size();
      if (!empty_) next_ = order_[taken_++];
      return;
    }
    empty_ = true;
    for (size_t g = 0; g < device_.generations.size(); ++g) {
      if (places_[g] == ListOf(g).size()) continue;
      if (empty_ || ListOf(g)[places_[g]].score > score()) next_ = g;
      empty_ = false;
    }
  }

  const DeviceLists& device_;
  const size_t query_;
  std::array<size_t, kGenerationsMax> places_ = {};
  absl::Span<const uint8_t> order_;
  bool has_order_ = false;
  size_t taken_ = 0;  // of order_
  size_t next_ = 0;   // the generation of the next row
  bool empty_ = true;
};

// Returns the device with the best next row, or null.
DeviceRows* BestOf(std::vector<DeviceRows>& devices) {
  DeviceRows* best = nullptr;
  for (DeviceRows& device : devices) {
    if (!device.empty() && (best == nullptr || device.score() > best->score())) best = &device;
  }
  return best;
}

}  // namespace

void MergeDevices(absl::Span<const DeviceLists> devices, size_t query, int32_t k,
                  RankedLists* best) {
  std::vector<DeviceRows> rows;
  rows.reserve(devices.size());
  for (const DeviceLists& device : devices) rows.emplace_back(device, query);
  const auto wanted = static_cast<size_t>(k);
  std::vector<FoundRow> found;
  found.reserve(wanted + 16);
  size_t ties_begin = 0;  // of the rows with the last score
  const auto sort_ties = [&] {
    std::sort(found.begin() + static_cast<std::ptrdiff_t>(ties_begin), found.end(),
              [](const FoundRow& a, const FoundRow& b) {
                return a.generation != b.generation ? a.generation < b.generation : a.rank < b.rank;
              });
  };
  while (DeviceRows* const device = BestOf(rows)) {
    if (!found.empty() && device->score() < found.back().score) {
      sort_ties();
      if (found.size() >= wanted) break;
      ties_begin = found.size();
    }
    found.push_back(device->Take());
  }
  sort_ties();
  std::array<uint32_t, kGenerationsMax> counts = {};
  for (const FoundRow& row : found) {
    uint32_t& count = counts[row.generation];
    count = std::min(count + 1, static_cast<uint32_t>(k));
  }
  best->MakeRoom(query, absl::MakeConstSpan(counts.data(), best->generations_count()));
  for (const FoundRow& row : found) {
    if (best->list(query, row.generation).size() == wanted) continue;
    best->Append(query, row.generation, {.score = row.score, .rank = row.rank});
  }
}

FinishedMemory FinishedMemory::Of(absl::Span<const int32_t> k) {
  FinishedMemory made;
  int64_t rows_count = 0;
  for (const int32_t rows : k) {
    made.places.push_back(rows_count);
    rows_count += rows;
  }
  const auto count = static_cast<size_t>(rows_count);
  made.memory.reset(new char[count * (sizeof(uint64_t) + sizeof(float))]);
  made.ids = reinterpret_cast<uint64_t*>(made.memory.get());
  made.scores = reinterpret_cast<float*>(made.ids + count);
  return made;
}

void JoinFinished(absl::Span<const DeviceLists> devices, size_t query, int32_t k,
                  const FinishedMemory& to, RankedLists* best) {
  struct Rest {
    backend::FinishedRows rows;
    size_t next = 0;
  };
  std::vector<Rest> rests;
  for (const DeviceLists& device : devices) {
    const backend::FinishedRows* const rows = device.lists->finished(query);
    CHECK(rows != nullptr);
    if (!rows->ids.empty()) rests.push_back({*rows});
  }
  const auto wanted = static_cast<size_t>(k);
  uint64_t* const ids = to.ids + to.places[query];
  float* const scores = to.scores + to.places[query];
  size_t count = 0;
  for (; count < wanted && !rests.empty(); ++count) {
    const auto first =
        std::min_element(rests.begin(), rests.end(), [](const Rest& a, const Rest& b) {
          const float of_a = a.rows.scores[a.next];
          const float of_b = b.rows.scores[b.next];
          return of_a != of_b ? of_a > of_b : a.rows.ids[a.next] < b.rows.ids[b.next];
        });
    scores[count] = first->rows.scores[first->next];
    ids[count] = first->rows.ids[first->next];
    if (++first->next == first->rows.ids.size()) rests.erase(first);
  }
  best->Finish(query, {.scores = {scores, count}, .ids = {ids, count}});
}

}  // namespace nearfield::multi
