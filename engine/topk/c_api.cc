// The C ABI of the selection library over Selector: nearfield/nearfield_topk.h.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "engine/topk/current_device.h"
#include "nearfield/engine/select.h"
#include "nearfield/nearfield_topk.h"

namespace topk = nearfield::select;

// The strings are those whose addresses the functions return.
struct nf_topk_selector {
  std::unique_ptr<topk::Selector> selector;
  std::vector<topk::AlgorithmInfo> algorithms;
  int32_t device = 0;
};

namespace {

// The message of the last error of this thread.
std::string& LastError() {
  thread_local std::string message;
  return message;
}

int32_t Code(const absl::Status& status) {
  if (!status.ok()) LastError() = std::string(status.message());
  return static_cast<int32_t>(status.code());
}

// Runs `body`, which returns a status, and returns its code. An exception, which only a failed
// allocation can cause, becomes NF_TOPK_INTERNAL.
template <typename Body>
int32_t Guarded(const Body& body) {
  try {
    return Code(body());
  } catch (...) {
    LastError().assign("memory");  // short enough to need no allocation
    return NF_TOPK_INTERNAL;
  }
}

absl::Status CheckGiven(const char* field, const void* address) {
  if (address != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is null"));
}

template <typename Struct>
absl::Status CheckStruct(const char* field, const Struct* given) {
  ABSL_RETURN_IF_ERROR(CheckGiven(field, given));
  return nearfield::CheckRange(absl::StrCat(field, ".struct_bytes"), given->struct_bytes,
                               int64_t{sizeof(Struct)}, int64_t{sizeof(Struct)});
}

absl::StatusOr<topk::Shape> ShapeOf(const nf_topk_shape* given) {
  ABSL_RETURN_IF_ERROR(CheckStruct("shape", given));
  ABSL_RETURN_IF_ERROR(nearfield::CheckRange("type", given->type, NF_TOPK_FLOAT32, NF_TOPK_UINT32));
  ABSL_RETURN_IF_ERROR(nearfield::CheckRange("ragged", given->ragged, 0, 1));
  ABSL_RETURN_IF_ERROR(nearfield::CheckRange("shape.reserved", given->reserved, 0, 0));
  topk::Shape shape;
  shape.type = static_cast<nearfield::ScoreType>(given->type);
  shape.batch = given->batch;
  shape.n = given->n;
  shape.k = given->k;
  shape.ragged = given->ragged != 0;
  shape.column_stride = given->column_stride == 0 ? 1 : given->column_stride;
  return shape;
}

absl::StatusOr<topk::Buffers> BuffersOf(const nf_topk_buffers* given) {
  ABSL_RETURN_IF_ERROR(CheckStruct("buffers", given));
  ABSL_RETURN_IF_ERROR(nearfield::CheckRange("buffers.reserved", given->reserved, 0, 0));
  topk::Buffers buffers;
  buffers.scores = given->scores;
  buffers.stride = given->stride;
  buffers.row_begin = given->row_begin;
  buffers.row_end = given->row_end;
  buffers.values = given->values;
  buffers.indices = given->indices;
  buffers.workspace = given->workspace;
  buffers.workspace_bytes = given->workspace_bytes;
  return buffers;
}

std::string_view NameOr(const char* algorithm) {
  return algorithm == nullptr ? topk::kAdaptive : std::string_view(algorithm);
}

topk::Stream StreamOf(void* stream) { return static_cast<topk::Stream>(stream); }

absl::Status Create(int32_t device, nf_topk_selector** result) {
  ABSL_RETURN_IF_ERROR(CheckGiven("selector", result));
  *result = nullptr;
  // The creation makes the device current, and this restores the earlier one. Without a device it
  // fails, and Create says why.
  const topk::CurrentDevice current(device);
  ABSL_ASSIGN_OR_RETURN(auto selector, topk::Selector::Create({.device = device}));
  auto made = std::make_unique<nf_topk_selector>();
  made->algorithms = selector->Algorithms();
  made->selector = std::move(selector);
  made->device = device;
  *result = made.release();
  return absl::OkStatus();
}

const topk::AlgorithmInfo* AlgorithmAt(const nf_topk_selector* selector, int32_t i) {
  if (selector == nullptr || i < 0) return nullptr;
  const auto at = static_cast<std::size_t>(i);
  return at < selector->algorithms.size() ? &selector->algorithms[at] : nullptr;
}

absl::Status Choice(const nf_topk_selector* selector, const nf_topk_shape* given,
                    const char** name) {
  ABSL_RETURN_IF_ERROR(CheckGiven("selector", selector));
  ABSL_RETURN_IF_ERROR(CheckGiven("name", name));
  ABSL_ASSIGN_OR_RETURN(const topk::Shape shape, ShapeOf(given));
  ABSL_ASSIGN_OR_RETURN(const std::string choice, selector->selector->Choice(shape));
  for (const topk::AlgorithmInfo& algorithm : selector->algorithms) {
    if (algorithm.name != choice) continue;
    *name = algorithm.name.c_str();
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("the choice '", choice, "' is not in the list"));
}

absl::Status Run(const nf_topk_selector* selector, const nf_topk_shape* given_shape,
                 const nf_topk_buffers* given_buffers, const char* algorithm, void* stream) {
  ABSL_RETURN_IF_ERROR(CheckGiven("selector", selector));
  ABSL_ASSIGN_OR_RETURN(const topk::Shape shape, ShapeOf(given_shape));
  ABSL_ASSIGN_OR_RETURN(const topk::Buffers buffers, BuffersOf(given_buffers));
  const topk::CurrentDevice current(selector->device);
  ABSL_RETURN_IF_ERROR(current.status());
  return selector->selector->Run(shape, buffers, StreamOf(stream), NameOr(algorithm));
}

}  // namespace

extern "C" {

uint32_t nf_topk_abi_version(void) { return NF_TOPK_ABI_VERSION; }
const char* nf_topk_version(void) { return NEARFIELD_VERSION; }
const char* nf_topk_last_error(void) { return LastError().c_str(); }

int32_t nf_topk_create(int32_t device, nf_topk_selector** selector) {
  return Guarded([=] { return Create(device, selector); });
}

void nf_topk_destroy(nf_topk_selector* selector) { delete selector; }

const char* nf_topk_algorithm_name(const nf_topk_selector* selector, int32_t i) {
  const topk::AlgorithmInfo* const found = AlgorithmAt(selector, i);
  return found == nullptr ? nullptr : found->name.c_str();
}

const char* nf_topk_algorithm_summary(const nf_topk_selector* selector, int32_t i) {
  const topk::AlgorithmInfo* const found = AlgorithmAt(selector, i);
  return found == nullptr ? nullptr : found->summary.c_str();
}

int32_t nf_topk_supports(const nf_topk_selector* selector, const nf_topk_shape* shape,
                         const char* algorithm) {
  return Guarded([=]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(CheckGiven("selector", selector));
    ABSL_ASSIGN_OR_RETURN(const topk::Shape checked, ShapeOf(shape));
    return selector->selector->Supports(checked, NameOr(algorithm));
  });
}

int32_t nf_topk_choice(const nf_topk_selector* selector, const nf_topk_shape* shape,
                       const char** name) {
  return Guarded([=] { return Choice(selector, shape, name); });
}

int32_t nf_topk_workspace_bytes(const nf_topk_selector* selector, const nf_topk_shape* shape,
                                const char* algorithm, int64_t* bytes) {
  return Guarded([=]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(CheckGiven("selector", selector));
    ABSL_RETURN_IF_ERROR(CheckGiven("bytes", bytes));
    ABSL_ASSIGN_OR_RETURN(const topk::Shape checked, ShapeOf(shape));
    ABSL_ASSIGN_OR_RETURN(*bytes, selector->selector->WorkspaceBytes(checked, NameOr(algorithm)));
    return absl::OkStatus();
  });
}

int32_t nf_topk_init_workspace(const nf_topk_selector* selector, void* workspace, int64_t bytes,
                               void* stream) {
  return Guarded([=]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(CheckGiven("selector", selector));
    const topk::CurrentDevice current(selector->device);
    ABSL_RETURN_IF_ERROR(current.status());
    return selector->selector->InitWorkspace(workspace, bytes, StreamOf(stream));
  });
}

int32_t nf_topk_run(const nf_topk_selector* selector, const nf_topk_shape* shape,
                    const nf_topk_buffers* buffers, const char* algorithm, void* stream) {
  return Guarded([=] { return Run(selector, shape, buffers, algorithm, stream); });
}

int32_t nf_topk_wait(const nf_topk_selector* selector, void* stream) {
  return Guarded([=]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(CheckGiven("selector", selector));
    const topk::CurrentDevice current(selector->device);
    ABSL_RETURN_IF_ERROR(current.status());
    return topk::WaitFor(StreamOf(stream));
  });
}

}  // extern "C"
