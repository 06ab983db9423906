// Selection: the k best scores of each row of a batch, in device memory, sorted. A library of its
// own; the engine's searches use the same kernels.
//
//   ABSL_ASSIGN_OR_RETURN(auto selector, select::Selector::Create({.device = 0}));
//   const select::Shape shape = {.batch = 1024, .n = 50000, .k = 2048};
//   ABSL_ASSIGN_OR_RETURN(const int64_t bytes, selector->WorkspaceBytes(shape));
//   // ... device memory of `bytes` bytes at `workspace`, once; then, as often as wanted:
//   ABSL_RETURN_IF_ERROR(selector->InitWorkspace(workspace, bytes, stream));
//   ABSL_RETURN_IF_ERROR(selector->Run(shape, {.scores = scores, .values = values,
//                                              .indices = indices, .workspace = workspace,
//                                              .workspace_bytes = bytes}, stream));
//
// Order: a greater score first; of equal scores the smaller index first. +0 and -0 are equal. +inf
// is above and -inf below every finite score. NaN, of either sign and any payload, ranks last,
// below -inf; NaNs are equal to each other. The result is a function of the scores alone: the same
// to the bit for every algorithm, on every run. Values come back as they stand in the scores, but
// for two: -0 comes back as +0, a NaN as the quiet positive NaN.
#ifndef NEARFIELD_ENGINE_SELECT_H_
#define NEARFIELD_ENGINE_SELECT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct CUstream_st;  // CUDA's stream; cudaStream_t is a pointer to it

namespace nearfield::select {

using Stream = CUstream_st*;

enum class ScoreType : uint8_t { kFloat32 = 1, kFloat16 = 2, kBFloat16 = 3 };

// Rows of scores in one batch.
inline constexpr int64_t kBatchMax = 65535;
// Scores in one row: an index is a uint32.
inline constexpr int64_t kColumnsMax = 0xffffffff;

struct Shape {
  ScoreType type = ScoreType::kFloat32;
  int64_t batch = 1;  // rows, 1 to kBatchMax
  int64_t n = 0;      // scores in a row, 1 to kColumnsMax
  int64_t k = 0;      // 1 to n
};

// Device memory, all of it the caller's; none may overlap another.
struct Buffers {
  const void* scores = nullptr;  // [batch, n] of the score type, rows `stride` scores apart
  int64_t stride = 0;            // >= n; 0: n. Need not be aligned to more than a score
  void* values = nullptr;        // [batch, k] of the score type, best first
  uint32_t* indices = nullptr;   // [batch, k]
  void* workspace = nullptr;     // 256-byte aligned, as InitWorkspace left it
  int64_t workspace_bytes = 0;   // at least WorkspaceBytes of the shape
};

struct AlgorithmInfo {
  std::string name;
  std::string summary;  // one sentence
};

// The algorithm that picks among the others by a table measured on the device.
inline constexpr std::string_view kAdaptive = "adaptive";

struct SelectorOptions {
  int device = 0;
};

// Thread-safe after Create: it holds facts of the device and no state of a call.
class Selector {
 public:
  // Loads the kernels on the device. Errors: Unavailable (no driver, no such device, a device that
  // cannot run them), Unimplemented (built without CUDA).
  static absl::StatusOr<std::unique_ptr<Selector>> Create(const SelectorOptions& options);
  virtual ~Selector() = default;

  // All that can be forced, kAdaptive first.
  virtual std::vector<AlgorithmInfo> Algorithms() const = 0;

  // Why `algorithm` cannot select this shape, as Unimplemented naming field, value and limit; OK
  // where it can. kAdaptive can select every legal shape. Errors: InvalidArgument (an illegal
  // shape), NotFound (no such algorithm).
  virtual absl::Status Supports(const Shape& shape, std::string_view algorithm) const = 0;

  // The algorithm that kAdaptive runs for this shape. Errors: InvalidArgument.
  virtual absl::StatusOr<std::string> Choice(const Shape& shape) const = 0;

  // Bytes of workspace for this shape. One workspace may serve many shapes and algorithms, one
  // call at a time: take the largest. Errors: as Supports.
  virtual absl::StatusOr<int64_t> WorkspaceBytes(const Shape& shape,
                                                 std::string_view algorithm) const = 0;

  // Once for each workspace, before its first use, on the stream of that use or one before it:
  // calls find its counters zero and leave them so. Asynchronous. After a call that failed on the
  // device, again.
  virtual absl::Status InitWorkspace(void* workspace, int64_t bytes, Stream stream) const = 0;

  // Enqueues the selection: asynchronous, no allocation, no synchronisation, and it can be captured
  // in a CUDA graph. The device of Create must be current. Cost: for most inputs one pass over the
  // scores; no input costs a pass a result.
  // Errors: InvalidArgument (shape, null or unaligned buffer, too small a workspace: the field, the
  // value and the limit), Unimplemented and NotFound as Supports, Unavailable (the launch failed).
  virtual absl::Status Run(const Shape& shape, const Buffers& buffers, Stream stream,
                           std::string_view algorithm) const = 0;

  // The same, by kAdaptive.
  absl::Status Supports(const Shape& shape) const { return Supports(shape, kAdaptive); }
  absl::StatusOr<int64_t> WorkspaceBytes(const Shape& shape) const {
    return WorkspaceBytes(shape, kAdaptive);
  }
  absl::Status Run(const Shape& shape, const Buffers& buffers, Stream stream) const {
    return Run(shape, buffers, stream, kAdaptive);
  }
};

}  // namespace nearfield::select

#endif  // NEARFIELD_ENGINE_SELECT_H_
