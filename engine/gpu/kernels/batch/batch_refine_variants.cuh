// The kernels of the refinement over one type of row. Each type is compiled in its own file.
#pragma once

#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {

// Returns the kernel of a variant.
template <typename Row>
BatchRefinePointer BatchRefineOf(RefineVariant variant) {
  switch (variant) {
    case RefineVariant::kMany: return BatchRefineKernel<Row, kRefineMany, false, kBatchKeys, false>;
    case RefineVariant::kFewKeys:
      return BatchRefineKernel<Row, kRefineFewest, false, kBatchFewKeys, false>;
    case RefineVariant::kFew: return BatchRefineKernel<Row, kRefineFew, false, kBatchKeys, false>;
    case RefineVariant::kSmall: return BatchRefineKernel<Row, kRefineFew, true, kBatchKeys, false>;
    case RefineVariant::kLargeK: break;
  }
  return BatchRefineKernel<Row, kRefineMany, true, kBatchKeysOfLargeK, false>;
}

// Returns that for queries with row terms, which have fewer variants: they take minutes to compile.
template <typename Row>
BatchRefinePointer BatchRefineTermsOf(RefineVariant variant) {
  switch (variant) {
    case RefineVariant::kMany: return BatchRefineKernel<Row, kRefineMany, false, kBatchKeys, true>;
    case RefineVariant::kLargeK:
      return BatchRefineKernel<Row, kRefineMany, true, kBatchKeysOfLargeK, true>;
    case RefineVariant::kFewKeys:
    case RefineVariant::kFew:
    case RefineVariant::kSmall: break;
  }
  return BatchRefineKernel<Row, kRefineFew, true, kBatchKeys, true>;
}

}  // namespace nearfield::gpu
