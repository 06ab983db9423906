// Ragged rows against a rectangle with the same number of scores, for every selection algorithm:
// lengths are drawn between 1,024 and 131,072, the same number for each octave. Compares rows with
// the oracle first. Times 20 calls in a graph, in turn. Prints one line "NEARFIELD_BENCH_JSON
// {...}" per case with --json, else a table.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "nearfield/engine/select.h"
#include "tests/bench/fail.h"
#include "tests/bench/options.h"
#include "tests/bench/published/selector.h"
#include "tests/bench/select_input.h"
#include "tests/bench/timed_case.h"
#include "tests/engine/topk/kit/select_cuda.h"
#include "tests/engine/topk/kit/select_oracle.h"
#include "tests/testing/random.h"

namespace nearfield::bench {
namespace {

using select::DeviceMemory;

constexpr int64_t kShortest = 1024;
constexpr int64_t kLongest = 131'072;
constexpr int kCallsPerGraph = 20;
constexpr int kWarmups = 2;
constexpr int kRuns = 13;     // of a graph, the warm-ups included
constexpr int kSlowRuns = 3;  // if a call takes more than kSlowUs
constexpr double kSlowUs = 2000;
constexpr int64_t kRowsChecked = 8;

struct Config {
  std::vector<int64_t> batches = {8, 16, 64, 128, 256, 1024};
  std::vector<int64_t> ks = {64, 2048};
  std::vector<std::string> algorithms;
  uint64_t seed = 1;
  bool json = false;
  bool tiny = false;
};

// Device memory of one batch of rows, and the captured calls over it.
class Timed {
 public:
  Timed(const select::Selector& selector, const select::TimedStream& stream)
      : selector_(selector), stream_(stream) {}

  // lengths: empty for a rectangle.
  absl::Status Prepare(const select::Shape& shape, const std::string& algorithm, const void* scores,
                       int64_t stride, const std::vector<int32_t>& lengths) {
    shape_ = shape;
    ABSL_ASSIGN_OR_RETURN(const int64_t bytes, selector_.WorkspaceBytes(shape, algorithm));
    ABSL_RETURN_IF_ERROR(workspace_.Allocate(bytes));
    ABSL_RETURN_IF_ERROR(values_.Allocate(shape.batch * shape.k * 4));
    ABSL_RETURN_IF_ERROR(indices_.Allocate(shape.batch * shape.k * 4));
    select::Buffers buffers = {.scores = scores,
                               .stride = stride,
                               .values = values_.as<void>(),
                               .indices = indices_.as<uint32_t>(),
                               .workspace = workspace_.as<void>(),
                               .workspace_bytes = bytes};
    if (!lengths.empty()) {
      ABSL_RETURN_IF_ERROR(lengths_.Allocate(static_cast<int64_t>(lengths.size() * 4)));
      ABSL_RETURN_IF_ERROR(select::CheckCuda(cudaMemcpy(lengths_.as<void>(), lengths.data(),
                                                        lengths.size() * 4, cudaMemcpyHostToDevice),
                                             "cudaMemcpy"));
      buffers.row_end = lengths_.as<int32_t>();
    }
    ABSL_RETURN_IF_ERROR(selector_.InitWorkspace(buffers.workspace, bytes, stream_.get()));
    return graph_.Capture(stream_.get(), cudaStreamCaptureModeThreadLocal, [&] {
      for (int i = 0; i < kCallsPerGraph; ++i) {
        ABSL_RETURN_IF_ERROR(selector_.Run(shape, buffers, stream_.get(), algorithm));
      }
      return absl::OkStatus();
    });
  }

  // Returns the microseconds of a call.
  absl::StatusOr<double> Time() const {
    ABSL_ASSIGN_OR_RETURN(const double us,
                          stream_.Time([&] { return graph_.Launch(stream_.get()); }));
    return us / kCallsPerGraph;
  }

  // Compares some rows of the last call with the oracle.
  absl::Status Check(const float* scores, int64_t stride,
                     const std::vector<int32_t>& lengths) const {
    const int64_t step = std::max<int64_t>(shape_.batch / kRowsChecked, 1);
    for (int64_t row = 0; row < shape_.batch; row += step) {
      const int64_t n = lengths.empty() ? shape_.n : lengths[static_cast<size_t>(row)];
      const int64_t k = std::min(shape_.k, n);
      ABSL_ASSIGN_OR_RETURN(const std::vector<float> host,
                            select::Download(scores + row * stride, n, stream_.get()));
      select::Answer got;
      ABSL_ASSIGN_OR_RETURN(
          got.values, select::Download(values_.as<uint32_t>() + row * shape_.k, k, stream_.get()));
      ABSL_ASSIGN_OR_RETURN(got.indices, select::Download(indices_.as<uint32_t>() + row * shape_.k,
                                                          k, stream_.get()));
      select::Shape alone = shape_;
      alone.k = k;
      ABSL_RETURN_IF_ERROR(Compare(alone, select::SelectRow(shape_.type, host.data(), n, k), got));
    }
    return absl::OkStatus();
  }

