// Tests of the moments that the history of searches keeps: a fixed number, of all of the time since
// the start.
#include "server/ops_http/search_history.h"

#include <string>

#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

// Adds the moments 0, 1, 2, ... and checks after each of them.
TEST(SearchMomentsTest, KeepTheLastOnesAndEvenlySpacedOnesSinceTheStart) {
  SearchMoments moments;
  for (int64_t last = 0; last < 5000; ++last) {
    moments.Add({.unix_ms = last});
    const std::vector<SearchMoment> recent = moments.recent();
    ASSERT_EQ(recent.size(), std::min<size_t>(last + 1, SearchMoments::kRecentMax));
    for (size_t i = 0; i < recent.size(); ++i) {
      ASSERT_EQ(recent[recent.size() - 1 - i].unix_ms, last - static_cast<int64_t>(i));
    }
    const std::vector<SearchMoment>& whole = moments.whole();
    ASSERT_LE(whole.size(), SearchMoments::kWholeMax);
    ASSERT_EQ(whole.front().unix_ms, 0);
    const int64_t distance = whole.size() > 1 ? whole[1].unix_ms : 1;
    for (size_t i = 0; i < whole.size(); ++i) {
      ASSERT_EQ(whole[i].unix_ms, static_cast<int64_t>(i) * distance);
    }
    ASSERT_LT(last - whole.back().unix_ms, distance);
    // Half of the places are in use as soon as there are that many moments.
    ASSERT_GE(whole.size(), std::min<size_t>(last + 1, SearchMoments::kWholeMax / 2));
  }
}

}  // namespace
}  // namespace nearfield::server
