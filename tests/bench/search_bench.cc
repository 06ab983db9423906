// Compares the GPU-resident path with a CPU round trip in one process: exact search, host to host,
// one query, dot product, fp32 rows.
//   GPU-resident:   query to the device, search, results back.
//   CPU round trip: query from device memory to the host, CPU scan and selection in the same order,
//   results back to the device.
//   block_bubble:   the first version of this service, as a baseline.
// Before it times anything, it compares ids and score bits of all paths, and one answer with the
// oracle; it stops at a difference. Prints one line "NEARFIELD_BENCH_JSON {...}" per configuration.
// The predicted time is bytes / --read-tb-s.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"
#include "nearfield/engine/engine.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/bench_engine.h"
#include "tests/bench/fail.h"
#include "tests/bench/options.h"
#include "tests/bench/round_trip.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

struct Config {
  std::vector<int64_t> rows_counts = {10'000, 50'000, 100'000, 500'000, 1'000'000};
  std::vector<int32_t> dims = {384, 768, 1024};
  std::vector<int32_t> ks = {8, 32, 100};
  uint64_t seed = 1;
  int32_t threads = 0;
  double read_tb_s = 4.53;  // measured streaming read of the GPU, for the limit
  bool block_bubble = true;
  Repeats repeats;
};

constexpr int kQueries = 16;  // rotated, so that no run repeats the previous query

// One engine, with the first rows of the data as a collection.
struct Side {
  std::unique_ptr<Engine> engine;
  std::shared_ptr<Collection> collection;
};

absl::Status Fill(Side& side, const RowSource& source, int64_t rows_count) {
  side.collection.reset();  // gives its memory back before the next one takes any
  const CollectionSpec spec = {.dim = source.dim(), .metric = Metric::kDot};
  ABSL_ASSIGN_OR_RETURN(side.collection, FillCollection(*side.engine, spec, source, rows_count));
  return absl::OkStatus();
}

absl::StatusOr<SearchResult> Search(Side& side, absl::Span<const float> query, int32_t k) {
  SearchBatch batch;
  batch.queries.push_back({.vector = query, .k = k});
  return side.engine->Search(*side.collection, batch);
}

