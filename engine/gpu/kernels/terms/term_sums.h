// The row terms of one query on the device. Host side. All launches are asynchronous.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "engine/gpu/kernels/primitives/coded_corpus.h"
#include "engine/gpu/kernels/row_scan/scan.h"
#include "engine/gpu/kernels/terms/number_column.h"
#include "engine/score/row_terms.h"

namespace nearfield::gpu {

// The terms of a query, in the order of their sum.
struct TermList {
  double score_weight = 1;
  int32_t count = 0;
  TermParameters terms[kTermsMax];
};
// Their numbers in one generation.
struct TermColumns {
  NumberColumn of[kTermsMax];
};

// Loads the kernels. Call once, before the first launch.
cudaError_t PrepareTermSums();

// Writes the sum of the terms of each row of `corpus`, by row index.
struct TermSumsArgs {
  TermList list;
  TermColumns columns[kCodedGenerationsMax];
  uint32_t rows_begin[kCodedGenerationsMax] = {};  // as in CodedGeneration
  uint32_t rows_count[kCodedGenerationsMax] = {};
  int32_t generations = 0;
  double* sums = nullptr;  // [end of the row indices]
};
cudaError_t LaunchTermSums(const TermSumsArgs& args, cudaStream_t stream);

// Replaces the scores in the keys of one query's rows by final scores. `scan` is the scan that
// wrote the keys; `keys` are those of the query.
struct FinalKeysArgs {
  TermList list;
  TermColumns columns;
  SlotList listed;         // as ScanArgs
  uint32_t row_begin = 0;  // as ScanArgs
  uint32_t row_end = 0;    // as ScanArgs
  uint64_t* keys = nullptr;
};
cudaError_t LaunchFinalKeys(const FinalKeysArgs& args, cudaStream_t stream);

}  // namespace nearfield::gpu
