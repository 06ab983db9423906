#include "engine/cpu/list_merge.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "engine/base/check.h"

namespace nearfield::cpu {

void PrepareLists(Workspace& workspace, absl::Span<const int32_t> k, int64_t rows_count,
                  int32_t participants) {
  workspace.k.resize(k.size());
  int64_t keys = 0;
  for (size_t q = 0; q < k.size(); ++q) {
    workspace.k[q] = static_cast<int32_t>(std::min<int64_t>(k[q], rows_count));
    keys += TopKeys::Capacity(workspace.k[q]);
  }
  for (int32_t worker = 0; worker < participants; ++worker) {
    ThreadWorkspace& space = workspace.threads[static_cast<size_t>(worker)];
    uint64_t* storage = space.keys.Ensure(keys);
    space.best.resize(std::max(space.best.size(), k.size()));
    for (size_t q = 0; q < k.size(); ++q) {
      space.best[q].Reset(storage, workspace.k[q]);
      storage += TopKeys::Capacity(workspace.k[q]);
    }
  }
}

absl::Span<const uint64_t> MergeLists(Workspace& workspace, int32_t participants, int32_t query,
                                      int32_t worker) {
  const auto q = static_cast<size_t>(query);
  int64_t total = 0;
  for (int32_t w = 0; w < participants; ++w) {
    const TopKeys& part = workspace.threads[static_cast<size_t>(w)].best[q];
    total += part.end() - part.begin();
  }
  uint64_t* const merged = workspace.threads[static_cast<size_t>(worker)].merged.Ensure(total);
  uint64_t* end = merged;
  for (int32_t w = 0; w < participants; ++w) {
    const TopKeys& part = workspace.threads[static_cast<size_t>(w)].best[q];
    end = std::copy(part.begin(), part.end(), end);
  }
  DCHECK_EQ(end - merged, total);
  const int64_t k = std::min<int64_t>(workspace.k[q], total);
  if (k < total) std::nth_element(merged, merged + k - 1, end, std::greater<>());
  std::sort(merged, merged + k, std::greater<>());
  return {merged, static_cast<size_t>(k)};
}

int32_t MergeThreads(int64_t keys, int32_t queries_count, int32_t participants) {
  constexpr int64_t kKeysMergedPerUs = 30;
  constexpr int64_t kThreadUs = 20;  // work that justifies waking one more thread
  const int64_t worthwhile =
      std::clamp<int64_t>(keys / kKeysMergedPerUs / kThreadUs, 1, participants);
  return static_cast<int32_t>(std::min<int64_t>(queries_count, worthwhile));
}

}  // namespace nearfield::cpu
