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
#include "tests/bench/names.h"
#include "tests/bench/options.h"
#include "tests/bench/real_corpus.h"
#include "tests/bench/timing.h"
#include "tests/testing/corpora.h"
#include "tests/testing/random.h"

namespace nearfield::bench {
namespace {

struct Config {
  std::vector<int64_t> rows_counts = {1'000'000};
  std::vector<int32_t> dims = {1024};
  std::vector<int32_t> ks = {10, 100};
  std::vector<int32_t> batches = {1};
  // As a collection looks that was filled by several uploads and lost some rows since.
  std::vector<int32_t> generations = {8};
  int64_t deleted_every = 50;
  std::vector<DataKind> kinds = {DataKind::kGaussian};
  std::vector<testing::CorpusFamily> families;  // in place of kinds
  std::string real;  // folder of a real corpus, which replaces kinds and dims
  Metric metric = Metric::kDot;
  RowType row_type = RowType::kFloat32;
  ScanChoice scan = ScanChoice::kInt8;        // codes of the rows that have codes
  RowPlacement home = RowPlacement::kDevice;  // placement of the rows that have codes
  BackendChoice backend = BackendChoice::kAuto;
  std::vector<int32_t> devices = {0};  // GPUs that hold the rows together
  int32_t threads = 0;
  int32_t gpu_capability_max = 0;
  double read_tb_s = 4.53;  // measured streaming read of the device, for the limit
  int64_t spare_gib = 16;
  double int8_tops = 1550;  // int8 operations that an H200 or H100 (SXM) sustains, for the limit
  bool rows = true;         // also time the scan of exact rows
  bool choice = false;      // also time a collection that chooses between the two
  Repeats repeats = {.warmups = 3, .runs = 51, .seconds_max = 2};
};

constexpr Names<DataKind, 5> kKindNames = {{{"gaussian", DataKind::kGaussian},
                                            {"clustered", DataKind::kClustered},
                                            {"outliers", DataKind::kOutliers},
                                            {"dominant", DataKind::kDominant},
                                            {"heavy", DataKind::kHeavyTails}}};
// The families of the contract tests that no kind resembles.
constexpr Names<testing::CorpusFamily, 12> kFamilyNames = {
    {{"duplicates", testing::CorpusFamily::kDuplicates},
     {"all-equal", testing::CorpusFamily::kAllEqual},
     {"two-values", testing::CorpusFamily::kTwoValues},
     {"one-hot", testing::CorpusFamily::kOneHot},
     {"denormal", testing::CorpusFamily::kDenormal},
     {"max-finite", testing::CorpusFamily::kMaxFinite},
     {"bit-patterns", testing::CorpusFamily::kBitPatterns},
     {"negative", testing::CorpusFamily::kNegative},
     {"near-ties", testing::CorpusFamily::kNearTies},
     {"zero-rows", testing::CorpusFamily::kZeroRows},
     {"all-zero", testing::CorpusFamily::kAllZero},
     {"thousandfold", testing::CorpusFamily::kOutliers}}};
constexpr Names<ScanChoice, 2> kCodeNames = {
    {{"int8", ScanChoice::kInt8}, {"int16", ScanChoice::kInt16}}};
constexpr Names<RowPlacement, 2> kHomeNames = {
    {{"device", RowPlacement::kDevice}, {"host", RowPlacement::kHost}}};

// Further rows are rotations of these.
constexpr int64_t kBaseRowsMax = 1'000'000;
// Maximum number of rows that the oracle reads back and scores on one core in well under a minute.
constexpr int64_t kOracleRowsMax = 20'000'000;

// Searches of one corpus.
struct Queries {
  const char* data = nullptr;  // name of the corpus
  std::vector<float> vectors;  // [count, dim]
};

// One corpus, stored with codes, without, and, if wanted, as a collection that may choose.
class Case {
 public:
  Case(const Config& config, Engine& engine, const Queries& queries, const RowSource& source)
      : config_(config),
        engine_(engine),
        source_(source),
        dim_(source.dim()),
        queries_count_(static_cast<int64_t>(queries.vectors.size()) / source.dim()),
        queries_(queries) {}

