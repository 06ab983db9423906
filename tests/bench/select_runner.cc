#include "tests/bench/select_runner.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "tests/bench/select_block_bubble.h"
#include "tests/bench/select_input.h"

namespace nearfield::bench {
namespace {

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
std::string InputOf(const SelectCase& one) {
  return absl::StrFormat("%d %d %s %s", one.shape.batch, one.shape.n, Name(one.shape.type),
                         Name(one.input));
}

uint64_t Fnv(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Returns the rows to check: the first, the last and two more.
std::set<int64_t> RowsToCheck(const SelectCase& one, uint64_t seed) {
  const auto batch = static_cast<uint64_t>(one.shape.batch);
  const uint64_t random = Fnv(seed ^ 0xcbf29ce484222325u, InputOf(one));
  return {0, one.shape.batch - 1, static_cast<int64_t>((random >> 8) % batch),
          static_cast<int64_t>((random >> 32) % batch)};
}

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

absl::StatusOr<std::unique_ptr<SelectRunner>> SelectRunner::Create(
    const SelectRunnerOptions& options, const std::vector<SelectCase>& cases) {
  std::unique_ptr<SelectRunner> runner(new SelectRunner(options));
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaSetDevice(0), "cudaSetDevice"));
  ABSL_ASSIGN_OR_RETURN(runner->selector_, select::Selector::Create({.device = 0}));
  ABSL_RETURN_IF_ERROR(runner->stream_.Create());
  ABSL_RETURN_IF_ERROR(runner->Expand(cases));
  if (runner->cases_.empty()) return runner;
  ABSL_RETURN_IF_ERROR(runner->Allocate());
  return runner;
}

absl::Status SelectRunner::Expand(const std::vector<SelectCase>& cases) {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  ABSL_RETURN_IF_ERROR(CheckCuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo"));
  const auto memory_bytes =
      static_cast<int64_t>(static_cast<double>(free_bytes) * options_.memory_part);
  for (const SelectCase& one : cases) {
    if (one.algorithm != kEveryAlgorithm) {
      ABSL_RETURN_IF_ERROR(ExpandOne(one, memory_bytes, /*named=*/true));
      continue;
    }
    SelectCase each = one;
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
absl::Status SelectRunner::ExpandOne(const SelectCase& one, int64_t memory_bytes, bool named) {
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
  const int64_t results = one.shape.batch * one.shape.k * (ScoreBytes(one.shape.type) + 4);
  const int64_t needed = Copies(one.shape) * Aligned(InputBytes(one.shape)) + results +
                         *workspace_bytes + 24 * one.shape.n;
  if (needed > memory_bytes) {
    dropped_.push_back(absl::StrCat(Describe(one), ": ", needed, " bytes of ", memory_bytes));
    return absl::OkStatus();
  }
  cases_.push_back(one);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SelectRunner::WorkspaceBytes(const SelectCase& one) const {
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
  SelectOracle::Limits limits;
  for (const SelectCase& one : cases_) {
    const select::Shape& shape = one.shape;
    ABSL_ASSIGN_OR_RETURN(const int64_t bytes, WorkspaceBytes(one));
    int64_t& greatest = one.algorithm == kSelectBlockBubble ? baseline : workspace;
    greatest = std::max(greatest, bytes);
    scores = std::max(scores, Copies(shape) * Aligned(InputBytes(shape)));
    values = std::max(values, shape.batch * shape.k * ScoreBytes(shape.type));
    indices = std::max(indices, shape.batch * shape.k * 4);
    limits.batch_max = std::max(limits.batch_max, shape.batch);
    limits.n_max = std::max(limits.n_max, shape.n);
    limits.kept_max = std::max(limits.kept_max, shape.k);
  }
  ABSL_RETURN_IF_ERROR(scores_.Allocate(scores));
  ABSL_RETURN_IF_ERROR(values_.Allocate(values));
  ABSL_RETURN_IF_ERROR(indices_.Allocate(indices));
  ABSL_RETURN_IF_ERROR(workspace_.Allocate(std::max(workspace, kAlignment)));
  ABSL_RETURN_IF_ERROR(baseline_.Allocate(std::max(baseline, kAlignment)));
  ABSL_ASSIGN_OR_RETURN(oracle_, SelectOracle::Create(limits, stream_.get()));
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
absl::Status SelectRunner::PrepareInput(const SelectCase& one) {
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
  const auto value_bytes = static_cast<size_t>(ScoreBytes(shape.type));
  ABSL_RETURN_IF_ERROR(CheckCuda(
      cudaMemsetAsync(values_.as<void>(), 0xff, count * value_bytes, stream_.get()), "poison"));
  ABSL_RETURN_IF_ERROR(
      CheckCuda(cudaMemsetAsync(indices_.as<void>(), 0xff, count * 4, stream_.get()), "poison"));
  return stream_.Synchronize();
}

absl::Status SelectRunner::Launch(const SelectCase& one, int64_t copy) const {
  select::Buffers buffers = BuffersOf(one.shape, copy);
  if (one.algorithm == kSelectBlockBubble) {  // its own workspace: the library's state stays intact
    buffers.workspace = baseline_.as<void>();
    buffers.workspace_bytes = baseline_.bytes();
    return BlockBubbleSelect(one.shape, buffers, stream_.get());
  }
  return selector_->Run(one.shape, buffers, stream_.get(), one.algorithm);
}

absl::Status SelectRunner::CheckRow(const SelectCase& one, int64_t row) {
  const auto k = static_cast<size_t>(one.shape.k);
  BestOfRow& best = best_[row];
  if (best.indices.size() < k) {
    const int64_t kept = std::min(one.shape.n, oracle_->kept_max());
    ABSL_ASSIGN_OR_RETURN(best,
                          oracle_->BestOf(one.shape, BuffersOf(one.shape, 0).scores, row, kept));
  }
  ABSL_ASSIGN_OR_RETURN(const BestOfRow got,
                        SelectOracle::ResultOf(one.shape, BuffersOf(one.shape, 0), row));
  for (size_t i = 0; i < k; ++i) {
    if (got.indices[i] == best.indices[i] && got.value_bits[i] == best.value_bits[i]) continue;
    return absl::DataLossError(
        absl::StrFormat("row %d, place %d: index %u, value bits %08x; the oracle has %u, %08x", row,
                        i, got.indices[i], got.value_bits[i], best.indices[i], best.value_bits[i]));
  }
  return absl::OkStatus();
}

// Checks that the hash equals that of every other run on this input with this k.
absl::Status SelectRunner::CheckHash(const SelectCase& one, uint64_t hash, const char* when) {
  const auto [place, inserted] = hash_of_k_.emplace(one.shape.k, hash);
  if (inserted || place->second == hash) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s the result hashes to %016x; it was %016x", when, hash, place->second));
}

absl::StatusOr<uint64_t> SelectRunner::Check(const SelectCase& one) {
  ABSL_RETURN_IF_ERROR(Poison(one.shape));
  ABSL_RETURN_IF_ERROR(Launch(one, 0));
  ABSL_RETURN_IF_ERROR(stream_.Synchronize());
  for (const int64_t row : RowsToCheck(one, options_.seed)) {
    ABSL_RETURN_IF_ERROR(CheckRow(one, row));
  }
  ABSL_RETURN_IF_ERROR(oracle_->Certify(one.shape, BuffersOf(one.shape, 0)));
  ABSL_ASSIGN_OR_RETURN(const uint64_t hash, oracle_->Hash(one.shape, BuffersOf(one.shape, 0)));
  ABSL_RETURN_IF_ERROR(CheckHash(one, hash, "before timing"));
  return hash;
}

absl::Status SelectRunner::TimeCalls(const SelectCase& one, SelectRow& row) const {
  double slowest_us = 0;
  for (int i = 0; i < kWarmups; ++i) {
    ABSL_ASSIGN_OR_RETURN(const double us,
                          stream_.Time([&] { return Launch(one, i % row.copies); }));
    slowest_us = i == 0 ? 0 : std::max(slowest_us, us);
  }
  const int runs_min = slowest_us > kSlowUs ? std::min(options_.slow_runs_min, options_.runs_min)
                                            : options_.runs_min;
  std::vector<double> times;
  const Clock clock;
  for (int i = 0; i < options_.runs_max; ++i) {
    if (i >= runs_min && clock.seconds() > options_.seconds) break;
    ABSL_RETURN_IF_ERROR(Poison(one.shape));
    ABSL_ASSIGN_OR_RETURN(const double us,
                          stream_.Time([&] { return Launch(one, i % row.copies); }));
    times.push_back(us);
  }
  row.runs = static_cast<int>(times.size());
  row.us = MedianOf(std::move(times));
  return absl::OkStatus();
}

absl::Status SelectRunner::TimeGraph(const SelectCase& one, SelectRow& row) const {
  Graph graph;
  const auto enqueue = [&] {
    for (int i = 0; i < kCallsPerGraph; ++i) ABSL_RETURN_IF_ERROR(Launch(one, i % row.copies));
    return absl::OkStatus();
  };
  ABSL_RETURN_IF_ERROR(graph.Capture(stream_.get(), enqueue));
  for (int i = 0; i < kGraphWarmups; ++i) ABSL_RETURN_IF_ERROR(graph.Launch(stream_.get()));
  std::vector<double> times;
  const Clock clock;
  for (int i = 0; i < 21; ++i) {
    if (i >= 3 && clock.seconds() > options_.seconds) break;
    ABSL_RETURN_IF_ERROR(Poison(one.shape));
    ABSL_ASSIGN_OR_RETURN(const double us,
                          stream_.Time([&] { return graph.Launch(stream_.get()); }));
    times.push_back(us / kCallsPerGraph);
  }
  row.graph_us = MedianOf(std::move(times));
  return absl::OkStatus();
}

absl::StatusOr<SelectRow> SelectRunner::CheckAndTime(const SelectCase& one) {
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
  ABSL_ASSIGN_OR_RETURN(const uint64_t after, oracle_->Hash(one.shape, BuffersOf(one.shape, 0)));
  ABSL_RETURN_IF_ERROR(CheckHash(one, after, "after many calls"));
  if (!options_.graph || row.us > kSlowUs) return row;
  ABSL_RETURN_IF_ERROR(TimeGraph(one, row));
  ABSL_ASSIGN_OR_RETURN(const uint64_t last, oracle_->Hash(one.shape, BuffersOf(one.shape, 0)));
  ABSL_RETURN_IF_ERROR(CheckHash(one, last, "after graphs"));
  return row;
}

absl::StatusOr<SelectRow> SelectRunner::Run(const SelectCase& one) {
  absl::StatusOr<SelectRow> row = CheckAndTime(one);
  if (row.ok() || !absl::IsDataLoss(row.status())) return row;
  // The next case must not see what a wrong call left in the workspace.
  if (one.algorithm != kSelectBlockBubble) ABSL_RETURN_IF_ERROR(InitWorkspace());
  return row;
}

}  // namespace nearfield::bench
