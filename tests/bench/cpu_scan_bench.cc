// Compares the CPU backend's scan with the limits of the machine: memory for one query,
// multiply-adds for many.
// Compares every answer with engine/score to the bit before it times the case. Exits with 1 after a
// difference.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <istream>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/backend/backend.h"
#include "engine/base/thread_pool.h"
#include "engine/cpu/cpu_topk_engine.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/score/order.h"
#include "engine/score/row_types.h"
#include "engine/score/score.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/cpu_limits.h"
#include "tests/bench/fail.h"
#include "tests/bench/names.h"
#include "tests/bench/options.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

struct Shape {
  int64_t rows_count = 0;
  int32_t dim = 0;
  RowType row_type = RowType::kFloat32;
  Metric metric = Metric::kDot;
};

// Reads <rows>x<dim>.
std::istream& operator>>(std::istream& in, Shape& shape) {
  char times = 0;
  in >> shape.rows_count >> times >> shape.dim;
  if (times != 'x' || shape.rows_count < 1 || shape.dim < 1) in.setstate(std::ios::failbit);
  return in;
}

struct Options {
  bool tiny = false;
  std::vector<int32_t> threads;  // empty: 1, and all cores
  std::string instruction_set;
  std::string case_part;
  std::vector<ScanPrecision> paths = {ScanPrecision::kInt8, ScanPrecision::kRows};
  std::vector<int32_t> batches = {1, 8, 64};
  std::vector<Shape> shapes;
  std::string data = "gaussian";
  std::string dump;
  bool json = false;
  int32_t k = 10;
  double seconds = 4;
  int32_t busy = 0;
  int32_t runs = 51;
};

