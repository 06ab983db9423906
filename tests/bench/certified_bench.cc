// Compares the certified scan with the scan of exact rows, host to host, on one backend. Runs
// single queries and batches, over data that is easy and data that is hard for codes. Before it
// times anything, it compares ids and score bits of both paths for every query, and the first
// answer with the oracle; it stops at a difference. Prints one line "NEARFIELD_BENCH_JSON {...}"
// per configuration.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "nearfield/engine/engine.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/bench_engine.h"
#include "tests/bench/precision_name.h"
#include "tests/bench/real_corpus.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

struct Config {
  std::vector<int64_t> rows_counts = {1'000'000};
  std::vector<int32_t> dims = {1024};
  std::vector<int32_t> ks = {10, 100};
  std::vector<int32_t> batches = {1};
  std::vector<DataKind> kinds = {DataKind::kGaussian};
  std::string real;  // folder of a real corpus, which replaces kinds and dims
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  RowPlacement home = RowPlacement::kDevice;  // placement of the rows that have codes
  BackendChoice backend = BackendChoice::kAuto;
  int32_t threads = 0;
  double read_tb_s = 4.53;  // measured streaming read of the device, for the limit
  bool rows = true;         // also time the scan of exact rows
  Repeats repeats = {.warmups = 3, .runs = 51, .seconds_max = 2};
};

constexpr std::array<const char*, 3> kKindNames = {"gaussian", "clustered", "outliers"};
constexpr std::array<const char*, 3> kMetricNames = {"dot", "cosine", "l2"};
constexpr std::array<const char*, 3> kTypeNames = {"fp32", "fp16", "bf16"};
constexpr std::array<const char*, 2> kHomeNames = {"device", "host"};
// Further rows are rotations of these.
constexpr int64_t kBaseRowsMax = 1'000'000;
// Maximum number of rows that the oracle reads back and scores on one core in well under a minute.
constexpr int64_t kOracleRowsMax = 20'000'000;

