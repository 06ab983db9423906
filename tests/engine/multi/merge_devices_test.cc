// Tests that the joined lists of several devices are those that one device would have.
#include "engine/multi/merge_devices.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/engine/prelude.h"

namespace nearfield::multi {
namespace {

using backend::RankedLists;
using backend::RankedScore;

struct Row {
  float score = 0;
  size_t generation = 0;
  uint32_t rank = 0;
};

// A generation whose rows are on several devices.
struct TestDevice {
  RankedLists lists;
  DeviceLists found;
  std::vector<std::vector<uint32_t>> ranks;  // by generation of the device
};

class MergeDevicesTest : public ::testing::Test {
 protected:
  // Fills the lists of the device with the k best of its rows, in the order of their scores or
  // generation by generation.
  void Fill(std::vector<Row> rows, size_t generations, int32_t k, bool in_order,
            TestDevice* device) {
    for (size_t g = 0; g < generations; ++g) {
      std::vector<uint32_t> ranks;
      for (const Row& row : rows) {
        if (row.generation == g) ranks.push_back(row.rank);
      }
      if (ranks.empty()) continue;
      std::sort(ranks.begin(), ranks.end());
      device->found.generations.push_back(g);
      device->ranks.push_back(std::move(ranks));
    }
    for (const std::vector<uint32_t>& ranks : device->ranks) device->found.ranks.push_back(ranks);
    std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::tuple(-a.score, a.generation, a.rank) <
             std::tuple(-b.score, b.generation, b.rank);
    });
    if (rows.size() > static_cast<size_t>(k)) {
      // All rows of the k-th score are needed: their ids decide.
      const float last = rows[static_cast<size_t>(k) - 1].score;
      std::erase_if(rows, [last](const Row& row) { return row.score < last; });
    }
    const size_t own = device->found.generations.size();
    device->lists.Reset(absl::MakeConstSpan(&k, 1), own);
    std::vector<std::vector<RankedScore>> lists(own);
    for (const Row& row : rows) {
      const size_t g = PlaceOf(device->found.generations, row.generation);
      if (lists[g].size() == static_cast<size_t>(k)) continue;
      lists[g].push_back({row.score, PlaceOf(device->ranks[g], row.rank)});
    }
    if (in_order) {
      std::vector<uint32_t> counts;
      for (const auto& list : lists) counts.push_back(static_cast<uint32_t>(list.size()));
      device->lists.MakeRoom(0, counts);
      std::vector<size_t> places(own);
      for (const Row& row : rows) {
        const size_t g = PlaceOf(device->found.generations, row.generation);
        if (places[g] == lists[g].size()) continue;
        device->lists.Append(0, g, lists[g][places[g]++]);
      }
    } else {
      for (size_t g = 0; g < own; ++g) {
        const absl::Span<RankedScore> list = device->lists.Resize(0, g, lists[g].size());
        std::copy(lists[g].begin(), lists[g].end(), list.begin());
      }
    }
    device->found.lists = &device->lists;
  }

  template <typename T>
  static uint32_t PlaceOf(const std::vector<T>& values, T value) {
    return static_cast<uint32_t>(std::find(values.begin(), values.end(), value) - values.begin());
  }

  Random random_{TestSeed()};
};

