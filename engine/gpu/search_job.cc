#include "engine/gpu/search_job.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/check_range.h"
#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"
#include "engine/gpu/kernels/batch/batch.h"
#include "engine/gpu/kernels/single/one_query.h"
#include "engine/gpu/memory/gpu_tombstones.h"
#include "engine/score/order.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {

absl::Status SearchJob::CheckCancelled() const {
  if (!queries->cancelled || !queries->cancelled()) return absl::OkStatus();
  return absl::CancelledError("the search was cancelled");
}

absl::Status SearchJob::ForEachOnHost(int64_t count, int64_t bytes,
                                      absl::FunctionRef<absl::Status(int64_t)> body) const {
  if (queries->host_work != nullptr) return queries->host_work->ParallelFor(count, bytes, body);
  for (int64_t i = 0; i < count; ++i) ABSL_RETURN_IF_ERROR(body(i));
  return absl::OkStatus();
}

absl::StatusOr<SearchJob> MakeJob(const GpuCore& core, const backend::BackendInfo& info,
                                  const SearchArguments& arguments) {
  const auto& [format, generations, tile] = arguments;
  ABSL_RETURN_IF_ERROR(
      CheckRange("generations", static_cast<int64_t>(generations.size()), 0, kGenerationsMax));
  ABSL_RETURN_IF_ERROR(CheckRange("dim", format.dim, 1, kDimMax));
  ABSL_RETURN_IF_ERROR(
      CheckRange("queries", static_cast<int64_t>(tile.k.size()), 0, info.batch_max));
  for (std::size_t query = 0; query < tile.k.size(); ++query) {
    if (tile.k[query] < 1 || tile.k[query] > info.k_max) {
      return RangeError(absl::StrCat("queries[", query, "].k"), tile.k[query], 1, info.k_max);
    }
  }
  SearchJob job = {.format = format, .shape = RowShapeOf(format.dim), .queries = &tile};
  ABSL_RETURN_IF_ERROR(SetViews(core, generations, job));
  return job;
}

namespace {

// Returns the tombstones of a view; null: it has none. Errors: InvalidArgument.
absl::StatusOr<const GpuTombstones*> TombstonesOf(const GpuCore& core,
                                                  const backend::GenerationView& view) {
  const auto* const tombstones = dynamic_cast<const GpuTombstones*>(view.tombstones);
  if (view.tombstones != nullptr && (tombstones == nullptr || tombstones->core() != &core)) {
    return absl::InvalidArgumentError("tombstones of another backend");
  }
  return tombstones;
}

void ListScanned(SearchJob& job) {
  job.scanned.clear();
  for (std::size_t g = 0; g < job.rows.size(); ++g) {
    if (job.rows[g] > 0) job.scanned.push_back(static_cast<int64_t>(g));
  }
}

}  // namespace

absl::Status SetViews(const GpuCore& core, backend::Views views, SearchJob& job) {
  const backend::RowFormat& format = job.format;
  job.views = views;
  job.planes.clear();
  job.tombstones.clear();
  job.live_slots.clear();
  job.listed = false;
  job.rows.clear();
  job.rows_live = 0;
  job.absent.clear();
  for (const backend::GenerationView& generation : views) {
    const auto* const planes = dynamic_cast<const GpuRowPlanes*>(generation.planes);
    if (planes == nullptr || planes->core() != &core || !planes->sealed() ||
        planes->format().dim != format.dim || planes->format().row_type != format.row_type ||
        planes->format().metric != format.metric || planes->format().scan != format.scan ||
        planes->format().second_codes != format.second_codes ||
        planes->format().numeric_ids != format.numeric_ids ||
        planes->format().rows != format.rows) {
      return absl::InvalidArgumentError("a generation of another backend or format, or not sealed");
    }
    ABSL_ASSIGN_OR_RETURN(const GpuTombstones* const tombstones, TombstonesOf(core, generation));
    job.planes.push_back(planes);
    job.tombstones.push_back(tombstones == nullptr ? TombstoneView{} : tombstones->view());
    job.live_slots.push_back(tombstones == nullptr ? SlotList{} : tombstones->live_slots());
    SlotList& live = job.live_slots.back();
    live.count = std::min(live.count, generation.rows_live);
    job.rows.push_back(generation.rows_live > 0 ? planes->rows_count() : 0);
    job.rows_live += generation.rows_live;
  }
  ListScanned(job);
  return absl::OkStatus();
}

absl::Status ShareViews(const GpuCore& core, absl::Span<const backend::ViewGroup> groups,
                        SearchJob& job) {
  for (std::size_t g = 0; g < job.rows.size(); ++g) {
    const bool seen =
        std::any_of(groups.begin(), groups.end(),
                    [g](const backend::ViewGroup& group) { return group.views[g].rows_live > 0; });
    if (!seen) job.rows[g] = 0;
  }
  ListScanned(job);
  job.absent.assign(job.queries->k.size(), nullptr);
  for (const backend::ViewGroup& group : groups) {
    std::vector<AbsentView> absent;
    for (const int64_t g : job.scanned) {
      const backend::GenerationView& view = group.views[static_cast<std::size_t>(g)];
      ABSL_ASSIGN_OR_RETURN(const GpuTombstones* const tombstones, TombstonesOf(core, view));
      absent.push_back({.rows = tombstones == nullptr ? TombstoneView{} : tombstones->view(),
                        .all = view.rows_live > 0 ? uint64_t{0} : uint64_t{1}});
    }
    const auto shared = std::make_shared<const std::vector<AbsentView>>(std::move(absent));
    for (const int64_t query : group.queries) job.absent[static_cast<std::size_t>(query)] = shared;
  }
  return absl::OkStatus();
}