using bench::Name;
const char* Name(DataKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

// Searches of one corpus.
struct Queries {
  const char* data = nullptr;  // name of the corpus
  std::vector<float> vectors;  // [count, dim]
};

// One corpus, stored twice: with codes and without.
class Case {
 public:
  Case(const Config& config, Engine& engine, const Queries& queries, const RowSource& source)
      : config_(config),
        engine_(engine),
        source_(source),
        dim_(source.dim()),
        queries_count_(static_cast<int64_t>(queries.vectors.size()) / source.dim()),
        queries_(queries) {}

  absl::Status Run(int64_t rows_count) {
    rows_count_ = rows_count;
    CollectionSpec spec = {.dim = dim_, .metric = config_.metric, .row_type = source_.row_type()};
    spec.scan = ScanChoice::kInt8;
    spec.rows = config_.home;
    const auto begin = std::chrono::steady_clock::now();
    ABSL_ASSIGN_OR_RETURN(codes_, FillCollection(engine_, spec, source_, rows_count));
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const double row_gb = static_cast<double>(rows_count * source_.row_bytes()) * 1e-9;
    std::printf("filled %d x %d in %.2f s, %.2f GB/s\n", static_cast<int>(rows_count_), dim_,
                taken.count(), row_gb / taken.count());
    std::fflush(stdout);
    spec.scan = ScanChoice::kRows;
    spec.rows = RowPlacement::kDevice;
    ABSL_ASSIGN_OR_RETURN(exact_, FillCollection(engine_, spec, source_, rows_count));
    for (const int32_t batch : config_.batches) {
      for (const int32_t k : config_.ks) ABSL_RETURN_IF_ERROR(RunBatch(batch, k));
    }
    return absl::OkStatus();
  }

 private:
  SearchBatch BatchAt(int64_t first, int32_t count, int32_t k) const {
    SearchBatch batch;
    for (int32_t i = 0; i < count; ++i) {
      const int64_t query = (first + i) % queries_count_;
      batch.queries.push_back({.vector = absl::MakeConstSpan(queries_.vectors.data() + query * dim_,
                                                             static_cast<size_t>(dim_)),
                               .k = k});
    }
    return batch;
  }

  // Compares every query on both paths, and the first with the oracle if that takes seconds only.
  absl::StatusOr<SearchCost> Compare(int32_t batch, int32_t k) {
    SearchCost sum;
    int64_t searches = 0;
    for (int64_t first = 0; first < std::max(batch, 16); first += batch, ++searches) {
      const SearchBatch asked = BatchAt(first, batch, k);
      ABSL_ASSIGN_OR_RETURN(const SearchResult got, engine_.Search(*codes_, asked));
      ABSL_ASSIGN_OR_RETURN(const SearchResult want, engine_.Search(*exact_, asked));
      for (int32_t i = 0; i < batch; ++i) {
        if (!SameBits(got.queries[i], want.queries[i])) {
          return absl::DataLossError(absl::StrCat("query ", first + i, ": the paths differ"));
        }
      }
      sum.candidates += got.cost.candidates;
      sum.bytes_read = got.cost.bytes_read;
      sum.escalations += got.cost.escalations;
      sum.precision = got.cost.precision;
      if (first > 0 || batch > 1 || rows_count_ > kOracleRowsMax) continue;
      ABSL_ASSIGN_OR_RETURN(
          const VerifyResult verdict,
          engine_.Verify(
              *codes_, {.query = asked.queries[0], .neighbors = got.queries[0], .epoch = got.epoch},
              nullptr));
      if (!verdict.equal) return absl::DataLossError(verdict.explanation);
    }
    sum.candidates /= searches * batch;
    return sum;
  }

  absl::StatusOr<Timing> Time(Collection& collection, int32_t batch, int32_t k) {
    absl::Status status;
    const Timing timing = MedianOf(config_.repeats, [&](int i) {
      const absl::Status one =
          engine_.Search(collection, BatchAt(int64_t{i} * batch, batch, k)).status();
      if (!one.ok()) status = one;
    });
    ABSL_RETURN_IF_ERROR(status);
    return timing;
  }

  absl::Status RunBatch(int32_t batch, int32_t k) {
    ABSL_ASSIGN_OR_RETURN(const SearchCost cost, Compare(batch, k));
    ABSL_ASSIGN_OR_RETURN(const Timing codes, Time(*codes_, batch, k));
    Timing exact;
    if (config_.rows) {
      ABSL_ASSIGN_OR_RETURN(exact, Time(*exact_, batch, k));
    }
    // A pass reads the codes once for any batch size. Multiplications, not reads, limit a large
    // batch.
    const double code_bytes = static_cast<double>((dim_ + 127) / 128 * 128 + 16);
    const double limit_us =
        static_cast<double>(rows_count_) * code_bytes / (config_.read_tb_s * 1e6);
    std::printf(
        "NEARFIELD_BENCH_JSON "
        R"({"bench":"search","backend":"%s","path":"%s","metric":"%s","dtype":"%s","rows":"%s","batch":%d,"n":%d,"dim":%d,"k":%d,)"
        R"("data":"%s","us":%.1f,"p99_us":%.1f,"queries_per_s":%.0f,"limit_us":%.1f,"share_of_limit":%.3f,)"
        R"("candidates":%d,"tighter":%d,"canonical":%d,"rows_us":%.1f,"checked_by":"%s","matches_oracle":true})"
        "\n",
        engine_.Info().backend == BackendKind::kGpu ? "gpu" : "cpu", Name(cost.precision),
        kMetricNames[static_cast<size_t>(config_.metric) - 1],
        kTypeNames[static_cast<size_t>(config_.row_type) - 1],
        kHomeNames[static_cast<size_t>(config_.home) - 1], batch, static_cast<int>(rows_count_),
        dim_, k, queries_.data, codes.median_us, codes.p99_us, batch * 1e6 / codes.median_us,
        limit_us, limit_us / codes.median_us, static_cast<int>(cost.candidates),
        static_cast<int>(cost.escalations.tighter), static_cast<int>(cost.escalations.canonical),
        exact.median_us, rows_count_ > kOracleRowsMax ? "a scan of the exact rows" : "the oracle");
    std::fflush(stdout);
    return absl::OkStatus();
  }

  const Config& config_;
  Engine& engine_;
  const RowSource& source_;
  const int32_t dim_;
  const int64_t queries_count_;
  const Queries& queries_;
  int64_t rows_count_ = 0;
  std::shared_ptr<Collection> codes_;
  std::shared_ptr<Collection> exact_;
};

absl::Status RunSource(const Config& config, const RowSource& source, const Queries& queries) {
  const int64_t rows_max = *std::max_element(config.rows_counts.begin(), config.rows_counts.end());
  // Room for a copy with codes and one without, each with its norms and ranks, and for slab
  // rounding.
  constexpr int64_t kRounding = int64_t{2} << 30;
  const int64_t row_bytes = source.row_bytes() + 32 * BytesPerElement(config.row_type);
  const bool on_host = config.home == RowPlacement::kHost;
  const int64_t device_row_bytes = (on_host ? 1 : 2) * row_bytes + source.dim() + 127 + 16 + 2 * 12;
  ABSL_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create({.backend = config.backend,
                      .memory_bytes = rows_max * device_row_bytes + kRounding,
                      .host_rows_bytes = on_host ? rows_max * row_bytes + (kRounding >> 4) : 0,
                      .threads = config.threads}));
  for (const int64_t rows_count : config.rows_counts) {
    Case one(config, *engine, queries, source);
    ABSL_RETURN_IF_ERROR(one.Run(rows_count));
  }
  return absl::OkStatus();
}

absl::Status RunDim(const Config& config, DataKind kind, int32_t dim) {
  const int64_t rows_max = *std::max_element(config.rows_counts.begin(), config.rows_counts.end());
  const int32_t batch_max = *std::max_element(config.batches.begin(), config.batches.end());
  const RowSource source(MakeRows(kind, std::min(rows_max, kBaseRowsMax), dim, 1), dim,
                         config.row_type);
  return RunSource(
      config, source,
      {.data = Name(kind), .vectors = MakeRows(kind, std::max(16, batch_max), dim, 1'000'003)});
}

