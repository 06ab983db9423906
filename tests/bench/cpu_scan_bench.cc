// The CPU backend's scan against the limits of the machine: memory for one query, multiply-adds for
// many.
//   cpu_scan_bench [--tiny] [--threads=1,2,...] [--instruction-set=AVX2] [--k=10] [--seconds=4]
//   [--case=<part of a case's name>]
// Every answer is compared with engine/score to the bit before its case is timed; a difference ends
// the run with 1.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/corpus/backend.h"
#include "engine/cpu/cpu_topk_engine.h"
#include "engine/cpu/scan_kernels.h"
#include "engine/cpu/thread_pool.h"
#include "engine/score/order.h"
#include "engine/score/row_types.h"
#include "engine/score/score.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/cpu_limits.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

struct Options {
  bool tiny = false;
  std::vector<int32_t> threads;
  std::string instruction_set;
  std::string case_part;
  int32_t k = 10;
  double seconds = 4;  // per case, at most
};

struct Shape {
  int64_t rows_count;
  int32_t dim;
  RowType row_type;
  Metric metric;
};

struct Limits {
  double read_bytes_per_s;
  double flops;
};

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "cpu_scan_bench: %s\n", message.c_str());
  std::exit(1);
}

const char* Name(RowType type) {
  return type == RowType::kFloat32 ? "fp32" : type == RowType::kFloat16 ? "fp16" : "bf16";
}
const char* Name(Metric metric) {
  return metric == Metric::kDot ? "dot" : metric == Metric::kL2 ? "l2" : "cosine";
}

// Rows in their stored type, and as the fp32 values they stand for.
struct Data {
  std::vector<float> values;
  std::vector<uint16_t> narrow;
  const void* stored = nullptr;
};

Data MakeData(const Shape& shape) {
  Data data;
  data.values = GaussianRows(shape.rows_count, shape.dim, /*seed=*/1);
  data.stored = data.values.data();
  if (shape.row_type == RowType::kFloat32) return data;
  data.narrow.resize(data.values.size());
  for (size_t i = 0; i < data.values.size(); ++i) {
    const bool half = shape.row_type == RowType::kFloat16;
    data.narrow[i] = half ? score::HalfBitsFromFloat(data.values[i])
                          : score::Bfloat16BitsFromFloat(data.values[i]);
    data.values[i] = half ? score::FloatFromHalfBits(data.narrow[i])
                          : score::FloatFromBfloat16Bits(data.narrow[i]);
  }
  data.stored = data.narrow.data();
  return data;
}

double Sum(bool product, const float* q, const float* x, int32_t dim) {
  double sums[score::kAccumulators] = {};
  for (int32_t d = 0; d < dim; ++d) {
    double& sum = sums[d % score::kAccumulators];
    sum = product ? score::DotStep(static_cast<double>(q[d]), static_cast<double>(x[d]), sum)
                  : score::L2Step(static_cast<double>(q[d]), static_cast<double>(x[d]), sum);
  }
  return score::ReduceAccumulators(sums);
}

// Rank equals slot in this benchmark.
std::vector<uint64_t> Expected(const Shape& shape, const Data& data, const float* query,
                               int32_t k) {
  const double query_square = Sum(true, query, query, shape.dim);
  std::vector<uint64_t> keys(static_cast<size_t>(shape.rows_count));
  for (int64_t r = 0; r < shape.rows_count; ++r) {
    const float* row = data.values.data() + r * shape.dim;
    const double sum = Sum(shape.metric != Metric::kL2, query, row, shape.dim);
    const float score = shape.metric == Metric::kDot ? score::DotScore(sum)
                        : shape.metric == Metric::kL2
                            ? score::L2Score(sum)
                            : score::CosineScore(sum, query_square, Sum(true, row, row, shape.dim));
    keys[static_cast<size_t>(r)] = score::OrderKey(score, static_cast<uint32_t>(r));
  }
  std::sort(keys.begin(), keys.end(), std::greater<>());
  keys.resize(std::min(keys.size(), static_cast<size_t>(k)));
  return keys;
}

void CheckAnswer(const std::vector<corpus::RankedScore>& got, const std::vector<uint64_t>& want) {
  bool same = got.size() == want.size();
  for (size_t i = 0; same && i < got.size(); ++i) {
    same = score::OrderKey(got[i].score, got[i].rank) == want[i];
  }
  if (!same) Fail("an answer differs from engine/score: not timed");
}

