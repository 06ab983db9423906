#include "tests/bench/select_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "tests/bench/block_bubble.h"
#include "tests/bench/published/selector.h"
#include "tests/bench/select_input.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

using select::CheckCuda;

constexpr int64_t kColdBytes = 120'000'000;  // twice the L2 of the target card
constexpr int kCallsPerGraph = 20;
constexpr int kGraphWarmups = 2;
constexpr int kWarmups = 3;
constexpr double kSlowUs = 5000;
constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

double MedianOf(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// Returns the description of the input; cases that agree in it share the input.
std::string InputOf(const TimedCase& one) {
  return absl::StrFormat("%d %d %s %s", one.shape.batch, one.shape.n,
                         select::FormatOf(one.shape.type).name, NameOf(one.input));
}

uint64_t Fnv(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Returns the rows to check: the first, the last and two more.
std::set<int64_t> RowsToCheck(const TimedCase& one, uint64_t seed) {
  const auto batch = static_cast<uint64_t>(one.shape.batch);
  const uint64_t random = Fnv(seed ^ 0xcbf29ce484222325u, InputOf(one));
  return {0, one.shape.batch - 1, static_cast<int64_t>((random >> 8) % batch),
          static_cast<int64_t>((random >> 32) % batch)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<SelectRunner>> SelectRunner::Create(
    const SelectRunnerOptions& options, const std::vector<TimedCase>& cases) {
  std::unique_ptr<SelectRunner> runner(new SelectRunner(options));
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaSetDevice(0), "cudaSetDevice"));
  ABSL_ASSIGN_OR_RETURN(runner->selector_, gpu::published::CreateSelector({.device = 0}));
  ABSL_RETURN_IF_ERROR(runner->stream_.Create());
  ABSL_RETURN_IF_ERROR(runner->Expand(cases));
  if (runner->cases_.empty()) return runner;
  ABSL_RETURN_IF_ERROR(runner->Allocate());
  return runner;
}

absl::Status SelectRunner::Expand(const std::vector<TimedCase>& cases) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
  const auto memory_bytes =
      static_cast<int64_t>(static_cast<double>(free_bytes) * options_.memory_part);
  for (const TimedCase& one : cases) {
    if (one.algorithm != kEveryAlgorithm) {
      ABSL_RETURN_IF_ERROR(ExpandOne(one, memory_bytes, /*named=*/true));
      continue;
    }
    TimedCase each = one;
    for (const select::AlgorithmInfo& algorithm : selector_->Algorithms()) {
      each.algorithm = algorithm.name;
      ABSL_RETURN_IF_ERROR(ExpandOne(each, memory_bytes, /*named=*/false));
    }
    each.algorithm = std::string(kSelectBlockBubble);
    ABSL_RETURN_IF_ERROR(ExpandOne(each, memory_bytes, /*named=*/false));
  }
  return absl::OkStatus();
}

// Keeps a case that can run here; otherwise records the reason if the case names its algorithm.
absl::Status SelectRunner::ExpandOne(const TimedCase& one, int64_t memory_bytes, bool named) {
  const absl::StatusOr<int64_t> workspace_bytes = WorkspaceBytes(one);
  if (absl::IsUnimplemented(workspace_bytes.status())) {
    if (named) {
      dropped_.push_back(
          absl::StrCat(Describe(one), ": ", std::string(workspace_bytes.status().message())));
    }
    return absl::OkStatus();
  }
  if (!workspace_bytes.ok()) {
    return absl::Status(
        workspace_bytes.status().code(),
        absl::StrCat(Describe(one), ": ", std::string(workspace_bytes.status().message())));
  }
  const int64_t results =
      one.shape.batch * one.shape.k * (select::FormatOf(one.shape.type).bytes + 4);
  const int64_t needed =
      Copies(one.shape) * Aligned(InputBytes(one.shape)) + results + *workspace_bytes;
  if (needed > memory_bytes) {
    dropped_.push_back(absl::StrCat(Describe(one), ": ", needed, " bytes of ", memory_bytes));
    return absl::OkStatus();
  }
  cases_.push_back(one);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SelectRunner::WorkspaceBytes(const TimedCase& one) const {
  if (one.algorithm != kSelectBlockBubble) {
    return selector_->WorkspaceBytes(one.shape, one.algorithm);
  }
  if (!BlockBubbleSupports(one.shape)) {
    return absl::UnimplementedError("block_bubble would take too long");
  }
  return BlockBubbleWorkspaceBytes(one.shape);
}

absl::Status SelectRunner::Allocate() {
  int64_t scores = 0;
  int64_t values = 0;
  int64_t indices = 0;
  int64_t workspace = 0;
  int64_t baseline = 0;
  int64_t batch_max = 1;
  for (const TimedCase& one : cases_) {
    const select::Shape& shape = one.shape;
    ABSL_ASSIGN_OR_RETURN(const int64_t bytes, WorkspaceBytes(one));
    int64_t& greatest = one.algorithm == kSelectBlockBubble ? baseline : workspace;
    greatest = std::max(greatest, bytes);
    scores = std::max(scores, Copies(shape) * Aligned(InputBytes(shape)));
    values = std::max(values, shape.batch * shape.k * select::FormatOf(shape.type).bytes);
    indices = std::max(indices, shape.batch * shape.k * 4);
    batch_max = std::max(batch_max, shape.batch);
    k_max_ = std::max(k_max_, shape.k);
  }
  ABSL_RETURN_IF_ERROR(scores_.Allocate(scores));
  ABSL_RETURN_IF_ERROR(values_.Allocate(values));
  ABSL_RETURN_IF_ERROR(indices_.Allocate(indices));
  ABSL_RETURN_IF_ERROR(workspace_.Allocate(std::max(workspace, kAlignment)));
  ABSL_RETURN_IF_ERROR(baseline_.Allocate(std::max(baseline, kAlignment)));
  ABSL_ASSIGN_OR_RETURN(certificate_, SelectCertificate::Create(batch_max, stream_.get()));
  return workspace == 0 ? absl::OkStatus() : InitWorkspace();
}

absl::Status SelectRunner::InitWorkspace() const {
  ABSL_RETURN_IF_ERROR(
      selector_->InitWorkspace(workspace_.as<void>(), workspace_.bytes(), stream_.get()));
  return stream_.Synchronize();
}

int64_t SelectRunner::Copies(const select::Shape& shape) const {
  const int64_t bytes = Aligned(InputBytes(shape));
  return std::clamp<int64_t>((kColdBytes + bytes - 1) / bytes, 1, options_.copies_max);
}

// Makes the input and its copies, unless the last case had the same input.
absl::Status SelectRunner::PrepareInput(const TimedCase& one) {
  const std::string input = InputOf(one);
  if (input == input_) return absl::OkStatus();
  input_.clear();
  best_.clear();
  hash_of_k_.clear();
  const uint64_t seed = Fnv(options_.seed ^ 0xcbf29ce484222325u, input);
  ABSL_RETURN_IF_ERROR(FillScores(one, seed, scores_.as<void>(), stream_.get()));
  for (int64_t copy = 1; copy < Copies(one.shape); ++copy) {
    char* const to = scores_.as<char>() + copy * Aligned(InputBytes(one.shape));
    const auto bytes = static_cast<size_t>(InputBytes(one.shape));
    ABSL_RETURN_IF_ERROR(CheckCuda(
        cudaMemcpyAsync(to, scores_.as<void>(), bytes, cudaMemcpyDeviceToDevice, stream_.get()),
        "cudaMemcpyAsync"));
  }
  ABSL_RETURN_IF_ERROR(stream_.Synchronize());
  input_ = input;
  return absl::OkStatus();
}

select::Buffers SelectRunner::BuffersOf(const select::Shape& shape, int64_t copy) const {
  return {.scores = scores_.as<char>() + copy * Aligned(InputBytes(shape)),
          .values = values_.as<void>(),
          .indices = indices_.as<uint32_t>(),
          .workspace = workspace_.as<void>(),
          .workspace_bytes = workspace_.bytes()};
}

// Fills the results with bytes that no selection writes.
absl::Status SelectRunner::Poison(const select::Shape& shape) const {
  const auto count = static_cast<size_t>(shape.batch * shape.k);
  const auto value_bytes = static_cast<size_t>(select::FormatOf(shape.type).bytes);
  ABSL_RETURN_IF_ERROR(CheckCuda(
      cudaMemsetAsync(values_.as<void>(), 0xff, count * value_bytes, stream_.get()), "poison"));
  ABSL_RETURN_IF_ERROR(
      CheckCuda(cudaMemsetAsync(indices_.as<void>(), 0xff, count * 4, stream_.get()), "poison"));
  return stream_.Synchronize();
}

absl::Status SelectRunner::Launch(const TimedCase& one, int64_t copy) const {
  select::Buffers buffers = BuffersOf(one.shape, copy);
  if (one.algorithm == kSelectBlockBubble) {  // its own workspace: the library's state stays intact
    buffers.workspace = baseline_.as<void>();
    buffers.workspace_bytes = baseline_.bytes();
    return BlockBubbleSelect(one.shape, buffers, stream_.get());
  }
  return selector_->Run(one.shape, buffers, stream_.get(), one.algorithm);
}

// Returns the k_max_ best of a row of the input, from the oracle on the host.
absl::StatusOr<select::Answer> SelectRunner::OracleRow(const select::Shape& shape,
                                                       int64_t row) const {
  const int64_t bytes = shape.n * select::FormatOf(shape.type).bytes;
  ABSL_ASSIGN_OR_RETURN(const std::vector<char> scores,
                        select::Download(scores_.as<char>() + row * bytes, bytes, stream_.get()));
  return select::SelectRow(shape.type, scores.data(), shape.n, std::min(shape.n, k_max_));
}

// Returns a row of the results, unchanged.
absl::StatusOr<select::Answer> SelectRunner::ResultRow(const select::Shape& shape,
                                                       int64_t row) const {
  const int64_t bytes = shape.k * select::FormatOf(shape.type).bytes;
  ABSL_ASSIGN_OR_RETURN(const std::vector<char> values,
                        select::Download(values_.as<char>() + row * bytes, bytes, stream_.get()));
  select::Answer result;
  ABSL_ASSIGN_OR_RETURN(result.indices, select::Download(indices_.as<uint32_t>() + row * shape.k,
                                                         shape.k, stream_.get()));
  for (int64_t i = 0; i < shape.k; ++i) {
    result.values.push_back(select::LoadScore(shape.type, values.data(), i));
  }
  return result;
}

absl::Status SelectRunner::CheckRow(const TimedCase& one, int64_t row) {
  select::Answer& best = best_[row];
  if (std::ssize(best.indices) < one.shape.k) {
    ABSL_ASSIGN_OR_RETURN(best, OracleRow(one.shape, row));
  }
  select::Answer expected;
  expected.Append(best, 0, one.shape.k);
  ABSL_ASSIGN_OR_RETURN(const select::Answer got, ResultRow(one.shape, row));
  const absl::Status same = Compare(one.shape, expected, got);
  if (same.ok()) return same;
  return absl::DataLossError(absl::StrCat("row ", row, " alone: ", std::string(same.message())));
}

// Checks that the hash equals that of every other run on this input with this k.
absl::Status SelectRunner::CheckHash(const TimedCase& one, uint64_t hash, const char* when) {
  const auto [place, inserted] = hash_of_k_.emplace(one.shape.k, hash);
  if (inserted || place->second == hash) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s the result hashes to %016x; it was %016x", when, hash, place->second));
}

absl::StatusOr<uint64_t> SelectRunner::Check(const TimedCase& one) {
  ABSL_RETURN_IF_ERROR(Poison(one.shape));
  ABSL_RETURN_IF_ERROR(Launch(one, 0));
  ABSL_RETURN_IF_ERROR(stream_.Synchronize());
  for (const int64_t row : RowsToCheck(one, options_.seed)) {
    ABSL_RETURN_IF_ERROR(CheckRow(one, row));
  }
  ABSL_RETURN_IF_ERROR(certificate_->Check(one.shape, BuffersOf(one.shape, 0)));
  ABSL_ASSIGN_OR_RETURN(const uint64_t hash,
                        certificate_->Hash(one.shape, BuffersOf(one.shape, 0)));
  ABSL_RETURN_IF_ERROR(CheckHash(one, hash, "before timing"));
  return hash;
}

absl::Status SelectRunner::TimeCalls(const TimedCase& one, SelectRow& row) const {
  double slowest_us = 0;
  for (int i = 0; i < kWarmups; ++i) {
    ABSL_ASSIGN_OR_RETURN(const double us,
                          stream_.Time([&] { return Launch(one, i % row.copies); }));
    slowest_us = i == 0 ? 0 : std::max(slowest_us, us);
  }
  const int runs_min = slowest_us > kSlowUs ? std::min(options_.slow_runs_min, options_.runs_min)
                                            : options_.runs_min;
  std::vector<double> times;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < options_.runs_max; ++i) {
    if (i >= runs_min && SecondsSince(begin) > options_.seconds) break;
    ABSL_RETURN_IF_ERROR(Poison(one.shape));
    ABSL_ASSIGN_OR_RETURN(const double us,
                          stream_.Time([&] { return Launch(one, i % row.copies); }));
    times.push_back(us);
  }
  row.runs = static_cast<int>(times.size());
  row.us = MedianOf(std::move(times));
  return absl::OkStatus();
}

absl::Status SelectRunner::TimeGraph(const TimedCase& one, SelectRow& row) const {
  select::Graph graph;
  const auto enqueue = [&] {
    for (int i = 0; i < kCallsPerGraph; ++i) ABSL_RETURN_IF_ERROR(Launch(one, i % row.copies));
    return absl::OkStatus();
  };
  ABSL_RETURN_IF_ERROR(graph.Capture(stream_.get(), cudaStreamCaptureModeThreadLocal, enqueue));
  for (int i = 0; i < kGraphWarmups; ++i) ABSL_RETURN_IF_ERROR(graph.Launch(stream_.get()));
  std::vector<double> times;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 21; ++i) {
    if (i >= 3 && SecondsSince(begin) > options_.seconds) break;
    ABSL_RETURN_IF_ERROR(Poison(one.shape));
    ABSL_ASSIGN_OR_RETURN(const double us,
                          stream_.Time([&] { return graph.Launch(stream_.get()); }));
    times.push_back(us / kCallsPerGraph);
  }
  row.graph_us = MedianOf(std::move(times));
  return absl::OkStatus();
}

