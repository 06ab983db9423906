// Encodes a query by one block. The bounds are as valid as those of bound/int8_code.h.
#pragma once

#include <cstdint>

#include "engine/bound/certified_bound.h"
#include "engine/gpu/kernels/encode/block_rotation.cuh"
#include "engine/gpu/kernels/encode/block_sums.cuh"
#include "engine/gpu/kernels/row_scan/scan.h"

namespace nearfield::gpu {

// Shared memory that a block uses while it encodes.
struct EncodeScratch {
  double* values = nullptr;   // RotatedVector::Bytes(dimension)
  uint32_t* signs = nullptr;  // 2 * SignWords(dimension)
  BlockSumsShared* sums = nullptr;
};

// Destination of the codes and bounds.
struct EncodedQuery {
  int8_t* first = nullptr;   // [code_bytes], zeros after the dimension
  int8_t* second = nullptr;  // [code_bytes], zeros after the dimension
  int code_bytes = 0;
  bound::QueryBound* both = nullptr;        // bound with both codes
  bound::QueryBound* first_only = nullptr;  // bound with the first code; null: not computed
};

// Encodes `query` into `to`, in shared or device memory. Ends with a barrier. Requires: all threads
// of the block call.
template <int kThreads>
__device__ void EncodeQuery(const bound::RotationShape& shape, Metric metric, const float* query,
                            const EncodeScratch& scratch, const EncodedQuery& to) {
  const int dimension = shape.dimension;
  const int thread = static_cast<int>(threadIdx.x);
  const RotatedVector v(scratch.values);
  BlockSums<kThreads> sums(*scratch.sums);
  double squares = 0;
  for (int i = thread; i < dimension; i += kThreads) {
    const double value = query[i];
    v[i] = value;
    squares += value * value;
  }
  squares = sums.Sum(squares);
  if (metric == Metric::kCosine) {
    const double norm = sqrt(squares);
    squares = 0;
    for (int i = thread; i < dimension; i += kThreads) {
      v[i] /= norm;
      squares += v[i] * v[i];
    }
    squares = sums.Sum(squares);
  }
  const BlockRotation<kThreads> rotation(shape, scratch.signs);
  rotation.Forward(v, shape.query_shift);

  // Subtracts the codes of v from it and returns their scale and the norm of the rest.
  struct Taken {
    float scale;
    double rest;
  };
  const auto take = [&](int8_t* codes) {
    double magnitude = 0;
    for (int i = thread; i < dimension; i += kThreads) magnitude = fmax(magnitude, fabs(v[i]));
    const float scale = bound::CodeScale(sums.Max(magnitude));
    const bool usable = scale > 0.0f && isfinite(scale);
    const double inverse = usable ? 1.0 / static_cast<double>(scale) : 0.0;
    double rest = 0;
    for (int i = thread; i < to.code_bytes; i += kThreads) {
      double code = 0.0;
      if (i < dimension) {
        code = usable ? bound::CodeOf(v[i], inverse) : 0.0;
        v[i] -= usable ? static_cast<double>(scale) * code : 0.0;
        rest += v[i] * v[i];
      }
      codes[i] = static_cast<int8_t>(code);
    }
    return Taken{scale, bound::NormUp(sums.Sum(rest), dimension)};
  };
  bound::QueryNorms norms;
  norms.query = bound::NormUp(squares, dimension);
  const Taken first = take(to.first);
  const Taken second = take(to.second);
  if (thread == 0) {
    const bool l2 = metric == Metric::kL2;
    const double error = bound::RotationError(shape);
    norms.without_first = first.rest;
    norms.rest = first.rest;
    if (to.first_only != nullptr) {
      *to.first_only =
          bound::MakeQueryBound(first.scale, 0.0f, norms, error, l2, squares, dimension);
    }
    norms.rest = second.rest;
    *to.both =
        bound::MakeQueryBound(first.scale, second.scale, norms, error, l2, squares, dimension);
  }
  __syncthreads();
}

}  // namespace nearfield::gpu
