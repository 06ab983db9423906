#include "engine/gpu/path_choice.h"

#include <algorithm>
#include <limits>

#include "engine/gpu/batch_search.h"
#include "engine/gpu/single_search.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {

using plan::ScanPath;

namespace {

// Returns what earlier searches of the largest generation taught. Requires: a generation to scan.
plan::PathCosts& CostsOf(const SearchJob& job) {
  const int64_t largest =
      *std::max_element(job.scanned.begin(), job.scanned.end(), [&job](int64_t a, int64_t b) {
        return job.rows[static_cast<std::size_t>(a)] < job.rows[static_cast<std::size_t>(b)];
      });
  return job.planes[static_cast<std::size_t>(largest)]->path_costs();
}

// Returns the number of listed rows, 0 if no row is live, or -1 if live rows are not listed.
int64_t ListedRows(backend::Views views) {
  int64_t rows = 0;
  for (const backend::GenerationView& view : views) {
    if (static_cast<int64_t>(view.live_slots.size()) != view.rows_live) return -1;
    rows += view.rows_live;
  }
  return rows;
}

}  // namespace

std::vector<ScanPath> RowPathsOf(const GpuCore& core, const SearchJob& job, int64_t queries) {
  std::vector<ScanPath> paths = {ScanPath::kRows};
  const bool on_device = job.format.rows == RowPlacement::kDevice;
  if (queries > 1 && on_device && BatchServesRows(core, job)) {
    paths.push_back(ScanPath::kRowBatch);
  }
  return paths;
}

std::vector<ScanPath> PathsOf(const GpuCore& core, const SearchJob& job, QuerySpan queries) {
  const int64_t row_index_end = RowIndexEnd(job);
  const bool has_codes = job.format.scan != ScanPrecision::kRows && row_index_end > 0 &&
                         SingleSearch::HasRoom(core, row_index_end, /*terms=*/false) &&
                         row_index_end <= kRowsMax;
  if (has_codes && !job.format.may_scan_rows) return {ScanPath::kCodes};
  std::vector<ScanPath> paths = RowPathsOf(core, job, static_cast<int64_t>(queries.size()));
  if (has_codes &&
      (core.has_one_query_kernel() || core.BatchServes(job.format.dim, LargestK(job, queries)))) {
    paths.insert(paths.begin(), ScanPath::kCodes);
  }
  return paths;
}

std::vector<ScanPath> SharedPathsOf(const GpuCore& core, const SearchJob& job, QuerySpan queries) {
  std::vector<ScanPath> paths = PathsOf(core, job, queries);
  std::erase(paths, ScanPath::kRows);
  return paths;
}

ScanPath PathOfTerms(const GpuCore& core, const SearchJob& job, int64_t queries) {
  const int64_t row_index_end = RowIndexEnd(job);
  if (job.format.scan == ScanPrecision::kRows || row_index_end == 0 ||
      !core.has_one_query_kernel() || !SingleSearch::HasRoom(core, row_index_end, /*terms=*/true)) {
    return ScanPath::kRows;
  }
  if (!job.format.may_scan_rows || job.format.rows != RowPlacement::kDevice) {
    return ScanPath::kCodes;
  }
  const plan::ScanWork work = WorkOf(core, job, queries);
  return ScanTime(ScanPath::kRows, work) < ScanTime(ScanPath::kCodes, work) ? ScanPath::kRows
                                                                            : ScanPath::kCodes;
}

ScanPath Fastest(const GpuCore& core, const SearchJob& job, absl::Span<const ScanPath> paths,
                 QuerySpan queries) {
  if (paths.size() == 1) return paths.front();
  const auto count = static_cast<int64_t>(queries.size());
  return CostsOf(job).Fastest(paths, WorkOf(core, job, count), LargestK(job, queries));
}

void RecordTime(const GpuCore& core, const SearchJob& job, ScanPath path, QuerySpan queries,
                double taken_us) {
  const plan::ScanWork work = WorkOf(core, job, static_cast<int64_t>(queries.size()));
  CostsOf(job).Record(path, work, LargestK(job, queries), taken_us);
}

bool PrefersRows(const GpuCore& core, const SearchJob& job, ScanPath path, int64_t queries) {
  if (job.format.rows != RowPlacement::kDevice) return false;
  return ScanTime(path, WorkOf(core, job, queries)) <
         static_cast<double>(queries) * ScanTime(ScanPath::kCodes, WorkOf(core, job, 1));
}

void ChooseListed(const GpuCore& core, SearchJob& job, ScanPath otherwise, int64_t queries) {
  // Rows in host memory are read one by one at the speed of the link.
  if (job.scanned.empty() || job.format.rows != RowPlacement::kDevice) return;
  int64_t listed = 0;
  for (const int64_t g : job.scanned) {
    const SlotList& live = job.live_slots[static_cast<std::size_t>(g)];
    if (live.empty()) return;
    listed += live.count;
  }
  const plan::ScanWork all = WorkOf(core, job, queries);
  plan::ScanWork some = all;
  some.rows = listed;
  if (ScanTime(ScanPath::kRows, some) >= ScanTime(otherwise, all)) return;
  job.listed = true;
  for (const int64_t g : job.scanned) {
    job.rows[static_cast<std::size_t>(g)] = job.live_slots[static_cast<std::size_t>(g)].count;
  }
}

std::size_t ChooseAlone(const GpuCore& core, const SearchJob& job, QuerySpan queries,
                        absl::Span<const ScanPath> shared,
                        std::vector<backend::ViewGroup>& groups) {
  if (shared.empty() || job.scanned.empty()) return groups.size();
  plan::ScanWork work = WorkOf(core, job, 1);
  const auto time_of = [&work](absl::Span<const ScanPath> some, double count) {
    work.queries = static_cast<int64_t>(count);
    double least = std::numeric_limits<double>::infinity();
    for (const ScanPath path : some) least = std::min(least, ScanTime(path, work));
    return least;
  };
  const std::vector<ScanPath> own_paths = PathsOf(core, job, queries);
  for (backend::ViewGroup& group : groups) {
    group.work = static_cast<double>(group.queries.size());
    const int64_t listed = ListedRows(group.views);
    if (listed == 0) continue;  // there is nothing to search
    group.own_us = time_of(own_paths, group.work);
    if (listed < 0 || job.format.rows != RowPlacement::kDevice) continue;
    plan::ScanWork some = work;
    some.rows = listed;
    group.own_us = std::min(group.own_us, ScanTime(ScanPath::kRows, some));
  }
  return backend::DivideGroups(groups, [&](double count) { return time_of(shared, count); });
}

}  // namespace nearfield::gpu
