// Queries that are in device memory, and answers that are merged there, host side. All launches are
// asynchronous.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/gpu/kernels/primitives/coded_corpus.h"
#include "engine/gpu/kernels/primitives/device_views.h"
#include "nearfield/engine/types.h"

namespace nearfield::gpu {

// The fault of a query: the first dimension that is not finite, or one of these.
inline constexpr int32_t kNoFault = -1;
inline constexpr int32_t kAllZeroFault = -2;  // for cosine only

struct WidenArgs {
  const void* queries = nullptr;  // [count, dimension] in `type`
  RowType type = RowType::kFloat32;
  Metric metric = Metric::kDot;
  int32_t dimension = 0;
  int32_t count = 0;
  float* vectors = nullptr;   // [count, dimension]
  double* squared = nullptr;  // [count]: S(q, q); null: not computed
  int32_t* faults = nullptr;  // [count], mapped host memory
};

// Converts queries to fp32, which is exact, and checks them. A query with a fault becomes a valid
// one, so that the search needs no other case; its answer must be ignored.
cudaError_t LaunchWiden(const WidenArgs& args, cudaStream_t stream);

// The ids of one generation, by rank. A key of the generation holds `ranks_begin` + its rank.
struct IdSource {
  ExtentView ids;
  int64_t offset = 0;  // bytes into ids; [rows] uint64
  uint32_t ranks_begin = 0;
};

// Sorted lists of keys, best first. There is one for each source, or one with the keys of all
// sources, which then have ascending ranks_begin. List l of query q has number l * queries + q.
struct KeyLists {
  IdSource sources[kCodedGenerationsMax];
  int32_t sources_count = 0;
  int32_t lists = 0;  // 0, 1 or sources_count
  const uint64_t* keys = nullptr;
  int64_t pitch = 0;  // keys from a list to the next
  // Device memory: the keys of list i are number counts[i * counts_stride]. Null: all have `count`.
  const uint32_t* counts = nullptr;
  int32_t counts_stride = 0;
  uint32_t count = 0;
  uint32_t count_max = 0;               // of each list; limits what `counts` says
  const uint32_t* overflows = nullptr;  // as `counts`: not 0 if the query has no answer yet
};

// Where the answer of a query goes.
struct AnswerPlace {
  uint32_t begin = 0;  // its first row in scores and ids
  int32_t k = 0;       // rows that are wanted
  int32_t query = 0;   // its place in counts
};

// The destination of answers: in device memory or in mapped host memory.
struct AnswerArrays {
  float* scores = nullptr;    // rows of all queries
  uint64_t* ids = nullptr;    // rows of all queries
  int32_t* counts = nullptr;  // by query
};

// Returns the bytes of the arrays for `rows` rows of `queries` answers.
constexpr int64_t AnswerBytes(int64_t rows, int64_t queries) {
  return rows * int64_t{sizeof(uint64_t) + sizeof(float)} + queries * int64_t{sizeof(int32_t)};
}

// 16 bytes of each query that go to the host with the answers.
struct FactsCopy {
  const uint4* from = nullptr;  // device memory: [queries]; null: nothing is copied
  uint4* to = nullptr;          // mapped host memory: [queries]
};

struct GatherArgs {
  KeyLists lists;
  int32_t queries = 0;
  int32_t k_max = 0;                    // the largest k
  const AnswerPlace* places = nullptr;  // device memory: [queries]; null: of one query, `place`
  AnswerPlace place;
  float score_min = 0;
  bool pads = false;  // rows up to k that do not exist get NaN and the largest id
  AnswerArrays to;
  FactsCopy facts;
};

// Merges the lists of each query by (score, id) and writes the first k rows.
cudaError_t LaunchGather(const GatherArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu
