#include "tests/engine/topk/select_device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"

namespace nearfield::select {
namespace {

constexpr int64_t kGuardBytes = 4096;
constexpr unsigned char kPoison = 0xa5;
constexpr int kHangSecondsDefault = 30;

absl::Status Poison(char* begin, int64_t bytes, cudaStream_t stream) {
  return CheckCuda(cudaMemsetAsync(begin, kPoison, static_cast<size_t>(bytes), stream),
                   "cudaMemsetAsync");
}

absl::Status Copy(void* to, const void* from, int64_t bytes, cudaStream_t stream) {
  return CheckCuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream),
                   "cudaMemcpyAsync");
}

// Returns the position of the first byte of [begin, end) that is not poison; -1 if there is none.
int64_t FirstWritten(const std::vector<char>& bytes, int64_t begin, int64_t end) {
  const auto first = std::find_if(bytes.begin() + begin, bytes.begin() + end, [](char byte) {
    return static_cast<unsigned char>(byte) != kPoison;
  });
  return first == bytes.begin() + end ? -1 : first - bytes.begin();
}

std::chrono::seconds HangSeconds() {
  static const int seconds = [] {
    int parsed = 0;
    const std::string given = Environment("NEARFIELD_SELECT_HANG_SECONDS");
    return absl::SimpleAtoi(given, &parsed) && parsed > 0 ? parsed : kHangSecondsDefault;
  }();
  return std::chrono::seconds(seconds);
}

}  // namespace

absl::Status GuardedOutput::Arm(int64_t bytes, int64_t offset, cudaStream_t stream) {
  bytes_ = bytes;
  offset_ = offset;
  const int64_t all = kGuardBytes + offset + bytes + kGuardBytes;
  ABSL_RETURN_IF_ERROR(buffer_.Reserve(all));
  return Poison(buffer_.as<char>(), all, stream);
}

char* GuardedOutput::data() const { return buffer_.as<char>() + kGuardBytes + offset_; }

absl::StatusOr<std::vector<char>> GuardedOutput::Collect(cudaStream_t stream) const {
  const int64_t begin = kGuardBytes + offset_;
  const int64_t end = begin + bytes_;
  ABSL_ASSIGN_OR_RETURN(const std::vector<char> all,
                        Download(buffer_.as<char>(), end + kGuardBytes, stream));
  if (const int64_t at = FirstWritten(all, 0, begin); at >= 0) {
    return absl::DataLossError(absl::StrCat("written ", begin - at, " bytes before an output"));
  }
  if (const int64_t at = FirstWritten(all, end, end + kGuardBytes); at >= 0) {
    return absl::DataLossError(
        absl::StrCat("written ", at - end, " bytes after the end of an output"));
  }
  return std::vector<char>(all.begin() + begin, all.begin() + end);
}

absl::Status GuardedWorkspace::Reserve(const Selector& selector, int64_t bytes,
                                       cudaStream_t stream) {
  if (bytes <= capacity_) return absl::OkStatus();
  capacity_ = -1;
  ABSL_RETURN_IF_ERROR(saved_.Reserve(kGuardBytes));
  ABSL_RETURN_IF_ERROR(buffer_.Allocate(kGuardBytes + bytes + kGuardBytes));
  capacity_ = bytes;
  return Reset(selector, stream);
}

absl::Status GuardedWorkspace::Reset(const Selector& selector, cudaStream_t stream) {
  if (capacity_ < 0) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(Poison(buffer_.as<char>(), kGuardBytes + capacity_ + kGuardBytes, stream));
  return selector.InitWorkspace(data(), capacity_, stream);
}

char* GuardedWorkspace::data() const { return buffer_.as<char>() + kGuardBytes; }

absl::Status GuardedWorkspace::Arm(int64_t bytes, cudaStream_t stream) {
  bytes_ = bytes;
  ABSL_RETURN_IF_ERROR(Copy(saved_.as<char>(), data() + bytes, kGuardBytes, stream));
  return Poison(data() + bytes, kGuardBytes, stream);
}

absl::Status GuardedWorkspace::Disarm(cudaStream_t stream) {
  ABSL_ASSIGN_OR_RETURN(const std::vector<char> before,
                        Download(buffer_.as<char>(), kGuardBytes, stream));
  ABSL_ASSIGN_OR_RETURN(const std::vector<char> behind,
                        Download(data() + bytes_, kGuardBytes, stream));
  ABSL_RETURN_IF_ERROR(Poison(buffer_.as<char>(), kGuardBytes, stream));
  ABSL_RETURN_IF_ERROR(Copy(data() + bytes_, saved_.as<char>(), kGuardBytes, stream));
  if (FirstWritten(before, 0, kGuardBytes) >= 0) {
    return absl::DataLossError("written before the workspace");
  }
  if (const int64_t at = FirstWritten(behind, 0, kGuardBytes); at >= 0) {
    return absl::DataLossError(absl::StrCat(
        "written ", at, " bytes after the end of the workspace of ", bytes_, " bytes"));
  }
  return absl::OkStatus();
}

CallSite::~CallSite() {
  if (done_ != nullptr) cudaEventDestroy(done_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::Status CallSite::Init() {
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                                 "cudaStreamCreateWithFlags"));
  return CheckCuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming),
                   "cudaEventCreateWithFlags");
}

