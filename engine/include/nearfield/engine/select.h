// Selection library: finds the k highest scores of each row of a batch in device memory, sorted.
// It can be used on its own; the searches of the engine share its device code.
//
//   ABSL_ASSIGN_OR_RETURN(auto selector, select::Selector::Create({.device = 0}));
//   const select::Shape shape = {.batch = 1024, .n = 50000, .k = 2048};
//   ABSL_ASSIGN_OR_RETURN(const int64_t bytes, selector->WorkspaceBytes(shape));
//   // Once: allocate `bytes` bytes of device memory at `workspace`, and initialize them.
//   ABSL_RETURN_IF_ERROR(selector->InitWorkspace(workspace, bytes, stream));
//   // Then, any number of times:
//   ABSL_RETURN_IF_ERROR(selector->Run(shape, {.scores = scores, .values = values,
//                                              .indices = indices, .workspace = workspace,
//                                              .workspace_bytes = bytes}, stream));
//
// Order: the higher score first; of equal scores, the smaller index first. +0 equals -0. +inf ranks
// above and -inf below every finite score. NaN, of either sign and any payload, ranks last, below
// -inf; all NaNs are equal. The result depends on the scores alone: it is bit-identical for every
// algorithm and every run. Values are returned unchanged, with two exceptions: -0 becomes +0, and a
// NaN becomes the quiet positive NaN. Integer scores have neither.
//
// Ragged rows: with Shape::ragged, row r has only the scores in columns [row_begin[r], row_end[r])
// of its row, and indices count from row_begin[r]. The bounds are read on the device when the
// selection runs, so a captured graph may run with others. A begin below 0 counts as 0, a length
// below 0 as 0, and a length above n as n. If a row has fewer than k scores, the remaining places
// get the index 0xffffffff (-1 as int32) and the lowest value of the type (-inf, or the smallest
// integer).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/score_type.h"

struct CUstream_st;  // CUDA's stream; cudaStream_t is a pointer to it

namespace nearfield::select {

using Stream = CUstream_st*;

// Maximum number of rows in one batch.
inline constexpr int64_t kBatchMax = 65535;
// Maximum number of scores in one row: an index is a uint32.
inline constexpr int64_t kColumnsMax = 0xffffffff;

// Maximum number of scores in a ragged row: a bound is an int32.
inline constexpr int64_t kRaggedColumnsMax = 0x7fffffff;

struct Shape {
  ScoreType type = ScoreType::kFloat32;
  int64_t batch = 1;  // rows, 1 to kBatchMax
  // Scores in a row, 1 to kColumnsMax. For ragged rows: the most that a row may have, 1 to
  // kRaggedColumnsMax; it may be more than any row has, and more than the stride.
  int64_t n = 0;
  int64_t k = 0;              // 1 to n
  bool ragged = false;        // rows have bounds of their own: Buffers::row_begin, row_end
  int64_t column_stride = 1;  // >= 1: scores of a row are this far apart; above 1, they are first
                              // copied to the workspace
};

// Device memory, all owned by the caller. No two buffers may overlap.
struct Buffers {
  const void* scores = nullptr;  // [batch, n] of the score type, rows `stride` scores apart
  // 0 means n * column_stride. Rows need only the alignment of one score. At least n, except for
  // ragged rows and for a column_stride above 1.
  int64_t stride = 0;
  // Only for ragged rows.
  const int32_t* row_begin = nullptr;  // [batch]; null: 0
  const int32_t* row_end = nullptr;    // [batch]; null: n. Without row_begin, the rows' lengths
  void* values = nullptr;              // [batch, k] of the score type, best first
  uint32_t* indices = nullptr;         // [batch, k]
  void* workspace = nullptr;           // 256-byte aligned, as InitWorkspace left it
  int64_t workspace_bytes = 0;         // at least WorkspaceBytes of the shape
};

struct AlgorithmInfo {
  std::string name;
  std::string summary;  // one sentence
};

// The algorithm that picks one of the others by a table measured on the device.
inline constexpr std::string_view kAdaptive = "adaptive";

struct SelectorOptions {
  int device = 0;
};

// Thread safety: safe after Create. A Selector holds properties of the device and no state of a
// call.
class Selector {
 public:
  // Loads the kernels on the device. Errors: Unavailable (no driver, no such device, or a device
  // that cannot run the kernels), Unimplemented (built without CUDA).
  static absl::StatusOr<std::unique_ptr<Selector>> Create(const SelectorOptions& options);
  virtual ~Selector() = default;

  // Returns all algorithms that can be forced, kAdaptive first.
  virtual std::vector<AlgorithmInfo> Algorithms() const = 0;

  // Returns OK if `algorithm` can select this shape; otherwise Unimplemented, naming the field, the
  // value and the limit. kAdaptive can select every legal shape. Errors: InvalidArgument (an
  // illegal shape), NotFound (no such algorithm).
  virtual absl::Status Supports(const Shape& shape, std::string_view algorithm) const = 0;

  // Returns the algorithm that kAdaptive runs for this shape. Errors: InvalidArgument.
  virtual absl::StatusOr<std::string> Choice(const Shape& shape) const = 0;

  // Returns the bytes of workspace for this shape. One workspace may serve many shapes and
  // algorithms, one call at a time: use the largest size. Errors: as Supports.
  virtual absl::StatusOr<int64_t> WorkspaceBytes(const Shape& shape,
                                                 std::string_view algorithm) const = 0;

  // Zeroes the counters of a workspace; every call finds them zero and leaves them zero.
  // Asynchronous. Call it once for each workspace, before its first use, on the stream of that use
  // or one that precedes it. Call it again after a call that failed on the device.
  virtual absl::Status InitWorkspace(void* workspace, int64_t bytes, Stream stream) const = 0;

  // Enqueues the selection. Asynchronous; does not allocate or synchronize; can be captured in a
  // CUDA graph. Requires: the device passed to Create is current.
  // Cost: one pass over the scores for most inputs; no input costs one pass per result.
  // Errors: InvalidArgument (shape, null or unaligned buffer, or too small a workspace; names the
  // field, the value and the limit), Unimplemented and NotFound as Supports, Unavailable (the
  // launch failed).
  virtual absl::Status Run(const Shape& shape, const Buffers& buffers, Stream stream,
                           std::string_view algorithm) const = 0;

  // The same with kAdaptive.
  absl::Status Supports(const Shape& shape) const { return Supports(shape, kAdaptive); }
  absl::StatusOr<int64_t> WorkspaceBytes(const Shape& shape) const {
    return WorkspaceBytes(shape, kAdaptive);
  }
  absl::Status Run(const Shape& shape, const Buffers& buffers, Stream stream) const {
    return Run(shape, buffers, stream, kAdaptive);
  }
};

}  // namespace nearfield::select
