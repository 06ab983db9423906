// The row terms of the queries of a batch, in device memory.
#pragma once

#include <cstdint>

#include "engine/gpu/kernels/terms/number_column.h"
#include "engine/score/row_terms.h"

namespace nearfield::gpu {

struct BatchTerm {
  TermParameters parameters;
  const NumberColumn* columns = nullptr;  // [generations of the corpus]
};

// The terms of one query, in the order of their sum.
struct BatchTermList {
  double score_weight = 1;
  const BatchTerm* terms = nullptr;  // [count]
  int64_t count = 0;

#ifdef __CUDACC__
  // Returns the sum of the terms of a row.
  __device__ double SumOf(int generation, uint32_t slot) const {
    score::TermSum sum;
    for (int64_t i = 0; i < count; ++i) {
      sum.Add(score::TermOf(terms[i].parameters, terms[i].columns[generation].at(slot)));
    }
    return sum.value();
  }
  // Returns a value that the sum of no row of a tile exceeds.
  __device__ double SumUpper(int generation, uint32_t tile) const {
    score::TermSum sum;
    for (int64_t i = 0; i < count; ++i) {
      sum.Add(score::TermUpper(terms[i].parameters, terms[i].columns[generation].range(tile)));
    }
    return sum.value();
  }
#endif
};

}  // namespace nearfield::gpu