std::vector<int64_t> AllQueries(const SearchJob& job) {
  std::vector<int64_t> all(job.queries->k.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

int64_t TakenTogether(const SearchJob& job, QuerySpan queries) {
  return static_cast<int64_t>(job.device == nullptr ? queries.size() : LeadingNeighbors(queries));
}

int32_t LargestK(const SearchJob& job) {
  const absl::Span<const int32_t> k = job.queries->k;
  return k.empty() ? 0 : *std::max_element(k.begin(), k.end());
}

int32_t LargestK(const SearchJob& job, QuerySpan queries) {
  int32_t largest = 0;
  for (const int64_t query : queries) {
    largest = std::max(largest, job.queries->k[static_cast<std::size_t>(query)]);
  }
  return largest;
}

int64_t RowIndexEnd(const SearchJob& job) {
  int64_t end = 0;
  for (const int64_t count : job.rows) end += RoundUp(count, kRowIndexAlign);
  return end;
}

plan::ScanWork WorkOf(const GpuCore& core, const SearchJob& job, int64_t queries) {
  const GpuRowPlanes& planes = *job.planes.front();
  const CodesView& codes = planes.codes();
  return {.rows = RowIndexEnd(job),
          .row_bytes = planes.view().row_bytes,
          .row_elements = job.shape.padded,
          .code_bytes = codes.code_bytes + static_cast<int64_t>(sizeof(bound::RowBound)),
          .queries = queries,
          .queries_of_pass =
              BatchQueriesAtOnce(core.batch_device(), kBatchQueriesMax, codes.code_bytes),
          .one_by_one = core.has_one_query_kernel(),
          .rates = core.scan_rates()};
}

CodedCorpus CorpusOf(const SearchJob& job) {
  CodedCorpus corpus;
  for (std::size_t generation = 0; generation < job.rows.size(); ++generation) {
    if (job.rows[generation] == 0) continue;
    corpus.generations[corpus.count++] = {
        .rows = job.planes[generation]->view(),
        .codes = job.planes[generation]->codes(),
        .tombstones = job.tombstones[generation],
        .rows_begin = corpus.row_index_end,
        .rows_count = static_cast<uint32_t>(job.rows[generation])};
    corpus.row_index_end += static_cast<uint32_t>(RoundUp(job.rows[generation], kRowIndexAlign));
  }
  return corpus;
}

namespace {

void FinishWith(const SearchJob& job, int64_t query, int64_t rows, backend::RankedLists& best) {
  const AnswerPlace& place = job.places[static_cast<std::size_t>(query)];
  const AnswerArrays& answers = job.host_answers;
  CHECK_LE(rows, int64_t{place.k});
  const auto count = static_cast<std::size_t>(rows);
  best.Finish(static_cast<std::size_t>(query), {.scores = {answers.scores + place.begin, count},
                                                .ids = {answers.ids + place.begin, count}});
}

}  // namespace

void PlaceFinished(const SearchJob& job, QuerySpan queries, backend::RankedLists& best) {
  if (job.device != nullptr || !job.queries->placed) return;
  if (!job.MergesOnDevice(static_cast<int64_t>(queries.size()))) return;
  for (const int64_t query : queries) {
    const int64_t k = job.places[static_cast<std::size_t>(query)].k;
    FinishWith(job, query, std::min(k, job.RowsLive(query)), best);
    job.queries->placed(query);
  }
}

void GiveFinished(const SearchJob& job, int64_t query, backend::RankedLists& best) {
  FinishWith(job, query, job.host_answers.counts[query], best);
}

void TakeKeys(const SearchJob& job, int64_t query, absl::Span<const uint64_t> keys,
              backend::RankedLists& best) {
  const auto place = static_cast<std::size_t>(query);
  const auto k = static_cast<std::size_t>(job.queries->k[place]);
  if (job.corpus.count == 1) {  // its keys hold ranks: rows_begin is 0
    best.Assign(place, static_cast<std::size_t>(job.scanned.front()), keys.subspan(0, k));
    return;
  }
  // The rows of the k best scores, with all of the k-th.
  const auto end = std::find_if(
      keys.begin() + static_cast<std::ptrdiff_t>(std::min(k, keys.size())), keys.end(),
      [&](uint64_t key) { return score::KeyScore(key) < score::KeyScore(keys[k - 1]); });
  const CodedCorpus& corpus = job.corpus;
  std::array<uint8_t, kCandidatesMax> generation_of_key;  // its index in the corpus
  std::array<uint32_t, kGenerationsMax> counts = {};
  const auto key_count = static_cast<std::size_t>(end - keys.begin());
  CHECK_LE(key_count, generation_of_key.size());
  const auto place_of = [&](int index) {
    return static_cast<std::size_t>(job.scanned[static_cast<std::size_t>(index)]);
  };
  for (std::size_t i = 0; i < key_count; ++i) {
    const int index = corpus.GenerationIndex(score::KeyRank(keys[i]));
    generation_of_key[i] = static_cast<uint8_t>(index);
    uint32_t& count = counts[place_of(index)];
    count = std::min(count + 1, static_cast<uint32_t>(k));
  }
  best.MakeRoom(place, absl::MakeConstSpan(counts.data(), best.generations_count()));
  for (std::size_t i = 0; i < key_count; ++i) {
    const int index = generation_of_key[i];
    // The key holds rows_begin + rank.
    const uint32_t rank = score::KeyRank(keys[i]) - corpus.generations[index].rows_begin;
    const std::size_t generation = place_of(index);
    CHECK_LT(int64_t{rank}, job.rows[generation]);
    if (best.list(place, generation).size() == k) continue;
    best.Append(place, generation, {.score = score::KeyScore(keys[i]), .rank = rank});
  }
}

}  // namespace nearfield::gpu
