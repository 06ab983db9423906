#include "engine/gpu/device_io.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/argument_error.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::gpu {
namespace {

// A pointer of a tile.
struct Place {
  const char* name = "";
  const void* at = nullptr;
  int64_t align = 0;  // bytes of an element
};

absl::Status CheckPlace(GpuCore& core, const Place& place) {
  const std::string value = absl::StrFormat("%p", place.at);
  const std::string limit = absl::StrCat("memory of GPU ", core.device());
  if (place.at == nullptr) return MustBe(place.name, "null", limit);
  if (reinterpret_cast<uintptr_t>(place.at) % static_cast<uintptr_t>(place.align) != 0) {
    return MustBe(place.name, value, absl::StrCat("a multiple of ", place.align));
  }
  cudaPointerAttributes attributes = {};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, place.at);
  if (error == cudaErrorInvalidValue) {  // memory that CUDA does not know
    cudaGetLastError();
    return MustBe(place.name, value, limit);
  }
  ABSL_RETURN_IF_ERROR(core.health().Check(error, "cudaPointerGetAttributes"));
  if (attributes.type == cudaMemoryTypeDevice && attributes.device == core.device()) {
    return absl::OkStatus();
  }
  return MustBe(place.name,
                attributes.type == cudaMemoryTypeDevice
                    ? absl::StrCat("memory of GPU ", attributes.device)
                    : absl::StrCat(value, ", which is host or managed memory"),
                limit);
}

// Blocks on the host. The search uses the engine's stream, and would otherwise hold the engine
// while the caller's work runs.
absl::Status AwaitStream(GpuCore& core, cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream, &capture);
  if (error == cudaErrorStreamCaptureImplicit || capture != cudaStreamCaptureStatusNone) {
    cudaGetLastError();
    return absl::FailedPreconditionError(
        "stream: it is being captured into a graph, and a search waits for its stream");
  }
  if (error == cudaErrorInvalidResourceHandle || error == cudaErrorInvalidValue ||
      error == cudaErrorContextIsDestroyed) {
    cudaGetLastError();
    return MustBe("stream", absl::StrFormat("%p", static_cast<void*>(stream)), "a CUDA stream");
  }
  ABSL_RETURN_IF_ERROR(core.health().Check(error, "cudaStreamIsCapturing"));
  return core.health().Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

// Places the answers of all queries one after another.
void PlaceInOrder(SearchJob& job) {
  uint32_t begin = 0;
  job.places.reserve(job.queries->k.size());
  for (const int32_t k : job.queries->k) {
    job.places.push_back(
        {.begin = begin, .k = k, .query = static_cast<int32_t>(job.places.size())});
    begin += static_cast<uint32_t>(k);
    job.k_max = std::max<int64_t>(job.k_max, k);
  }
}

}  // namespace

absl::Status BeginOnDevice(GpuCore& core, const backend::DeviceTile& tile) {
  const Place places[] = {{"queries", tile.queries, BytesPerElement(tile.query_type)},
                          {"scores", tile.scores, sizeof(float)},
                          {"ids", tile.ids, sizeof(uint64_t)},
                          {"counts", tile.counts, sizeof(int32_t)}};
  for (const Place& place : places) ABSL_RETURN_IF_ERROR(CheckPlace(core, place));
  return AwaitStream(core, static_cast<cudaStream_t>(tile.stream));
}

void PlaceOnDevice(const backend::DeviceTile& tile, SearchJob& job) {
  PlaceInOrder(job);
  job.device = &tile;
  job.answers = {.scores = tile.scores, .ids = tile.ids, .counts = tile.counts};
}