absl::StatusOr<SelectRow> SelectRunner::CheckAndTime(const TimedCase& one) {
  SelectRow row;
  ABSL_RETURN_IF_ERROR(PrepareInput(one));
  ABSL_ASSIGN_OR_RETURN(row.workspace_bytes, WorkspaceBytes(one));
  row.choice = one.algorithm;
  if (one.algorithm == select::kAdaptive) {
    ABSL_ASSIGN_OR_RETURN(row.choice, selector_->Choice(one.shape));
  }
  row.copies = Copies(one.shape);
  row.warm = row.copies * InputBytes(one.shape) < kColdBytes;
  ABSL_ASSIGN_OR_RETURN(row.hash, Check(one));
  ABSL_RETURN_IF_ERROR(TimeCalls(one, row));
  ABSL_ASSIGN_OR_RETURN(const uint64_t after,
                        certificate_->Hash(one.shape, BuffersOf(one.shape, 0)));
  ABSL_RETURN_IF_ERROR(CheckHash(one, after, "after many calls"));
  if (!options_.graph || row.us > kSlowUs) return row;
  ABSL_RETURN_IF_ERROR(TimeGraph(one, row));
  ABSL_ASSIGN_OR_RETURN(const uint64_t last,
                        certificate_->Hash(one.shape, BuffersOf(one.shape, 0)));
  ABSL_RETURN_IF_ERROR(CheckHash(one, last, "after graphs"));
  return row;
}

absl::StatusOr<SelectRow> SelectRunner::Run(const TimedCase& one) {
  absl::StatusOr<SelectRow> row = CheckAndTime(one);
  if (row.ok() || !absl::IsDataLoss(row.status())) return row;
  // The next case must not see what a wrong call left in the workspace.
  if (one.algorithm != kSelectBlockBubble) ABSL_RETURN_IF_ERROR(InitWorkspace());
  return row;
}

}  // namespace nearfield::bench
