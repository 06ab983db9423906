#include "engine/backend/query_views.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace nearfield::backend {

std::vector<ViewGroup> GroupByViews(Views generations, const QueryTile& tile) {
  std::vector<int64_t> all(tile.k.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return GroupByViews(generations, tile, all);
}

std::vector<ViewGroup> GroupByViews(Views generations, const QueryTile& tile,
                                    absl::Span<const int64_t> queries) {
  std::vector<ViewGroup> groups;
  std::unordered_map<const GenerationView*, size_t> known;
  for (const int64_t query : queries) {
    const Views views = ViewsOf(generations, tile, static_cast<size_t>(query));
    const auto [place, is_new] = known.try_emplace(views.data(), groups.size());
    if (is_new) groups.push_back({.views = views, .queries = {}});
    groups[place->second].queries.push_back(query);
  }
  return groups;
}

size_t DivideGroups(std::vector<ViewGroup>& groups, absl::FunctionRef<double(double)> shared_us) {
  std::stable_sort(groups.begin(), groups.end(), [](const ViewGroup& a, const ViewGroup& b) {
    return a.own_us * b.work < b.own_us * a.work;
  });
  double work = 0;
  for (const ViewGroup& group : groups) work += group.work;
  size_t fewest = 0;
  double own_us = 0;
  double least_us = shared_us(work);
  for (size_t i = 0; i < groups.size(); ++i) {
    own_us += groups[i].own_us;
    work -= groups[i].work;
    const double us = own_us + (i + 1 < groups.size() ? shared_us(work) : 0.0);
    if (us >= least_us) continue;
    fewest = i + 1;
    least_us = us;
  }
  return fewest;
}

}  // namespace nearfield::backend
