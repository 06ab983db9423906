// Functions for searches whose queries are in device memory (job.device is not null), and for those
// whose answers are merged on the device (job.places is not empty): the strategies call them in
// place of their copies from and to the host.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/backend/backend.h"
#include "engine/gpu/kernels/device_tile/device_tile.h"
#include "engine/gpu/memory/gpu_core.h"
#include "engine/gpu/search_job.h"

namespace nearfield::gpu {

// Checks the pointers of a tile, and blocks until the work that its stream has now is done. Errors:
// InvalidArgument, FailedPrecondition (the stream is being captured), Unavailable.
absl::Status BeginOnDevice(GpuCore& core, const backend::DeviceTile& tile);

// Sets the places of the answers, and where they go. Requires: the format has numeric ids.
void PlaceOnDevice(const backend::DeviceTile& tile, SearchJob& job);
void PlaceOnHost(const PinnedMemory& memory, SearchJob& job);

// Enqueues the conversion of queries to fp32 `vectors`, and for cosine of S(q, q) if `squared` is
// not null.
absl::Status EnqueueWiden(GpuCore& core, const SearchJob& job, const QueryRange& range,
                          float* vectors, double* squared);

// Returns InvalidArgument and sets *job.fault if one of the queries is not valid. Requires: the
// last EnqueueWiden was for these queries, and it is done.
absl::Status CheckFaults(GpuCore& core, const SearchJob& job, const QueryRange& range);

// Return the lists of workspace.device_results, without keys and counts: one list per generation
// that is scanned, or one with the keys of all.
KeyLists ListsByGeneration(const SearchJob& job);
KeyLists MixedLists(const SearchJob& job);

// Copies the places of these queries to `to`.
void CopyPlaces(const SearchJob& job, QuerySpan queries, AnswerPlace* to);
// Enqueues the merge of the lists of these queries into their answers. `places` is their copy in
// device memory; for one query it may be null.
absl::Status EnqueueGather(GpuCore& core, const SearchJob& job, QuerySpan queries,
                           const AnswerPlace* places, KeyLists lists, const FactsCopy& facts = {});

}  // namespace nearfield::gpu