TEST_F(MergeDevicesTest, TheListsAreThoseOfOneDevice) {
  for (int round = 0; round < 500; ++round) {
    const auto generations = static_cast<size_t>(random_.Between(1, 17));
    const auto devices_count = static_cast<size_t>(random_.Between(1, 9));
    const auto k = static_cast<int32_t>(random_.Between(1, 30));
    const int64_t scores = random_.OneIn(2) ? 4 : 1000;  // few scores: many ties
    std::vector<std::vector<Row>> rows_of(devices_count);
    std::vector<std::vector<RankedScore>> expected(generations);
    std::vector<float> all;
    for (size_t g = 0; g < generations; ++g) {
      const int64_t rows = random_.Between(0, 60);
      for (int64_t rank = 0; rank < rows; ++rank) {
        const Row row = {.score = static_cast<float>(random_.Between(-scores, scores)),
                         .generation = g,
                         .rank = static_cast<uint32_t>(rank)};
        rows_of[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(devices_count)))]
            .push_back(row);
        expected[g].push_back({row.score, row.rank});
        all.push_back(row.score);
      }
    }
    std::sort(all.rbegin(), all.rend());
    const float last =
        all.size() < static_cast<size_t>(k) ? -2000.0f : all[static_cast<size_t>(k) - 1];
    for (std::vector<RankedScore>& list : expected) {
      std::erase_if(list, [last](const RankedScore& row) { return row.score < last; });
      std::sort(list.begin(), list.end(), [](const RankedScore& a, const RankedScore& b) {
        return a.score != b.score ? a.score > b.score : a.rank < b.rank;
      });
      if (list.size() > static_cast<size_t>(k)) list.resize(static_cast<size_t>(k));
    }
    std::vector<TestDevice> devices(devices_count);
    std::vector<DeviceLists> found;
    for (size_t d = 0; d < devices_count; ++d) {
      Fill(rows_of[d], generations, k, random_.OneIn(2), &devices[d]);
      found.push_back(devices[d].found);
    }
    RankedLists best;
    best.Reset(absl::MakeConstSpan(&k, 1), generations);
    MergeDevices(found, 0, k, &best);
    size_t rows_count = 0;
    for (size_t g = 0; g < generations; ++g) {
      const auto list = best.list(0, g);
      rows_count += list.size();
      ASSERT_EQ(list.size(), expected[g].size()) << "round " << round << ", generation " << g;
      for (size_t i = 0; i < list.size(); ++i) {
        ASSERT_EQ(list[i].score, expected[g][i].score);
        ASSERT_EQ(list[i].rank, expected[g][i].rank);
      }
    }
    // The order lets the caller skip a merge of the generations.
    EXPECT_EQ(best.order(0).size(), rows_count);
  }
}

// The answers of several devices, joined, are the first rows of all of them.
TEST_F(MergeDevicesTest, FinishedAnswersAreJoinedByScoreAndId) {
  using Rows = std::vector<std::pair<float, uint64_t>>;
  const auto comes_before = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  for (int round = 0; round < 500; ++round) {
    const auto devices_count = static_cast<size_t>(random_.Between(0, 9));
    const auto k = static_cast<int32_t>(random_.Between(1, 30));
    const int64_t scores = random_.OneIn(2) ? 3 : 1000;
    std::vector<RankedLists> lists(devices_count);
    std::vector<std::vector<float>> scores_of(devices_count);
    std::vector<std::vector<uint64_t>> ids_of(devices_count);
    std::vector<DeviceLists> found(devices_count);
    Rows all;
    uint64_t next = 0;
    for (size_t d = 0; d < devices_count; ++d) {
      Rows rows;
      for (int64_t count = random_.Between(0, 40); count > 0; --count) {
        rows.emplace_back(static_cast<float>(random_.Between(-scores, scores)),
                          7919 * next++ % 1009);
      }
      all.insert(all.end(), rows.begin(), rows.end());
      std::sort(rows.begin(), rows.end(), comes_before);
      rows.resize(std::min(rows.size(), static_cast<size_t>(k)));
      scores_of[d].reserve(1);
      for (const auto& [score, id] : rows) {
        scores_of[d].push_back(score);
        ids_of[d].push_back(id);
      }
      lists[d].Reset(absl::MakeConstSpan(&k, 1), 1);
      lists[d].Finish(0, {.scores = scores_of[d], .ids = ids_of[d]});
      found[d].lists = &lists[d];
    }
    std::sort(all.begin(), all.end(), comes_before);
    all.resize(std::min(all.size(), static_cast<size_t>(k)));
    RankedLists best;
    best.Reset(absl::MakeConstSpan(&k, 1), 1);
    const FinishedMemory memory = FinishedMemory::Of(absl::MakeConstSpan(&k, 1));
    JoinFinished(found, 0, k, memory, &best);
    ASSERT_NE(best.finished(0), nullptr);
    Rows joined;
    for (size_t i = 0; i < best.finished(0)->ids.size(); ++i) {
      joined.emplace_back(best.finished(0)->scores[i], best.finished(0)->ids[i]);
    }
    ASSERT_EQ(joined, all);
  }
}

}  // namespace
}  // namespace nearfield::multi