  absl::Status Run(int64_t rows_count, int32_t generations) {
    rows_count_ = rows_count;
    generations_ = generations;
    const Layout layout = {.generations = generations, .deleted_every = config_.deleted_every};
    CollectionSpec spec = {.dim = dim_, .metric = config_.metric, .row_type = source_.row_type()};
    spec.scan = config_.scan;
    spec.rows = config_.home;
    const auto begin = std::chrono::steady_clock::now();
    ABSL_ASSIGN_OR_RETURN(codes_, FillCollection(engine_, spec, source_, rows_count, layout));
    const double taken_s = SecondsSince(begin);
    const double row_gb = static_cast<double>(rows_count * source_.row_bytes()) * 1e-9;
    std::printf("filled %d x %d in %.2f s, %.2f GB/s\n", static_cast<int>(rows_count_), dim_,
                taken_s, row_gb / taken_s);
    std::fflush(stdout);
    spec.scan = ScanChoice::kRows;
    spec.rows = RowPlacement::kDevice;
    ABSL_ASSIGN_OR_RETURN(exact_, FillCollection(engine_, spec, source_, rows_count, layout));
    if (config_.choice) {
      spec.scan = ScanChoice::kAuto;
      ABSL_ASSIGN_OR_RETURN(choice_, FillCollection(engine_, spec, source_, rows_count, layout));
    }
    for (const int32_t batch : config_.batches) {
      for (const int32_t k : config_.ks) ABSL_RETURN_IF_ERROR(RunBatch(batch, k));
    }
    return absl::OkStatus();
  }