absl::Status CallSite::Upload(const HostScores& scores) {
  const auto bytes = static_cast<int64_t>(scores.image().size());
  // Exactly this size, so that compute-sanitizer notices a read past the end.
  if (scores_.bytes() != bytes) ABSL_RETURN_IF_ERROR(scores_.Allocate(bytes));
  scores_begin_ = scores.begin();
  ABSL_RETURN_IF_ERROR(Copy(scores_.as<char>(), scores.image().data(), bytes, stream_));
  return CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

absl::StatusOr<char*> CallSite::AllocateScores(int64_t bytes) {
  ABSL_RETURN_IF_ERROR(scores_.Allocate(bytes));
  scores_begin_ = 0;
  return scores_.as<char>();
}

absl::Status CallSite::CheckScores(const HostScores& scores) const {
  ABSL_ASSIGN_OR_RETURN(const std::vector<char> now,
                        Download(scores_.as<char>(), scores_.bytes(), stream_));
  return now == scores.image() ? absl::OkStatus() : absl::DataLossError("the scores were written");
}

absl::StatusOr<const int32_t*> CallSite::UploadBounds(const std::vector<int32_t>& bounds,
                                                      DeviceMemory& to) const {
  if (bounds.empty()) return nullptr;
  const auto bytes = static_cast<int64_t>(bounds.size() * sizeof(int32_t));
  if (to.bytes() != bytes) ABSL_RETURN_IF_ERROR(to.Allocate(bytes));
  ABSL_RETURN_IF_ERROR(Copy(to.as<void>(), bounds.data(), bytes, stream_));
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
  return to.as<const int32_t>();
}

absl::StatusOr<Buffers> CallSite::Arm(const SelectCase& problem, std::string_view algorithm) {
  const Shape& shape = problem.shape;
  const int64_t value_bytes = FormatOf(shape.type).bytes;
  const int64_t results = shape.batch * shape.k;
  Buffers buffers;
  ABSL_ASSIGN_OR_RETURN(buffers.workspace_bytes, selector_.WorkspaceBytes(shape, algorithm));
  ABSL_RETURN_IF_ERROR(ReserveWorkspace(buffers.workspace_bytes));
  ABSL_RETURN_IF_ERROR(workspace_.Arm(buffers.workspace_bytes, stream_));
  ABSL_RETURN_IF_ERROR(
      values_.Arm(results * value_bytes, problem.values_offset * value_bytes, stream_));
  ABSL_RETURN_IF_ERROR(indices_.Arm(results * 4, problem.indices_offset * 4, stream_));
  buffers.scores = scores_.as<char>() + scores_begin_;
  buffers.stride = problem.stride;
  ABSL_ASSIGN_OR_RETURN(buffers.row_begin, UploadBounds(problem.row_begin, row_begin_));
  ABSL_ASSIGN_OR_RETURN(buffers.row_end, UploadBounds(problem.row_end, row_end_));
  buffers.values = values_.data();
  buffers.indices = reinterpret_cast<uint32_t*>(indices_.data());
  buffers.workspace = workspace_.data();
  return buffers;
}

absl::Status CallSite::Await(std::string_view what) {
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaEventRecord(done_, stream_), "cudaEventRecord"));
  const auto deadline = std::chrono::steady_clock::now() + HangSeconds();
  cudaError_t state = cudaEventQuery(done_);
  while (state == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() > deadline) {
      std::printf("HANGS for %lld s (NEARFIELD_SELECT_HANG_SECONDS), no test after this one: %s\n",
                  static_cast<long long>(HangSeconds().count()), std::string(what).c_str());
      std::fflush(stdout);
      std::_Exit(3);
    }
    std::this_thread::yield();
    state = cudaEventQuery(done_);
  }
  return CheckCuda(state, "the kernels");
}

absl::StatusOr<Answer> CallSite::Collect(const SelectCase& problem) {
  const ScoreType type = problem.shape.type;
  ABSL_RETURN_IF_ERROR(workspace_.Disarm(stream_));
  ABSL_ASSIGN_OR_RETURN(const std::vector<char> values, values_.Collect(stream_));
  ABSL_ASSIGN_OR_RETURN(const std::vector<char> indices, indices_.Collect(stream_));
  Answer answer;
  const int64_t results = problem.shape.batch * problem.shape.k;
  answer.values.resize(static_cast<size_t>(results));
  answer.indices.resize(static_cast<size_t>(results));
  for (int64_t i = 0; i < results; ++i) {
    answer.values[static_cast<size_t>(i)] = LoadScore(type, values.data(), i);
    answer.indices[static_cast<size_t>(i)] = LoadScore(ScoreType::kFloat32, indices.data(), i);
  }
  return answer;
}

absl::StatusOr<Answer> CallSite::Select(const SelectCase& problem, std::string_view algorithm) {
  ABSL_ASSIGN_OR_RETURN(const Buffers buffers, Arm(problem, algorithm));
  ABSL_RETURN_IF_ERROR(selector_.Run(problem.shape, buffers, stream_, algorithm));
  ABSL_RETURN_IF_ERROR(Await(absl::StrCat(std::string(algorithm), ": ", Describe(problem))));
  return Collect(problem);
}

std::string Environment(const char* name) {
  const char* given = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread sets it
  return given == nullptr ? "" : given;
}

}  // namespace nearfield::select