// A loaded backend of one thread count.
class Loaded {
 public:
  Loaded(const Shape& shape, const Data& data, int32_t threads, const Options& options)
      : format_{shape.dim, shape.metric, shape.row_type} {
    cpu::CpuOptions cpu_options;
    cpu_options.memory_bytes = int64_t{64} << 30;
    cpu_options.threads = threads;
    cpu_options.instruction_set = options.instruction_set;
    auto backend = cpu::MakeCpuTopkEngine(cpu_options);
    if (!backend.ok()) Fail(backend.status().ToString());
    backend_ = *std::move(backend);
    auto planes = backend_->Reserve(format_, shape.rows_count);
    if (!planes.ok()) Fail(planes.status().ToString());
    planes_ = *std::move(planes);
    std::vector<uint32_t> ranks(static_cast<size_t>(shape.rows_count));
    std::iota(ranks.begin(), ranks.end(), 0u);
    if (auto s = planes_->Append(data.stored, shape.rows_count); !s.ok()) Fail(s.ToString());
    if (auto s = planes_->Seal(ranks); !s.ok()) Fail(s.ToString());
    view_.planes = planes_.get();
    view_.rows_live = shape.rows_count;
  }

  corpus::BestRows Search(const std::vector<float>& queries, const std::vector<int32_t>& k) {
    corpus::QueryTile tile;
    tile.queries = queries.data();
    tile.k = k;
    auto best = backend_->Search(format_, {&view_, 1}, tile, &cost_);
    if (!best.ok()) Fail(best.status().ToString());
    return *std::move(best);
  }
  const corpus::ScanCost& cost() const { return cost_; }
  const std::string& device_name() const { return backend_->facts().device_name; }

 private:
  const corpus::RowFormat format_;
  std::unique_ptr<corpus::Backend> backend_;
  std::unique_ptr<corpus::RowPlanes> planes_;
  corpus::GenerationView view_;
  corpus::ScanCost cost_;
};

struct Case {
  Shape shape;
  int32_t batch;
  int32_t threads;
};

void PrintCase(const Case& c, const Timing& timing, const Limits& limits, const Loaded& loaded) {
  const double seconds = timing.median_us * 1e-6;
  const auto bytes = static_cast<double>(c.shape.rows_count * cpu::PaddedDim(c.shape.dim) *
                                         BytesPerElement(c.shape.row_type));
  const double flops = 2.0 * static_cast<double>(c.shape.rows_count * c.shape.dim * c.batch) *
                       (c.shape.metric == Metric::kL2 ? 1.5 : 1.0);
  const double predicted =
      std::max(bytes / limits.read_bytes_per_s, limits.flops > 0 ? flops / limits.flops : 0.0);
  std::printf("%8lld %5d %-4s %-6s %5d %7d %10.3f %10.3f %9.1f %7.1f %5.0f%% %8.1f %5.0f%% %9lld\n",
              static_cast<long long>(c.shape.rows_count), c.shape.dim, Name(c.shape.row_type),
              Name(c.shape.metric), c.batch, c.threads, predicted * 1e3, timing.median_us * 1e-3,
              c.batch / seconds, bytes / seconds * 1e-9,
              100 * bytes / seconds / limits.read_bytes_per_s, flops / seconds * 1e-9,
              limits.flops > 0 ? 100 * flops / seconds / limits.flops : 0.0,
              static_cast<long long>(loaded.cost().candidates));
  std::fflush(stdout);
}