void PlaceOnHost(const PinnedMemory& memory, SearchJob& job) {
  PlaceInOrder(job);
  const AnswerPlace& last = job.places.back();
  const int64_t rows = int64_t{last.begin} + last.k;
  CHECK_LE(AnswerBytes(rows, job.queries_count()), memory.bytes());
  const auto arrays_at = [rows](char* base) {
    char* const scores = base + rows * int64_t{sizeof(uint64_t)};
    return AnswerArrays{
        .scores = reinterpret_cast<float*>(scores),
        .ids = reinterpret_cast<uint64_t*>(base),
        .counts = reinterpret_cast<int32_t*>(scores + rows * int64_t{sizeof(float)})};
  };
  job.answers = arrays_at(memory.device());
  job.host_answers = arrays_at(memory.host());
}

absl::Status EnqueueWiden(GpuCore& core, const SearchJob& job, const QueryRange& range,
                          float* vectors, double* squared) {
  CHECK_LE(range.count, int64_t{kBatchQueriesMax});
  SearchWorkspace& workspace = core.workspace();
  const backend::DeviceTile& tile = *job.device;
  const int64_t query_bytes = int64_t{job.format.dim} * BytesPerElement(tile.query_type);
  const WidenArgs args = {
      .queries = static_cast<const char*>(tile.queries) + range.first * query_bytes,
      .type = tile.query_type,
      .metric = job.format.metric,
      .dimension = job.format.dim,
      .count = static_cast<int32_t>(range.count),
      .vectors = vectors,
      .squared = job.format.metric == Metric::kCosine ? squared : nullptr,
      .faults = reinterpret_cast<int32_t*>(workspace.query_faults.device())};
  return core.health().Check(LaunchWiden(args, workspace.stream.get()), "converting queries");
}

absl::Status CheckFaults(GpuCore& core, const SearchJob& job, const QueryRange& range) {
  const auto* const faults = reinterpret_cast<const int32_t*>(core.workspace().query_faults.host());
  for (int64_t i = 0; i < range.count; ++i) {
    const int32_t fault = __atomic_load_n(faults + i, __ATOMIC_ACQUIRE);
    if (fault == kNoFault) continue;
    *job.fault = {.query = range.first + i, .dimension = fault == kAllZeroFault ? -1 : fault};
    return absl::InvalidArgumentError("a query is not valid");
  }
  return absl::OkStatus();
}

KeyLists ListsByGeneration(const SearchJob& job) {
  KeyLists lists = {.keys = nullptr};
  for (const int64_t g : job.scanned) {
    const RowsView& rows = job.planes[static_cast<std::size_t>(g)]->view();
    lists.sources[lists.sources_count++] = {.ids = rows.meta, .offset = rows.ids_offset};
  }
  lists.lists = lists.sources_count;
  return lists;
}

KeyLists MixedLists(const SearchJob& job) {
  KeyLists lists = ListsByGeneration(job);
  lists.lists = 1;
  for (int32_t s = 0; s < lists.sources_count; ++s) {
    lists.sources[s].ranks_begin = job.corpus.generations[s].rows_begin;
  }
  return lists;
}

void CopyPlaces(const SearchJob& job, QuerySpan queries, AnswerPlace* to) {
  for (const int64_t query : queries) *to++ = job.places[static_cast<std::size_t>(query)];
}

absl::Status EnqueueGather(GpuCore& core, const SearchJob& job, QuerySpan queries,
                           const AnswerPlace* places, KeyLists lists, const FactsCopy& facts) {
  SearchWorkspace& workspace = core.workspace();
  lists.keys = workspace.device_results;
  GatherArgs args = {.lists = lists,
                     .queries = static_cast<int32_t>(queries.size()),
                     .k_max = LargestK(job, queries),
                     .places = places,
                     .score_min = -std::numeric_limits<float>::infinity(),
                     .to = job.answers,
                     .facts = facts};
  if (places == nullptr) args.place = job.places[static_cast<std::size_t>(queries.front())];
  if (job.device != nullptr) {
    args.score_min = job.device->score_min;
    args.pads = true;
  }
  return core.health().Check(LaunchGather(args, workspace.stream.get()), "merging answers");
}

}  // namespace nearfield::gpu