 private:
  SearchBatch BatchAt(int64_t first, int32_t count, int32_t k) const {
    SearchBatch batch;
    batch.queries.reserve(static_cast<size_t>(count));
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
      if (choice_ != nullptr) {
        ABSL_ASSIGN_OR_RETURN(const SearchResult chosen, engine_.Search(*choice_, asked));
        for (int32_t i = 0; i < batch; ++i) {
          if (SameBits(chosen.queries[i], want.queries[i])) continue;
          return absl::DataLossError(absl::StrCat("query ", first + i, ": the choice differs"));
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
    // Made before, as the peers' queries are.
    std::vector<SearchBatch> batches;
    for (int i = 0; i < std::max(config_.repeats.runs, config_.repeats.warmups); ++i) {
      batches.push_back(BatchAt(int64_t{i} * batch, batch, k));
    }
    const Timing timing = MedianOf(config_.repeats, [&](int i) {
      const absl::Status one = engine_.Search(collection, batches[static_cast<size_t>(i)]).status();
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
    Timing choice;
    if (config_.choice) {
      ABSL_ASSIGN_OR_RETURN(choice, Time(*choice_, batch, k));
    }
    // A pass reads the codes once for any batch size, and multiplies them with every query. The
    // larger of both times limits the search.
    const double code_bytes = static_cast<double>((dim_ + 127) / 128 * 128 + 16);
    const double read_us =
        static_cast<double>(rows_count_) * code_bytes / (config_.read_tb_s * 1e6);
    const double product_us =
        2.0 * static_cast<double>(rows_count_) * batch * dim_ / (config_.int8_tops * 1e6);
    const double limit_us = std::max(read_us, product_us);
    std::printf(
        "NEARFIELD_BENCH_JSON "
        R"({"bench":"search","backend":"%s","gpu_capability":%d,"devices":%d,"path":"%s","scan":"%s","metric":"%s","dtype":"%s","rows":"%s","batch":%d,"n":%d,"dim":%d,"k":%d,"generations":%d,"deleted_every":%d,)"
        R"("data":"%s","us":%.1f,"p99_us":%.1f,"queries_per_s":%.0f,"limit_us":%.1f,"share_of_limit":%.3f,)"
        R"("candidates":%d,"tighter":%d,"canonical":%d,"rows_us":%.1f,"auto_us":%.1f,"auto_p99_us":%.1f,"checked_by":"%s","matches_oracle":true})"
        "\n",
        engine_.Info().backend == BackendKind::kGpu ? "gpu" : "cpu", config_.gpu_capability_max,
        static_cast<int>(config_.devices.size()), Name(cost.precision),
        NameIn(kCodeNames, config_.scan), Name(config_.metric), Name(config_.row_type),
        NameIn(kHomeNames, config_.home), batch, static_cast<int>(rows_count_), dim_, k,
        generations_, static_cast<int>(config_.deleted_every), queries_.data, codes.median_us,
        codes.p99_us, batch * 1e6 / codes.median_us, limit_us, limit_us / codes.median_us,
        static_cast<int>(cost.candidates), static_cast<int>(cost.escalations.tighter),
        static_cast<int>(cost.escalations.canonical), exact.median_us, choice.median_us,
        choice.p99_us, rows_count_ > kOracleRowsMax ? "a scan of the exact rows" : "the oracle");
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
  int32_t generations_ = 1;
  std::shared_ptr<Collection> codes_;
  std::shared_ptr<Collection> exact_;
  std::shared_ptr<Collection> choice_;
};

absl::Status RunSource(const Config& config, const RowSource& source, const Queries& queries) {
  const int64_t rows_max = *std::max_element(config.rows_counts.begin(), config.rows_counts.end());
  // Room for a copy with codes and one without, each with its norms, ranks and ids, and more: the
  // workspace grows with the memory.
  const int64_t spare = config.spare_gib << 30;
  const int64_t row_bytes = source.row_bytes() + 32 * BytesPerElement(config.row_type);
  const bool on_host = config.home == RowPlacement::kHost;
  const int64_t codes_count = config.scan == ScanChoice::kInt16 ? 2 : 1;
  const int64_t code_bytes = codes_count * (source.dim() + 127 + 16) + 20;
  const int64_t device_row_bytes = (on_host ? 1 : 2) * row_bytes + code_bytes + 20 +
                                   (config.choice ? row_bytes + code_bytes : 0);
  ABSL_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create(
          {.backend = config.backend,
           .devices = config.devices,
           .memory_bytes =
               rows_max * device_row_bytes / static_cast<int64_t>(config.devices.size()) + spare,
           .host_rows_bytes = on_host ? rows_max * row_bytes + (int64_t{128} << 20) : 0,
           .threads = config.threads,
           .gpu_capability_max = config.gpu_capability_max}));
  for (const int64_t rows_count : config.rows_counts) {
    for (const int32_t generations : config.generations) {
      Case one(config, *engine, queries, source);
      ABSL_RETURN_IF_ERROR(one.Run(rows_count, generations));
    }
  }
  return absl::OkStatus();
}

absl::Status RunDim(const Config& config, DataKind kind, int32_t dim) {
  const int64_t rows_max = *std::max_element(config.rows_counts.begin(), config.rows_counts.end());
  const int32_t batch_max = *std::max_element(config.batches.begin(), config.batches.end());
  const RowSource source(MakeRows(kind, std::min(rows_max, kBaseRowsMax), dim, 1), dim,
                         config.row_type);
  return RunSource(config, source,
                   {.data = NameIn(kKindNames, kind),
                    .vectors = MakeRows(kind, std::max(16, batch_max), dim, 1'000'003)});
}

// The queries are rows of the corpus, which makes as many ties as the family can.
absl::Status RunFamily(const Config& config, testing::CorpusFamily family, int32_t dim) {
  const int64_t rows_max = *std::max_element(config.rows_counts.begin(), config.rows_counts.end());
  const int32_t batch_max = *std::max_element(config.batches.begin(), config.batches.end());
  const testing::Corpus corpus = testing::MakeCorpus({.dim = dim, .metric = config.metric}, family,
                                                     std::min(rows_max, kBaseRowsMax), 1);
  std::vector<float> rows(static_cast<size_t>(corpus.rows_count() * dim));
  std::memcpy(rows.data(), corpus.rows.data(), corpus.rows.size());
  Queries queries = {.data = NameIn(kFamilyNames, family), .vectors = {}};
  testing::Random random(1'000'003);
  for (int32_t i = 0; i < std::max(16, batch_max); ++i) {
    const auto row = rows.begin() + random.Between(0, corpus.rows_count()) * dim;
    queries.vectors.insert(queries.vectors.end(), row, row + dim);
  }
  return RunSource(config, RowSource(rows, dim, config.row_type), queries);
}

absl::Status RunReal(const Config& config) {
  ABSL_ASSIGN_OR_RETURN(RealCorpus corpus, ReadRealCorpus(config.real));
  const RowSource source(corpus.rows, corpus.dim, config.row_type);
  return RunSource(config, source, {.data = "real", .vectors = std::move(corpus.queries)});
}

void AddOptions(CLI::App& app, Config& config) {
  AddTiny(app, [&config] {
    config.rows_counts = {1'000, 3'000};
    config.dims = {33, 128};
    config.batches = {1, 5};
    config.kinds = {DataKind::kGaussian, DataKind::kClustered, DataKind::kOutliers,
                    DataKind::kDominant, DataKind::kHeavyTails};
    config.choice = true;
    config.repeats = {.warmups = 1, .runs = 3, .seconds_max = 1};
  });
  AddPositive(app, "--n", config.rows_counts, "rows");
  AddPositive(app, "--dim", config.dims);
  AddPositive(app, "--k", config.ks);
  AddPositive(app, "--batch", config.batches);
  AddPositive(app, "--generations", config.generations, "unequal commits that make the collection")
      ->check(CLI::Range(1, kGenerationsMax));
  app.add_option("--deleted-every", config.deleted_every,
                 "delete the rows whose id is a multiple of this; 0: none")
      ->capture_default_str();
  AddNamed(app, "--data", config.kinds, kKindNames);
  AddNamed(app, "--family", config.families, kFamilyNames, "in place of --data");
  AddNamed(app, "--metric", config.metric, kMetricNames);
  AddNamed(app, "--backend", config.backend, kBackendNames);
  app.add_option("--real", config.real,
                 "folder of the corpus of real text (scripts/data), in place of --data and --dim; "
                 "further rows are rotations of its rows");
  AddNamed(app, "--dtype", config.row_type, kRowTypeNames);
  AddNamed(app, "--scan", config.scan, kCodeNames, "of the rows that have codes");
  AddNamed(app, "--rows", config.home, kHomeNames, "placement of the rows that have codes");
  app.add_option("--devices", config.devices, "GPUs that hold the rows together")->delimiter(',');
  app.add_option("--threads", config.threads, "of the CPU backend; 0: all cores");
  app.add_option("--gpu-capability", config.gpu_capability_max,
                 "use only what a GPU of this compute capability has: 75, 80, ...; 0: everything");
  app.add_option("--read-tb-s", config.read_tb_s,
                 "measured streaming read of the device, for the limit")
      ->capture_default_str();
  app.add_option("--spare-gib", config.spare_gib,
                 "memory of the device in addition to that of the rows; a server has most of it")
      ->capture_default_str();
  app.add_option("--int8-tops", config.int8_tops,
                 "int8 operations that the device sustains, in 10^12 a second, for the limit")
      ->capture_default_str();
  app.add_flag("!--no-rows", config.rows, "do not time the scan of exact rows");
  app.add_flag("--auto", config.choice,
               "also time a collection that chooses between codes and rows");
}

absl::Status Run(const Config& config) {
  if (!config.real.empty()) return RunReal(config);
  for (const testing::CorpusFamily family : config.families) {
    for (const int32_t dim : config.dims) ABSL_RETURN_IF_ERROR(RunFamily(config, family, dim));
  }
  if (!config.families.empty()) return absl::OkStatus();
  for (const DataKind kind : config.kinds) {
    for (const int32_t dim : config.dims) ABSL_RETURN_IF_ERROR(RunDim(config, kind, dim));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("certified_bench: the certified scan compared with the scan of exact rows");
  nearfield::bench::Config config;
  nearfield::bench::AddOptions(app, config);
  CLI11_PARSE(app, argc, argv);
  return nearfield::bench::ExitCode(nearfield::bench::Run(config));
}