void RunShape(const Shape& shape, const Options& options, const std::vector<Limits>& limits) {
  const std::vector<int32_t> batches =
      options.tiny ? std::vector<int32_t>{1, 5} : std::vector<int32_t>{1, 8, 64};
  const Data data = MakeData(shape);
  const std::vector<float> all_queries = GaussianRows(batches.back(), shape.dim, /*seed=*/2);
  const auto expected = [&](int32_t query) {
    return Expected(shape, data, all_queries.data() + int64_t{query} * shape.dim, options.k);
  };
  const std::vector<uint64_t> first_expected = expected(0);
  std::vector<std::vector<uint64_t>> last_expected;
  for (const int32_t batch : batches) last_expected.push_back(expected(batch - 1));
  for (size_t t = 0; t < options.threads.size(); ++t) {
    Loaded loaded(shape, data, options.threads[t], options);
    for (size_t b = 0; b < batches.size(); ++b) {
      const auto count = static_cast<size_t>(batches[b]);
      const std::vector<float> queries(
          all_queries.begin(), all_queries.begin() + static_cast<int64_t>(count) * shape.dim);
      const std::vector<int32_t> k(count, options.k);
      const corpus::BestRows best = loaded.Search(queries, k);
      CheckAnswer(best.front()[0], first_expected);
      CheckAnswer(best.back()[0], last_expected[b]);
      const Timing timing =
          MedianOf({.warmups = 2, .runs = options.tiny ? 11 : 51, .seconds_max = options.seconds},
                   [&](int) { loaded.Search(queries, k); });
      PrintCase({shape, batches[b], options.threads[t]}, timing, limits[t], loaded);
    }
  }
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::pair<std::string, std::string> flag =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    if (flag.first == "--tiny") {
      options.tiny = true;
    } else if (flag.first == "--threads") {
      for (const auto& part : absl::StrSplit(flag.second, ',')) {
        int32_t threads = 0;
        if (!absl::SimpleAtoi(part, &threads) || threads < 1) Fail("--threads: not a count");
        options.threads.push_back(threads);
      }
    } else if (flag.first == "--instruction-set") {
      options.instruction_set = flag.second;
    } else if (flag.first == "--case") {
      options.case_part = flag.second;
    } else if (flag.first == "--seconds" && absl::SimpleAtod(flag.second, &options.seconds)) {
      continue;
    } else if (flag.first == "--k" && absl::SimpleAtoi(flag.second, &options.k) && options.k >= 1 &&
               options.k <= kKMax) {
      continue;
    } else {
      Fail(absl::StrCat("unknown or wrong option ", argv[i]));
    }
  }
  if (options.threads.empty()) {
    const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
    options.threads = {1};
    if (cores > 1) options.threads.push_back(cores);
  }
  return options;
}

int Main(int argc, char** argv) {
  const Options options = Parse(argc, argv);
  std::vector<Shape> shapes = {
      {200'000, 384, RowType::kFloat32, Metric::kDot},
      {200'000, 384, RowType::kFloat16, Metric::kDot},
      {100'000, 768, RowType::kFloat32, Metric::kDot},
      {100'000, 768, RowType::kFloat16, Metric::kDot},
      {100'000, 768, RowType::kBFloat16, Metric::kDot},
      {100'000, 768, RowType::kFloat32, Metric::kCosine},
      {100'000, 768, RowType::kFloat32, Metric::kL2},
      {10'000, 384, RowType::kFloat32, Metric::kDot},
      {1'000, 384, RowType::kFloat32, Metric::kDot},
  };
  if (options.tiny) {
    shapes = {{3'000, 100, RowType::kFloat32, Metric::kDot},
              {500, 33, RowType::kBFloat16, Metric::kCosine},
              {700, 64, RowType::kFloat16, Metric::kL2}};
  }
  std::vector<Limits> limits;
  for (const int32_t threads : options.threads) {
    cpu::ThreadPool pool(threads);
    const int64_t bytes = options.tiny ? int64_t{16} << 20 : int64_t{1} << 30;
    limits.push_back({StreamingReadRate(pool, threads, bytes), MultiplyAddRate(pool, threads)});
    std::printf("limit with %d threads: read %.1f GB/s, fp64 multiply-add %.1f GFLOP/s\n", threads,
                limits.back().read_bytes_per_s * 1e-9, limits.back().flops * 1e-9);
  }
  std::printf("k = %d, instruction set %s\n", options.k,
              options.instruction_set.empty() ? cpu::CpuInstructionSets()[0].c_str()
                                              : options.instruction_set.c_str());
  std::printf("%8s %5s %-4s %-6s %5s %7s %10s %10s %9s %7s %6s %8s %6s %9s\n", "rows", "dim",
              "type", "metric", "batch", "threads", "predict ms", "median ms", "query/s", "GB/s",
              "read", "GFLOP/s", "fma", "kept");
  for (const Shape& shape : shapes) {
    const std::string name = absl::StrCat(shape.rows_count, "x", shape.dim, ",",
                                          Name(shape.row_type), ",", Name(shape.metric));
    if (absl::StrContains(name, options.case_part)) RunShape(shape, options, limits);
  }
  return 0;
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) { return nearfield::bench::Main(argc, argv); }
