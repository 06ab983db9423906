/* Searches on the device, in addition to nearfield.h: queries and answers are in the memory of the
 * engine's GPU, for callers whose tensors are there. The answers are those of Search to the bit.
 */
#pragma once

#include "server/c_abi/nearfield.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory for answers; 0: none. */
typedef uint64_t nf_memory;

/* All addresses except the texts are in the memory of the engine's GPU, contiguous. Borrowed for
 * the call. Zero what is not set. */
typedef struct nf_device_search {
  const char* collection;
  const char* filter_text; /* as SearchRequest.filter_text; null: all rows */
  const void* queries;     /* [queries_count, dim], row-major */
  int64_t queries_count;
  int32_t query_dtype; /* nearfield.v1.DataType */
  int32_t dim;
  int32_t k; /* of every query */
  int32_t has_score_threshold;
  float score_threshold;
  int32_t reserved;
  void* stream; /* a cudaStream_t; null: the legacy default stream */
  /* counts[i] neighbors of query i begin at element i * k, best first. The other elements of its k
   * get the score NaN and the id 2^64 - 1. Undefined after an error. */
  float* scores;   /* [queries_count, k] */
  uint64_t* ids;   /* [queries_count, k] */
  int32_t* counts; /* [queries_count] */
} nf_device_search;

typedef struct nf_device_result {
  uint64_t epoch;
  int64_t matched_rows; /* rows that the filter chose; without a filter, all rows */
  int64_t device_us;
  int64_t total_us;
} nf_device_result;

/* Searches on this thread. Blocks until the work that the stream has now is done, and then until
 * the answers are in device memory, where work that is enqueued later on any stream finds them.
 * Neither queries nor answers are copied to the host. options: may be null. Returns the code of
 * `reply`: as Search; also FAILED_PRECONDITION (string ids; a stream that is being captured),
 * UNIMPLEMENTED (the engine runs on the CPU). */
NF_API int32_t nf_search_device(nf_server server, const nf_device_search* search,
                                const nf_options* options, nf_device_result* result,
                                nf_reply* reply);

/* Takes device memory from the engine, in slabs of 2 MiB (or 256 KiB if the engine has less than
 * 1 GiB), 256-byte aligned at `address`. It counts as used until nf_give_device_memory, which may
 * come after nf_close. Returns the code of `reply`: RESOURCE_EXHAUSTED, UNIMPLEMENTED. */
NF_API int32_t nf_take_device_memory(nf_server server, int64_t bytes, nf_memory* memory,
                                     void** address, nf_reply* reply);
/* Blocks until all work of this process on the GPU is done, because kernels may still use the
 * memory. */
NF_API void nf_give_device_memory(nf_memory memory);

#ifdef __cplusplus
} /* extern "C" */
#endif