// FNV-1a over ids and score bits: equal answers have equal hashes.
uint64_t Hash(uint64_t hash, const Neighbors& neighbors) {
  const auto mix = [&hash](uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  for (size_t i = 0; i < neighbors.scores.size(); ++i) {
    mix(neighbors.ids.number(static_cast<int64_t>(i)));
    uint32_t bits = 0;
    std::memcpy(&bits, &neighbors.scores[i], sizeof(bits));
    mix(bits);
  }
  return hash;
}

// One (N, D), with both sides filled, for all k.
class Case {
 public:
  Case(const Config& config, int64_t rows_count, const RowSource& source)
      : config_(config), rows_count_(rows_count), dim_(source.dim()), source_(source) {
    queries_ = GaussianRows(kQueries, dim_, config.seed + 1'000'003);
  }

  absl::Status Run(Side* gpu, Side& cpu, RoundTrip* round_trip, BlockBubbleBaseline* bubble) {
    gpu_ = gpu;
    cpu_ = &cpu;
    round_trip_ = round_trip;
    bubble_ = bubble;
    ABSL_RETURN_IF_ERROR(Fill(cpu, source_, rows_count_));
    if (gpu_ != nullptr) ABSL_RETURN_IF_ERROR(Fill(*gpu_, source_, rows_count_));
    for (const int32_t k : config_.ks) ABSL_RETURN_IF_ERROR(RunK(k));
    return absl::OkStatus();
  }

 private:
  absl::Span<const float> QueryAt(int i) const {
    return absl::MakeConstSpan(queries_.data() + static_cast<int64_t>(i % kQueries) * dim_,
                               static_cast<size_t>(dim_));
  }

  // Compares every query on every path, and one with the oracle. Returns the hash of all answers.
  absl::StatusOr<uint64_t> Compare(int32_t k) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < kQueries; ++i) {
      ABSL_ASSIGN_OR_RETURN(SearchResult expected, Search(*cpu_, QueryAt(i), k));
      hash = Hash(hash, expected.queries[0]);
      if (i == 0) {
        ABSL_ASSIGN_OR_RETURN(const VerifyResult verdict,
                              cpu_->engine->Verify(*cpu_->collection,
                                                   {.query = {.vector = QueryAt(i), .k = k},
                                                    .neighbors = expected.queries[0],
                                                    .epoch = expected.epoch},
                                                   nullptr));
        if (!verdict.equal)
          return absl::DataLossError(absl::StrCat("oracle: ", verdict.explanation));
      }
      if (gpu_ == nullptr) continue;
      ABSL_ASSIGN_OR_RETURN(const SearchResult got, Search(*gpu_, QueryAt(i), k));
      if (!SameBits(got.queries[0], expected.queries[0]))
        return absl::DataLossError("GPU and CPU answers differ");
      if (bubble_ == nullptr || i > 0) continue;
      ABSL_ASSIGN_OR_RETURN(const Neighbors first, bubble_->Search(QueryAt(i), rows_count_, k));
      if (!SameBits(first, expected.queries[0]))
        return absl::DataLossError("block_bubble and CPU answers differ");
    }
    return hash;
  }

  absl::Status RunK(int32_t k) {
    ABSL_ASSIGN_OR_RETURN(const uint64_t hash, Compare(k));
    absl::Status status;
    const auto keep = [&status](const absl::Status& s) {
      if (!s.ok()) status = s;
    };
    const Timing cpu = MedianOf(config_.repeats, [&](int i) { keep(CpuRoundTrip(i, k)); });
    double bytes = static_cast<double>(rows_count_) * dim_ * 4;
    const char* path = "rows";
    if (gpu_ != nullptr) {
      ABSL_ASSIGN_OR_RETURN(const SearchResult one, Search(*gpu_, QueryAt(0), k));
      if (one.cost.precision == ScanPrecision::kInt8) {
        path = "int8";
        // Codes are padded to 128 bytes per row; each row also has a bound of 16 bytes.
        bytes = static_cast<double>(rows_count_) * ((dim_ + 127) / 128 * 128 + 16);
      }
    }
    std::string line = absl::StrFormat(
        R"({"bench":"search","metric":"dot","dtype":"fp32","batch":1,"n":%d,"dim":%d,"k":%d,"data":"gaussian","bytes":%.0f,)"
        R"("cpu_round_trip_us":%.1f,"cpu_p99_us":%.1f,"cpu":"%s")",
        rows_count_, dim_, k, bytes, cpu.median_us, cpu.p99_us, cpu_->engine->Info().device_name);
    if (gpu_ != nullptr) {
      const Timing gpu =
          MedianOf(config_.repeats, [&](int i) { keep(Search(*gpu_, QueryAt(i), k).status()); });
      const double limit_us = bytes / (config_.read_tb_s * 1e6);
      absl::StrAppendFormat(
          &line,
          R"(,"backend":"gpu","path":"%s","us":%.1f,"p99_us":%.1f,"limit_us":%.1f,"share_of_limit":%.3f,)"
          R"("speedup":%.2f)",
          path, gpu.median_us, gpu.p99_us, limit_us, limit_us / gpu.median_us,
          cpu.median_us / gpu.median_us);
    }
    if (bubble_ != nullptr) {
      const Repeats few = {.warmups = 1, .runs = 11, .seconds_max = 1};
      const Timing bubble =
          MedianOf(few, [&](int i) { keep(bubble_->Search(QueryAt(i), rows_count_, k).status()); });
      absl::StrAppendFormat(&line, R"(,"block_bubble_us":%.1f)", bubble.median_us);
    }
    ABSL_RETURN_IF_ERROR(status);
    std::printf("NEARFIELD_BENCH_JSON %s,\"hash\":\"%016llx\",\"matches_oracle\":true}\n",
                line.c_str(), static_cast<unsigned long long>(hash));
    std::fflush(stdout);
    return absl::OkStatus();
  }

  absl::Status CpuRoundTrip(int i, int32_t k) {
    if (round_trip_ == nullptr) return Search(*cpu_, QueryAt(i), k).status();
    ABSL_ASSIGN_OR_RETURN(const absl::Span<const float> query, round_trip_->QueryDown());
    ABSL_ASSIGN_OR_RETURN(const SearchResult result, Search(*cpu_, query, k));
    return round_trip_->ResultsUp(result.queries[0]);
  }

  const Config& config_;
  int64_t rows_count_;
  int32_t dim_;
  const RowSource& source_;
  std::vector<float> queries_;
  Side* gpu_ = nullptr;
  Side* cpu_ = nullptr;
  RoundTrip* round_trip_ = nullptr;
  BlockBubbleBaseline* bubble_ = nullptr;
};