// Threads that compute all the time, as another process on the same cores does.
class BusyThreads {
 public:
  explicit BusyThreads(int32_t count) {
    for (int32_t i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!ending_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyThreads() {
    ending_.store(true);
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> ending_{false};
  std::vector<std::thread> threads_;
};

struct Limits {
  double read_bytes_per_s;
  double flops;
};

// Rows in their stored type, and the fp32 values that they represent.
struct Data {
  std::vector<float> values;
  std::vector<uint16_t> narrow;
  const void* stored = nullptr;
};

Data MakeData(const Shape& shape, const Options& options) {
  Data data;
  data.values = GaussianRows(shape.rows_count, shape.dim, /*seed=*/1);
  for (size_t i = static_cast<size_t>(shape.dim); options.data == "equal" && i < data.values.size();
       ++i) {
    data.values[i] = data.values[i - static_cast<size_t>(shape.dim)];
  }
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

// Returns the expected keys; in this benchmark the rank of a row is its slot.
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

void CheckAnswer(absl::Span<const backend::RankedScore> got, const std::vector<uint64_t>& want) {
  bool same = got.size() == want.size();
  for (size_t i = 0; same && i < got.size(); ++i) {
    same = score::OrderKey(got[i].score, got[i].rank) == want[i];
  }
  if (!same) Fail("an answer differs from engine/score: not timed");
}

// A backend with loaded rows, for one number of threads.
class Loaded {
 public:
  Loaded(const Shape& shape, const Data& data, int32_t threads, ScanPrecision path,
         const Options& options)
      : format_{shape.dim, shape.metric, shape.row_type, path} {
    backend_ = OrFail(cpu::MakeCpuTopkEngine({.memory_bytes = int64_t{64} << 30,
                                              .threads = threads,
                                              .instruction_set = options.instruction_set}));
    planes_ = OrFail(backend_->Reserve(format_, shape.rows_count));
    std::vector<uint32_t> ranks(static_cast<size_t>(shape.rows_count));
    std::iota(ranks.begin(), ranks.end(), 0u);
    const auto start = std::chrono::steady_clock::now();
    OrFail(planes_->Append(data.stored, shape.rows_count));
    append_seconds_ = SecondsSince(start);
    OrFail(planes_->Seal({.ranks = ranks}));
    view_.planes = planes_.get();
    view_.rows_live = shape.rows_count;
  }

  // Returns the lists of the search, valid until the next one.
  const backend::RankedLists& Search(const std::vector<float>& queries,
                                     const std::vector<int32_t>& k) {
    const backend::QueryTile tile = {.queries = queries.data(), .k = k};
    OrFail(backend_->Search(format_, {&view_, 1}, tile, &best_, &cost_));
    return best_;
  }
  const backend::ScanCost& cost() const { return cost_; }
  double append_seconds() const { return append_seconds_; }
  const std::string& device_name() const { return backend_->info().device_name; }

 private:
  const backend::RowFormat format_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<backend::RowPlanes> planes_;
  backend::GenerationView view_;
  backend::RankedLists best_;
  backend::ScanCost cost_;
  double append_seconds_ = 0;
};

struct Case {
  const Options& options;
  Shape shape;
  int32_t batch;
  int32_t threads;
  ScanPrecision path;
};

int64_t RowBytes(const Case& c) {
  if (c.path == ScanPrecision::kInt8) {
    return cpu::CodeStride(c.shape.dim) + static_cast<int64_t>(sizeof(bound::RowBound));
  }
  return int64_t{cpu::PaddedDim(c.shape.dim)} * BytesPerElement(c.shape.row_type);
}

// Returns the minimum time of the path: the time to read codes or rows from memory, or to do fp64
// multiply-adds.
double PredictedSeconds(const Case& c, const Limits& limits) {
  const double read =
      static_cast<double>(c.shape.rows_count * RowBytes(c)) / limits.read_bytes_per_s;
  if (c.path != ScanPrecision::kRows || limits.flops <= 0) return read;
  const double flops = 2.0 * static_cast<double>(c.shape.rows_count * c.shape.dim * c.batch) *
                       (c.shape.metric == Metric::kL2 ? 1.5 : 1.0);
  return std::max(read, flops / limits.flops);
}

void PrintCase(const Case& c, const Timing& timing, const Limits& limits, const Loaded& loaded) {
  const double limit_us = PredictedSeconds(c, limits) * 1e6;
  std::printf(
      "%8lld %5d %-4s %-6s %-4s %5d %7d %10.3f %10.3f %8.3f %9.1f %6.0f%% %9lld %6lld %8.2f\n",
      static_cast<long long>(c.shape.rows_count), c.shape.dim, Name(c.shape.row_type),
      Name(c.shape.metric), Name(c.path), c.batch, c.threads, limit_us * 1e-3,
      timing.median_us * 1e-3, timing.p99_us * 1e-3, c.batch / timing.median_us * 1e6,
      100 * limit_us / timing.median_us, static_cast<long long>(loaded.cost().candidates),
      static_cast<long long>(loaded.cost().escalations.canonical),
      static_cast<double>(c.shape.rows_count * c.shape.dim) * BytesPerElement(c.shape.row_type) *
          1e-9 / loaded.append_seconds());
  if (c.options.json) {
    std::printf(
        "NEARFIELD_BENCH_JSON {\"bench\": \"search\", \"backend\": \"cpu\", \"path\": \"%s\", "
        "\"metric\": \"%s\", \"dtype\": \"%s\", \"batch\": %d, \"n\": %lld, \"dim\": %d, \"k\": "
        "%d, "
        "\"threads\": %d, \"instruction_set\": \"%s\", \"data\": \"%s\", \"us\": %.1f, "
        "\"p99_us\": %.1f, \"busy\": %d, \"limit_us\": %.1f, \"candidates\": %lld, "
        "\"matches_oracle\": true}\n",
        Name(c.path), Name(c.shape.metric), Name(c.shape.row_type), c.batch,
        static_cast<long long>(c.shape.rows_count), c.shape.dim, c.options.k, c.threads,
        loaded.device_name().c_str(), c.options.data.c_str(), timing.median_us, timing.p99_us,
        c.options.busy, limit_us, static_cast<long long>(loaded.cost().candidates));
  }
  std::fflush(stdout);
}

void WriteFloats(const std::string& path, const std::vector<float>& values) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  const bool written = file != nullptr && std::fwrite(values.data(), sizeof(float), values.size(),
                                                      file) == values.size();
  if (!written || std::fclose(file) != 0) Fail(absl::StrCat("cannot write ", path));
}

// Writes <rows>x<dim>.rows and .queries, little-endian fp32: the data that RunShape times.
void DumpShape(const Shape& shape, const Options& options) {
  if (shape.row_type != RowType::kFloat32) return;
  const int32_t batch_max = *std::max_element(options.batches.begin(), options.batches.end());
  const std::string stem = absl::StrCat(options.dump, "/", shape.rows_count, "x", shape.dim);
  WriteFloats(stem + ".rows", MakeData(shape, options).values);
  WriteFloats(stem + ".queries", GaussianRows(batch_max, shape.dim, /*seed=*/2));
}

void RunShape(const Shape& shape, const Options& options, const std::vector<Limits>& limits) {
  const std::vector<int32_t>& batches = options.batches;
  const int32_t batch_max = *std::max_element(batches.begin(), batches.end());
  const Data data = MakeData(shape, options);
  const std::vector<float> all_queries = GaussianRows(batch_max, shape.dim, /*seed=*/2);
  std::vector<std::vector<uint64_t>> expected;  // for every query that is checked
  for (int32_t query = 0; query < batch_max; ++query) {
    const bool checked = query == 0 || std::count(batches.begin(), batches.end(), query + 1) > 0;
    expected.push_back(
        checked ? Expected(shape, data, all_queries.data() + int64_t{query} * shape.dim, options.k)
                : std::vector<uint64_t>());
  }
  for (size_t t = 0; t < options.threads.size(); ++t) {
    for (const ScanPrecision path : options.paths) {
      Loaded loaded(shape, data, options.threads[t], path, options);
      for (const int32_t batch : batches) {
        const auto count = static_cast<size_t>(batch);
        const std::vector<float> queries(all_queries.begin(),
                                         all_queries.begin() + int64_t{batch} * shape.dim);
        const std::vector<int32_t> k(count, options.k);
        const backend::RankedLists& best = loaded.Search(queries, k);
        CheckAnswer(best.list(0, 0), expected.front());
        CheckAnswer(best.list(count - 1, 0), expected[count - 1]);
        const Timing timing = MedianOf({.warmups = 2,
                                        .runs = options.tiny ? 11 : options.runs,
                                        .seconds_max = options.seconds},
                                       [&](int) { loaded.Search(queries, k); });
        PrintCase({options, shape, batch, options.threads[t], path}, timing, limits[t], loaded);
      }
    }
  }
}

void AddOptions(CLI::App& app, Options& options) {
  AddTiny(app, [&options] {
    options.tiny = true;
    options.batches = {1, 5};
  });
  AddPositive(app, "--threads", options.threads, "default: 1, and all cores");
  app.add_option("--instruction-set", options.instruction_set,
                 "such as AVX2; default: the fastest");
  AddPositive(app, "--k", options.k)->check(CLI::Range(1, kKMax));
  app.add_option("--seconds", options.seconds, "maximum per case")->capture_default_str();
  app.add_option("--case", options.case_part, "only cases whose name contains this");
  AddNamed(app, "--path", options.paths, kScanNames);
  AddPositive(app, "--batch", options.batches);
  AddPositive(app, "--runs", options.runs);
  app.add_option("--busy", options.busy, "threads that compute meanwhile: p99 on shared cores");
  app.add_flag("--json", options.json, "also prints a JSON line for scripts/cpu_campaign per case");
  app.add_option("--shape", options.shapes, "<rows>x<dim>: fp32, dot, in place of the list")
      ->delimiter(',');
  app.add_option("--data", options.data, "equal: equal rows, which no bound can exclude")
      ->check(CLI::IsMember({"gaussian", "equal"}))
      ->capture_default_str();
  app.add_option("--dump", options.dump,
                 "only writes rows and queries of the fp32 shapes to this folder, for a peer");
}

int Run(const Options& options) {
  std::vector<Shape> shapes = {
      {200'000, 384, RowType::kFloat32, Metric::kDot},
      {200'000, 384, RowType::kFloat16, Metric::kDot},
      {200'000, 1024, RowType::kFloat32, Metric::kDot},
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
  if (!options.shapes.empty()) shapes = options.shapes;
  if (!options.dump.empty()) {
    for (const Shape& shape : shapes) DumpShape(shape, options);
    return 0;
  }
  std::vector<Limits> limits;
  for (const int32_t threads : options.threads) {
    ThreadPool pool(threads);
    const int64_t bytes = options.tiny ? int64_t{16} << 20 : int64_t{1} << 30;
    limits.push_back({StreamingReadRate(pool, threads, bytes), MultiplyAddRate(pool, threads)});
    std::printf("limit with %d threads: read %.1f GB/s, fp64 multiply-add %.1f GFLOP/s\n", threads,
                limits.back().read_bytes_per_s * 1e-9, limits.back().flops * 1e-9);
  }
  std::printf("k = %d, instruction set %s\n", options.k,
              options.instruction_set.empty() ? cpu::CpuInstructionSets()[0].c_str()
                                              : options.instruction_set.c_str());
  std::printf("%8s %5s %-4s %-6s %-4s %5s %7s %10s %10s %8s %9s %7s %9s %6s %8s\n", "rows", "dim",
              "type", "metric", "path", "batch", "threads", "limit ms", "median ms", "p99 ms",
              "query/s", "limit", "scored", "by row", "in GB/s");
  const BusyThreads busy(options.busy);
  for (const Shape& shape : shapes) {
    const std::string name = absl::StrCat(shape.rows_count, "x", shape.dim, ",",
                                          Name(shape.row_type), ",", Name(shape.metric));
    if (absl::StrContains(name, options.case_part)) RunShape(shape, options, limits);
  }
  return 0;
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("cpu_scan_bench: the scan of the CPU backend, and the limits of the machine");
  nearfield::bench::Options options;
  nearfield::bench::AddOptions(app, options);
  CLI11_PARSE(app, argc, argv);
  if (options.threads.empty()) {
    const auto cores = static_cast<int32_t>(std::thread::hardware_concurrency());
    options.threads = {1};
    if (cores > 1) options.threads.push_back(cores);
  }
  return nearfield::bench::Run(options);
}
