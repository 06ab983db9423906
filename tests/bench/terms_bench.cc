// Compares searches with row terms to the same search without them, on any backend. Compares an
// answer of each kind with the oracle's first. Prints lines "NEARFIELD_BENCH_JSON {...}".
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/bench_engine.h"
#include "tests/bench/fail.h"
#include "tests/bench/options.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

struct Options {
  BackendChoice backend = BackendChoice::kAuto;
  int64_t rows_count = 1'000'000;
  int32_t dim = 1024;
  int32_t k = 10;
  int32_t threads = 0;
  int32_t generations = 8;
  std::vector<int64_t> batches = {1, 16};
  int runs = 51;
};

constexpr double kDay = 86400e6;  // microseconds

// Terms that the searches add to the scores.
struct Kind {
  std::string name;
  bool recency = false;     // halved every 30 days
  bool importance = false;  // linear
  bool boost = false;       // for one row in eight
};

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    engine_ = OrFail(Engine::Create({.backend = options.backend, .threads = options.threads}));
    const std::vector<float> rows = GaussianRows(options.rows_count, options.dim, 1);
    const RowSource source(rows, options.dim, RowType::kFloat32);
    collection_ = OrFail(FillCollection(*engine_, {.dim = options.dim}, source, options.rows_count,
                                        {.generations = options.generations, .deleted_every = 0}));
    queries_ = GaussianRows(kQueries, options.dim, 2);
    DrawNumbers();
  }

  void Run() {
    const Kind kinds[] = {{.name = "none"},
                          {.name = "importance", .importance = true},
                          {.name = "recency", .recency = true},
                          {.name = "both", .recency = true, .importance = true},
                          {.name = "all", .recency = true, .importance = true, .boost = true}};
    for (const int64_t batch : options_.batches) {
      double plain_us = 0;
      for (const Kind& kind : kinds) {
        Check(kind);
        const double us = Time(batch, kind);
        if (&kind == kinds) plain_us = us;
        Print(batch, kind, us, plain_us);
      }
    }
  }

 private:
  static constexpr int64_t kQueries = 4096;

  void DrawNumbers() {
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> age(0, 365 * kDay);
    std::uniform_real_distribution<double> importance(0, 10);
    std::vector<double> ages;
    std::vector<double> importances;
    auto boosted = std::make_shared<RowFilter>();
    boosted->chosen.resize(static_cast<size_t>(options_.rows_count + 63) / 64);
    for (int64_t row = 0; row < options_.rows_count; ++row) {
      ages.push_back(-age(random));
      importances.push_back(importance(random));
      if (random() % 8 == 0) {
        boosted->chosen[static_cast<size_t>(row / 64)] |= uint64_t{1} << (row % 64);
      }
    }
    written_ = std::make_shared<RowNumbers>(std::move(ages));
    importance_ = std::make_shared<RowNumbers>(std::move(importances));
    boosted_ = std::move(boosted);
  }

  // Returns the terms of one query. Each has its own present.
  std::shared_ptr<const RowTerms> TermsOf(const Kind& kind, int64_t number) const {
    if (kind.name == "none") return nullptr;
    auto terms = std::make_shared<RowTerms>();
    // Scores of Gaussian vectors are about sqrt(dim).
    const double unit = 0.3 * std::sqrt(static_cast<double>(options_.dim));
    if (kind.recency) {
      terms->terms.push_back({.parameters = {.form = TermForm::kHalfLife,
                                             .weight = unit,
                                             .origin = static_cast<double>(number) * 1e6,
                                             .scale = 1 / (30 * kDay)},
                              .numbers = written_,
                              .filter = nullptr});
    }
    if (kind.importance) {
      terms->terms.push_back(
          {.parameters = {.form = TermForm::kLinear, .weight = unit / 10, .scale = 1},
           .numbers = importance_,
           .filter = nullptr});
    }
    if (kind.boost) {
      terms->terms.push_back({.parameters = {.form = TermForm::kIs, .weight = unit / 2},
                              .numbers = nullptr,
                              .filter = boosted_});
    }
    return terms;
  }

  SearchBatch BatchAt(int64_t number, int64_t batch, const Kind& kind) const {
    SearchBatch asked;
    const auto dim = static_cast<size_t>(options_.dim);
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t query = number * batch + i;
      const auto place = static_cast<size_t>(query % kQueries);
      asked.queries.push_back({.vector = absl::MakeConstSpan(queries_).subspan(place * dim, dim),
                               .k = options_.k,
                               .terms = TermsOf(kind, query)});
    }
    return asked;
  }

  void Check(const Kind& kind) {
    const SearchBatch asked = BatchAt(0, 1, kind);
    const SearchResult got = OrFail(engine_->Search(*collection_, asked));
    const VerifyResult verdict = OrFail(engine_->Verify(
        *collection_, {.query = asked.queries[0], .neighbors = got.queries[0], .epoch = got.epoch},
        nullptr));
    if (!verdict.equal) Fail("the oracle differs: " + verdict.explanation);
  }

  double Time(int64_t batch, const Kind& kind) {
    return MedianOf({.runs = options_.runs},
                    [&](int i) { OrFail(engine_->Search(*collection_, BatchAt(i, batch, kind))); })
        .median_us;
  }

  void Print(int64_t batch, const Kind& kind, double us, double plain_us) {
    std::printf(
        "NEARFIELD_BENCH_JSON {\"bench\": \"terms\", \"device\": \"%s\", \"n\": %lld, \"dim\": %d, "
        "\"k\": %d, \"generations\": %d, \"batch\": %lld, \"terms\": \"%s\", \"us\": %.1f, "
        "\"over_plain\": %.3f}\n",
        engine_->Info().device_name.c_str(), static_cast<long long>(options_.rows_count),
        options_.dim, options_.k, options_.generations, static_cast<long long>(batch),
        kind.name.c_str(), us, us / plain_us);
    std::fflush(stdout);
  }

  const Options options_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<Collection> collection_;
  std::vector<float> queries_;
  std::shared_ptr<const RowNumbers> written_;
  std::shared_ptr<const RowNumbers> importance_;
  std::shared_ptr<const RowFilter> boosted_;
};

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("terms_bench: searches with row terms beside the same without them");
  nearfield::bench::Options options;
  nearfield::bench::AddNamed(app, "--backend", options.backend, nearfield::bench::kBackendNames);
  app.add_option("--rows", options.rows_count)->capture_default_str();
  app.add_option("--dim", options.dim)->capture_default_str();
  app.add_option("-k", options.k)->capture_default_str();
  app.add_option("--threads", options.threads, "of the CPU backend; 0: all cores")
      ->capture_default_str();
  app.add_option("--generations", options.generations)->capture_default_str();
  app.add_option("--batches", options.batches)->delimiter(',');
  app.add_option("--runs", options.runs)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  nearfield::bench::Bench(options).Run();
  return 0;
}