absl::Status RunDim(const Config& config, int32_t dim) {
  const int64_t rows_max = *std::max_element(config.rows_counts.begin(), config.rows_counts.end());
  const std::vector<float> rows = GaussianRows(rows_max, dim, config.seed);
  const RowSource source(rows, dim, RowType::kFloat32);
  const int32_t k_max = *std::max_element(config.ks.begin(), config.ks.end());
  Side cpu;
  ABSL_ASSIGN_OR_RETURN(
      cpu.engine, Engine::Create({.backend = BackendChoice::kCpu, .threads = config.threads}));
  Side gpu;
  absl::StatusOr<std::unique_ptr<RoundTrip>> round_trip = MakeRoundTrip(dim, k_max);
  std::unique_ptr<BlockBubbleBaseline> bubble;
  if (round_trip.ok()) {
    // Room for the largest corpus: rows, codes and 128 bytes per row; plus slab rounding.
    const int64_t memory_bytes = rows_max * (dim * 5 + 128) + (int64_t{2} << 30);
    ABSL_ASSIGN_OR_RETURN(
        gpu.engine, Engine::Create({.backend = BackendChoice::kGpu, .memory_bytes = memory_bytes}));
    if (config.block_bubble) {
      ABSL_ASSIGN_OR_RETURN(bubble, MakeBlockBubbleBaseline(rows, dim));
    }
    const std::vector<float> query = GaussianRows(1, dim, config.seed + 1'000'003);
    ABSL_RETURN_IF_ERROR((*round_trip)->PlaceQuery(query));
  } else {
    std::printf("GPU path skipped: %s\n", std::string(round_trip.status().message()).c_str());
  }
  for (const int64_t rows_count : config.rows_counts) {
    Case one(config, rows_count, source);
    ABSL_RETURN_IF_ERROR(one.Run(round_trip.ok() ? &gpu : nullptr, cpu,
                                 round_trip.ok() ? round_trip->get() : nullptr, bubble.get()));
  }
  return absl::OkStatus();
}

void AddOptions(CLI::App& app, Config& config) {
  AddTiny(app, [&config] {
    config.rows_counts = {1'000, 3'000};
    config.dims = {33, 128};
    config.repeats = {.warmups = 1, .runs = 3, .seconds_max = 1};
  });
  AddPositive(app, "--n", config.rows_counts, "rows; with --dim and --k the grid");
  AddPositive(app, "--dim", config.dims);
  AddPositive(app, "--k", config.ks);
  app.add_option("--threads", config.threads, "of the CPU backend; 0: all cores");
  app.add_option("--read-tb-s", config.read_tb_s,
                 "measured streaming read of the GPU, for the limit")
      ->capture_default_str();
  app.add_flag("!--no-block-bubble", config.block_bubble, "leave the baseline out");
}

absl::Status Run(const Config& config) {
  for (const int32_t dim : config.dims) ABSL_RETURN_IF_ERROR(RunDim(config, dim));
  return absl::OkStatus();
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("search_bench: exact search, GPU-resident and as a CPU round trip");
  nearfield::bench::Config config;
  nearfield::bench::AddOptions(app, config);
  CLI11_PARSE(app, argc, argv);
  return nearfield::bench::ExitCode(nearfield::bench::Run(config));
}