absl::Status RunReal(const Config& config) {
  ABSL_ASSIGN_OR_RETURN(RealCorpus corpus, ReadRealCorpus(config.real));
  const RowSource source(corpus.rows, corpus.dim, config.row_type);
  return RunSource(config, source, {.data = "real", .vectors = std::move(corpus.queries)});
}

template <typename Number>
absl::Status ParseList(absl::string_view text, std::vector<Number>* numbers) {
  numbers->clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    Number number = 0;
    if (!absl::SimpleAtoi(part, &number) || number <= 0) {
      return absl::InvalidArgumentError(absl::StrCat("not a positive number: ", part));
    }
    numbers->push_back(number);
  }
  return absl::OkStatus();
}

template <size_t kNames>
absl::StatusOr<size_t> Find(const std::array<const char*, kNames>& names, absl::string_view name) {
  for (size_t i = 0; i < kNames; ++i) {
    if (name == names[i]) return i;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown: ", name));
}

constexpr char kHelp[] =
    "certified_bench: the certified scan beside the scan of exact rows\n"
    "  --n=1000000,...  --dim=1024,...  --k=10,100  --batch=1,32,...\n"
    "  --data=gaussian,clustered,outliers   --metric=dot|cosine|l2   --backend=auto|cpu|gpu\n"
    "  --real=scripts/data  the corpus of real text instead; more rows are its rows, turned round\n"
    "  --dtype=fp32|fp16|bf16   --rows=device|host\n"
    "  --threads=N          of the CPU backend; 0: all cores\n"
    "  --read-tb-s=4.53     measured streaming read of the device, for the limit\n"
    "  --no-rows            do not time the scan of exact rows\n"
    "  --tiny               a few seconds on any machine; checks, times little\n";

absl::Status Set(absl::string_view name, absl::string_view value, Config* config) {
  if (name == "--n") return ParseList(value, &config->rows_counts);
  if (name == "--dim") return ParseList(value, &config->dims);
  if (name == "--k") return ParseList(value, &config->ks);
  if (name == "--batch") return ParseList(value, &config->batches);
  if (name == "--real") {
    config->real = std::string(value);
  } else if (name == "--data") {
    config->kinds.clear();
    for (const absl::string_view part : absl::StrSplit(value, ',')) {
      ABSL_ASSIGN_OR_RETURN(const size_t kind, Find(kKindNames, part));
      config->kinds.push_back(static_cast<DataKind>(kind));
    }
  } else if (name == "--metric") {
    ABSL_ASSIGN_OR_RETURN(const size_t metric, Find(kMetricNames, value));
    config->metric = static_cast<Metric>(metric + 1);
  } else if (name == "--dtype") {
    ABSL_ASSIGN_OR_RETURN(const size_t type, Find(kTypeNames, value));
    config->row_type = static_cast<RowType>(type + 1);
  } else if (name == "--rows") {
    ABSL_ASSIGN_OR_RETURN(const size_t home, Find(kHomeNames, value));
    config->home = static_cast<RowPlacement>(home + 1);
  } else if (name == "--backend") {
    constexpr std::array<const char*, 3> kBackends = {"auto", "cpu", "gpu"};
    ABSL_ASSIGN_OR_RETURN(const size_t backend, Find(kBackends, value));
    config->backend = static_cast<BackendChoice>(backend);
  } else if (name == "--threads") {
    if (!absl::SimpleAtoi(value, &config->threads)) return absl::InvalidArgumentError("--threads");
  } else if (name == "--read-tb-s") {
    if (!absl::SimpleAtod(value, &config->read_tb_s)) {
      return absl::InvalidArgumentError("--read-tb-s");
    }
  } else if (name == "--no-rows") {
    config->rows = false;
  } else if (name == "--tiny") {
    config->rows_counts = {1'000, 3'000};
    config->dims = {33, 128};
    config->batches = {1, 5};
    config->kinds = {DataKind::kGaussian, DataKind::kClustered, DataKind::kOutliers};
    config->repeats = {.warmups = 1, .runs = 3, .seconds_max = 1};
  } else {
    return absl::InvalidArgumentError(absl::StrCat("unknown argument ", name, "\n", kHelp));
  }
  return absl::OkStatus();
}

absl::Status Run(int argc, char** argv) {
  Config config;
  for (int i = 1; i < argc; ++i) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(argv[i], absl::MaxSplits('=', 1));
    ABSL_RETURN_IF_ERROR(Set(parts.first, parts.second, &config));
  }
  if (!config.real.empty()) return RunReal(config);
  for (const DataKind kind : config.kinds) {
    for (const int32_t dim : config.dims) ABSL_RETURN_IF_ERROR(RunDim(config, kind, dim));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--help") {
    std::fputs(nearfield::bench::kHelp, stdout);
    return 0;
  }
  const absl::Status status = nearfield::bench::Run(argc, argv);
  if (status.ok()) return 0;
  std::fprintf(stderr, "certified_bench: %s\n", status.ToString().c_str());
  return 1;
}
