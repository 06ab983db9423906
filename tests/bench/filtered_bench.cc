// Compares searches with filters to the same search without one, on any backend: filters that pass
// random rows of several shares, with one query and with a batch, whose queries have one filter or
// several. First compares an answer with the oracle's, and a batch of several filters with a search
// of each of its queries. Prints lines "NEARFIELD_BENCH_JSON {...}".
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
  std::vector<int64_t> batches = {1, 64};
  std::vector<double> shares = {1, 0.5, 0.1, 0.05, 0.02, 0.01, 0.001, 0.00001};
  std::vector<int64_t> filters = {1};  // different ones in a batch
  int runs = 51;
  bool fresh = false;  // gives each search a new filter
};

using Filters = std::vector<std::shared_ptr<const RowFilter>>;

// Returns a filter that passes each row with probability `share`.
std::shared_ptr<const RowFilter> RandomFilter(int64_t rows_count, double share, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::bernoulli_distribution chosen(share);
  auto filter = std::make_shared<RowFilter>();
  filter->chosen.resize(static_cast<size_t>(rows_count + 63) / 64);
  for (int64_t row = 0; row < rows_count; ++row) {
    if (chosen(random)) filter->chosen[static_cast<size_t>(row / 64)] |= uint64_t{1} << (row % 64);
  }
  return filter;
}

class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    engine_ = OrFail(Engine::Create({.backend = options.backend, .threads = options.threads}));
    const std::vector<float> rows = GaussianRows(options.rows_count, options.dim, 1);
    const RowSource source(rows, options.dim, RowType::kFloat32);
    collection_ =
        OrFail(FillCollection(*engine_, {.dim = options.dim}, source, options.rows_count));
    queries_ = GaussianRows(kQueries, options.dim, 2);
  }

  void Run() {
    for (const int64_t batch : options_.batches) {
      const double plain_us = Time(batch, {nullptr});
      Print({.batch = batch, .matched = options_.rows_count, .us = plain_us, .plain_us = plain_us});
      for (const double share : options_.shares) {
        for (const int64_t count : options_.filters) {
          if (count > batch) continue;
          Filters filters;
          for (int64_t i = 0; i < count; ++i) {
            filters.push_back(
                RandomFilter(options_.rows_count, share, 7 + static_cast<uint64_t>(i)));
          }
          Check(batch, filters);
          Print({.batch = batch,
                 .share = share,
                 .filters = count,
                 .matched = OrFail(collection_->CountRows(nullptr, *filters.front())),
                 .us = Time(batch, filters),
                 .plain_us = plain_us});
        }
      }
    }
  }

 private:
  static constexpr int64_t kQueries = 4096;

  struct Measured {
    int64_t batch = 0;
    double share = -1;
    int64_t filters = 0;
    int64_t matched = 0;  // by the first filter
    double us = 0;
    double plain_us = 0;
  };

  // The queries take the filters in turn.
  SearchBatch BatchAt(int64_t number, int64_t batch, const Filters& filters) {
    SearchBatch asked;
    const auto dim = static_cast<size_t>(options_.dim);
    for (int64_t i = 0; i < batch; ++i) {
      const auto place = static_cast<size_t>((number * batch + i) % kQueries);
      asked.queries.push_back({.vector = absl::MakeConstSpan(queries_).subspan(place * dim, dim),
                               .k = options_.k,
                               .filter = filters[static_cast<size_t>(i) % filters.size()]});
    }
    return asked;
  }

  void Check(int64_t batch, const Filters& filters) {
    const SearchBatch asked = BatchAt(0, batch, filters);
    const SearchResult got = OrFail(engine_->Search(*collection_, asked));
    for (size_t i = 0; i < asked.queries.size(); ++i) {
      SearchBatch alone;
      alone.queries = {asked.queries[i]};
      const SearchResult want = OrFail(engine_->Search(*collection_, alone));
      if (!SameBits(got.queries[i], want.queries[0])) Fail("a query alone has another answer");
    }
    const VerifyResult verdict = OrFail(engine_->Verify(
        *collection_, {.query = asked.queries[0], .neighbors = got.queries[0], .epoch = got.epoch},
        nullptr));
    if (!verdict.equal) Fail("the oracle differs: " + verdict.explanation);
  }

  double Time(int64_t batch, Filters filters) {
    return MedianOf({.runs = options_.runs},
                    [&](int i) {
                      for (auto& filter : filters) {
                        if (options_.fresh && filter != nullptr) {
                          filter = std::make_shared<RowFilter>(*filter);
                        }
                      }
                      OrFail(engine_->Search(*collection_, BatchAt(i, batch, filters)));
                    })
        .median_us;
  }

  void Print(const Measured& measured) {
    std::printf(
        "NEARFIELD_BENCH_JSON {\"bench\": \"filtered\", \"device\": \"%s\", \"n\": %lld, "
        "\"dim\": %d, \"k\": %d, \"batch\": %lld, \"share\": %g, \"filters\": %lld, \"fresh\": %s, "
        "\"matched\": %lld, \"us\": %.1f, \"over_unfiltered\": %.3f, \"rate_of_unfiltered\": "
        "%.3f}\n",
        engine_->Info().device_name.c_str(), static_cast<long long>(options_.rows_count),
        options_.dim, options_.k, static_cast<long long>(measured.batch), measured.share,
        static_cast<long long>(measured.filters), options_.fresh ? "true" : "false",
        static_cast<long long>(measured.matched), measured.us, measured.us / measured.plain_us,
        measured.plain_us / measured.us);
    std::fflush(stdout);
  }

  const Options options_;
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<Collection> collection_;
  std::vector<float> queries_;
};

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("filtered_bench: searches that a filter narrows beside the same without one");
  nearfield::bench::Options options;
  nearfield::bench::AddNamed(app, "--backend", options.backend, nearfield::bench::kBackendNames);
  app.add_option("--rows", options.rows_count)->capture_default_str();
  app.add_option("--dim", options.dim)->capture_default_str();
  app.add_option("-k", options.k)->capture_default_str();
  app.add_option("--threads", options.threads, "of the CPU backend; 0: all cores")
      ->capture_default_str();
  app.add_option("--batches", options.batches)->delimiter(',');
  app.add_option("--shares", options.shares, "of the rows that pass")->delimiter(',');
  app.add_option("--filters", options.filters, "different ones in a batch")->delimiter(',');
  app.add_option("--runs", options.runs)->capture_default_str();
  app.add_flag("--fresh", options.fresh, "each search has a filter that was not seen before");
  CLI11_PARSE(app, argc, argv);
  nearfield::bench::Bench(options).Run();
  return 0;
}
