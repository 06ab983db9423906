// QueryEncoder: encodes queries with the fastest instructions of this CPU, for every backend.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "engine/base/scratch_buffer.h"
#include "engine/bound/int8_code.h"
#include "engine/bound/rotation.h"
#include "nearfield/engine/types.h"

namespace nearfield::bound {

// Vectorized code processes whole cache lines of int8 codes.
inline constexpr int32_t kCodeLine = 64;
constexpr int32_t CodeStride(int32_t dim) { return (dim + kCodeLine - 1) / kCodeLine * kCodeLine; }
constexpr int64_t EncodeScratchDoubles(int32_t dim) { return int64_t{3} * CodeStride(dim); }

// A query to encode: as two codes, or as `first`, `whole`, or both of them.
struct EncodeQueryArgs {
  const Rotation* rotation = nullptr;
  int32_t dim = 0;
  Metric metric = Metric::kDot;
  const float* query = nullptr;  // [dim]
  int8_t* first = nullptr;       // out: codes, [dim]; null: without them and their bound
  int8_t* second = nullptr;      // out: codes, [dim], of what the first leaves
  int16_t* whole = nullptr;      // out: codes, [dim], -whole_max to whole_max; in place of `second`
  int32_t whole_max = 0;
  double* scratch = nullptr;  // EncodeScratchDoubles(dim), 64-byte aligned
};
// EncodeQuery for one instruction set.
using EncodeQueryFunction = QueryBounds (*)(const EncodeQueryArgs& args);

// Calls EncodeQuery, which needs no vector instructions, or EncodeQueryWhole.
QueryBounds EncodeQueryPlain(const EncodeQueryArgs& args);

// Thread safety: not thread-safe; it keeps scratch memory from one query to the next.
class QueryEncoder {
 public:
  QueryEncoder();
  // Equivalent to EncodeQuery.
  QueryBounds Encode(const Rotation& rotation, Metric metric, absl::Span<const float> query,
                     absl::Span<int8_t> first, absl::Span<int8_t> second);

 private:
  const EncodeQueryFunction encode_;
  ScratchBuffer<double> scratch_;
};

}  // namespace nearfield::bound