 private:
  const select::Selector& selector_;
  const select::TimedStream& stream_;
  select::Shape shape_;
  DeviceMemory workspace_;
  DeviceMemory values_;
  DeviceMemory indices_;
  DeviceMemory lengths_;
  select::Graph graph_;
};

double MedianOf(std::vector<double> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::vector<int32_t> Lengths(int64_t batch, testing::Random& random) {
  std::vector<int32_t> lengths;
  const double octaves = std::log2(static_cast<double>(kLongest) / kShortest);
  for (int64_t row = 0; row < batch; ++row) {
    lengths.push_back(static_cast<int32_t>(kShortest * std::exp2(octaves * random.Unit())));
  }
  return lengths;
}

struct Times {
  double ragged_us = 0;
  double rectangle_us = 0;
};

absl::StatusOr<Times> RunCase(const select::Selector& selector, const select::TimedStream& stream,
                              const std::string& algorithm, const select::Shape& ragged,
                              const std::vector<int32_t>& lengths, const float* scores) {
  select::Shape rectangle = ragged;
  rectangle.ragged = false;
  rectangle.n = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) / ragged.batch;
  Timed first(selector, stream);
  Timed second(selector, stream);
  ABSL_RETURN_IF_ERROR(first.Prepare(ragged, algorithm, scores, kLongest, lengths));
  ABSL_RETURN_IF_ERROR(second.Prepare(rectangle, algorithm, scores, rectangle.n, {}));
  std::vector<double> ragged_us;
  std::vector<double> rectangle_us;
  int runs = kRuns;
  for (int run = 0; run < runs; ++run) {
    ABSL_ASSIGN_OR_RETURN(const double one, first.Time());
    ABSL_ASSIGN_OR_RETURN(const double other, second.Time());
    if (one > kSlowUs) runs = kSlowRuns;
    if (run < kWarmups) continue;
    ragged_us.push_back(one);
    rectangle_us.push_back(other);
  }
  ABSL_RETURN_IF_ERROR(first.Check(scores, kLongest, lengths));
  ABSL_RETURN_IF_ERROR(second.Check(scores, rectangle.n, {}));
  return Times{MedianOf(std::move(ragged_us)), MedianOf(std::move(rectangle_us))};
}

absl::Status Run(const Config& config) {
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<select::Selector> selector,
                        gpu::published::CreateSelector({.device = 0}));
  select::TimedStream stream;
  ABSL_RETURN_IF_ERROR(stream.Create());
  const int64_t most = *std::max_element(config.batches.begin(), config.batches.end());
  DeviceMemory scores;
  ABSL_RETURN_IF_ERROR(scores.Allocate(most * kLongest * 4));
  TimedCase fill;
  fill.shape = {.batch = most, .n = kLongest, .k = 1};
  ABSL_RETURN_IF_ERROR(FillScores(fill, config.seed, scores.as<void>(), stream.get()));
  std::vector<std::string> names = config.algorithms;
  if (names.empty()) {
    for (const select::AlgorithmInfo& info : selector->Algorithms()) names.push_back(info.name);
  }
  testing::Random random(config.seed);
  for (const int64_t batch : config.batches) {
    const std::vector<int32_t> lengths = Lengths(batch, random);
    const int64_t total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    for (const int64_t k : config.ks) {
      const select::Shape shape = {.batch = batch, .n = kLongest, .k = k, .ragged = true};
      for (const std::string& name : names) {
        select::Shape rectangle = shape;
        rectangle.ragged = false;
        rectangle.n = total / batch;
        if (!selector->Supports(shape, name).ok() || k > rectangle.n) continue;
        if (!selector->Supports(rectangle, name).ok()) continue;
        ABSL_ASSIGN_OR_RETURN(const Times times,
                              RunCase(*selector, stream, name, shape, lengths, scores.as<float>()));
        std::printf(
            config.json ? "NEARFIELD_BENCH_JSON {\"bench\":\"ragged\",\"name\":\"%s\","
                          "\"batch\":%lld,\"k\":%lld,\"scores\":%lld,\"graph_us\":%.2f,"
                          "\"rectangle_graph_us\":%.2f,\"ratio\":%.3f,\"seed\":%llu,"
                          "\"matches_oracle\":true}\n"
                        : "%-20s batch %5lld k %5lld scores %10lld ragged %9.2f us rectangle %9.2f "
                          "us ratio %.3f seed %llu\n",
            name.c_str(), static_cast<long long>(batch), static_cast<long long>(k),
            static_cast<long long>(total), times.ragged_us, times.rectangle_us,
            times.ragged_us / times.rectangle_us, static_cast<unsigned long long>(config.seed));
        std::fflush(stdout);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("ragged_bench: ragged rows against a rectangle with the same number of scores");
  nearfield::bench::Config config;
  nearfield::bench::AddTiny(app, [&] {
    config.tiny = true;
    config.batches = {3, 140};
    config.ks = {64};
  });
  app.add_option("--batch", config.batches, "numbers of rows")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--k", config.ks, "results of a row")->delimiter(',')->capture_default_str();
  app.add_option("--algorithm", config.algorithms, "default: all")->delimiter(',');
  app.add_option("--seed", config.seed, "of lengths and scores")->capture_default_str();
  app.add_flag("--json", config.json, "one JSON row per case, marked as the campaign reads it");
  CLI11_PARSE(app, argc, argv);
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices);
      error != cudaSuccess || devices == 0) {
    std::printf("ragged_bench: skipped, no GPU: %s\n", cudaGetErrorString(error));
    return config.tiny ? 0 : 3;
  }
  return nearfield::bench::ExitCode(nearfield::bench::Run(config));
}
