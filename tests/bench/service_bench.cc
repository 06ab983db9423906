// Loads a running nearfield-server from separate processes: searches by 1 to 128 callers, searches
// that arrive at random times, uploads, and searches during an upload. Fills a collection first,
// and has the server's oracle check some answers. Prints lines "NEARFIELD_BENCH_JSON {...}". Exits
// with 1 if a call failed or an answer was wrong.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/fail.h"
#include "tests/bench/service_load.h"
#include "tests/bench/service_processes.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kConnections = 4;  // per worker
constexpr int32_t kOpenCallers = 512;
constexpr int64_t kQueries = 1024;
constexpr uint64_t kQuerySeed = 999;
constexpr int64_t kPartRows = 100'000;  // passed to the client at a time

struct Options {
  std::string address = "127.0.0.1:50051";
  std::string collection = "service_bench";
  bool fill = false;  // creates the collection and uploads its rows
  int64_t rows_count = 100'000;
  int32_t dim = 768;
  uint32_t k = 10;
  double seconds = 3;  // duration of each load
  std::vector<int32_t> callers = {1, 2, 4, 8, 16, 32, 64, 128};
  std::vector<double> shares = {0.5, 0.8, 0.95};  // open loop: of the best closed-loop rate
  std::vector<double> filter_shares;              // of the rows, for loops with filters
  int64_t upload_rows = 0;                        // rows uploaded during searches; 0: none
  bool rows_alone = false;                        // no codes: measures an upload without encoding
  uint64_t block_bytes = client::UploadOptions().block_bytes_max;
  int64_t verified = 3;   // answers that the oracle checks
  int32_t processes = 4;  // that share one load
  bool worker = false;    // runs as one of them
  double rate = 0;        // only for a worker
  uint64_t seed = 0;      // only for a worker
  std::string program;    // path of this program
};

struct UploadFigures {
  double seconds = 0;  // from begin to commit
  double bytes_per_second = 0;
};

// Returns the lots of rows, if filters choose them.
std::vector<client::AttributeColumn> LotsOf(const Options& options, int64_t first, int64_t count) {
  if (options.filter_shares.empty()) return {};
  std::vector<int64_t> lots;
  for (int64_t row = first; row < first + count; ++row) lots.push_back(row % kLots);
  return {{.attribute = kLotAttribute, .values = std::move(lots)}};
}

// Uploads the rows. They exist before the clock starts.
UploadFigures UploadRows(client::Client& client, const Options& options,
                         const std::string& collection, const std::vector<float>& rows) {
  const auto rows_count = static_cast<int64_t>(rows.size()) / options.dim;
  const auto begin = Clock::now();
  client::Upload upload = OrFail(client.BeginUpload({.collection = collection,
                                                     .rows_max = static_cast<uint64_t>(rows_count),
                                                     .block_bytes_max = options.block_bytes}),
                                 "begin");
  for (int64_t first = 0; first < rows_count; first += kPartRows) {
    const int64_t count = std::min(kPartRows, rows_count - first);
    std::vector<uint64_t> numbers(static_cast<size_t>(count));
    std::iota(numbers.begin(), numbers.end(), static_cast<uint64_t>(first));
    const client::IdColumn ids = std::move(numbers);
    const std::string_view bytes(
        reinterpret_cast<const char*>(rows.data() + first * options.dim),
        static_cast<size_t>(count) * static_cast<size_t>(options.dim) * sizeof(float));
    const std::vector<client::AttributeColumn> lots = LotsOf(options, first, count);
    const client::RowBlock block = {.ids = &ids, .vectors = bytes, .attributes = lots};
    if (const auto status = upload.Write(block); !status.ok()) {
      Fail("upload: " + status.ToString());
    }
  }
  OrFail(upload.Commit(), "commit");
  UploadFigures figures = {.seconds = SecondsSince(begin)};
  figures.bytes_per_second =
      static_cast<double>(rows_count) * options.dim * sizeof(float) / figures.seconds;
  return figures;
}

void PrintUpload(const char* what, const Options& options, int64_t rows_count,
                 const UploadFigures& figures) {
  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\": \"service\", \"what\": \"%s\", \"n\": %lld, \"dim\": %d, "
      "\"seconds\": %.3f, \"gb_per_second\": %.3f}\n",
      what, static_cast<long long>(rows_count), options.dim, figures.seconds,
      figures.bytes_per_second / 1e9);
  std::fflush(stdout);
}

void PrintLoad(const char* what, const Options& options, double asked, const LoadFigures& figures,
               double filter_share = 1) {
  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\": \"service\", \"what\": \"%s\", \"n\": %lld, \"dim\": %d, "
      "\"k\": %u, \"filter_share\": %g, \"load\": %.1f, \"per_second\": %.1f, \"p50_us\": %.0f, "
      "\"p99_us\": %.0f, "
      "\"p999_us\": %.0f, \"max_us\": %.0f, \"batch_mean\": %.1f, \"failed\": %lld}\n",
      what, static_cast<long long>(options.rows_count), options.dim, options.k, filter_share, asked,
      figures.per_second, figures.p50_us, figures.p99_us, figures.p999_us, figures.max_us,
      figures.batch_mean, static_cast<long long>(figures.failed));
  std::fflush(stdout);
  if (figures.failed > 0) Fail(figures.error);
}

UploadFigures Fill(client::Client& client, const Options& options) {
  std::vector<client::AttributeSpec> attributes;
  if (!options.filter_shares.empty()) {
    attributes = {{.name = kLotAttribute, .type = client::AttributeType::kInt64}};
  }
  OrFail(client.CreateCollection(
             {.name = options.collection,
              .dim = static_cast<uint32_t>(options.dim),
              .scan = options.rows_alone ? client::ScanChoice::kRows : client::ScanChoice::kAuto,
              .attributes = attributes}),
         "create");
  const UploadFigures figures = UploadRows(client, options, options.collection,
                                           GaussianRows(options.rows_count, options.dim, 1));
  PrintUpload("upload", options, options.rows_count, figures);
  return figures;
}

void Verify(client::Client& client, const Options& options, const ServiceTarget& target,
            const std::optional<client::Filter>& filter) {
  for (int64_t i = 0; i < options.verified; ++i) {
    const std::span<const float> query(target.queries.data() + static_cast<size_t>(i * options.dim),
                                       target.dim);
    const auto verdict =
        OrFail(client.Verify(options.collection, query, {.k = options.k, .filter = filter},
                             {.deadline = std::chrono::minutes(10)}),
               "verify");
    if (!verdict.equal) Fail("the oracle differs: " + verdict.explanation);
  }
}

LoadFigures RunSearches(const Options& options, const Load& load, double filter_share = 1) {
  const std::string command =
      options.program + " --address " + options.address + " --collection " + options.collection +
      " --dim " + std::to_string(options.dim) + " -k " + std::to_string(options.k) +
      (filter_share < 1 ? absl::StrCat(" --filter-shares ", filter_share) : "");
  return Summarize(RunInProcesses(command, load, options.processes));
}

// Times searches without and during an upload into another collection. The searches must end before
// the upload, which is expected to take `upload_seconds`; the run fails if it is faster.
void RunDuringUpload(client::Client& client, const Options& options, double upload_seconds) {
  const Load load = {.callers = 16, .seconds = std::max(0.5, 0.5 * upload_seconds)};
  PrintLoad("closed_no_upload", options, load.callers, RunSearches(options, load));
  const std::string other = options.collection + "_other";
  OrFail(client.CreateCollection({.name = other, .dim = static_cast<uint32_t>(options.dim)}),
         "create");
  const std::vector<float> rows = GaussianRows(options.upload_rows, options.dim, 2);
  LoadFigures figures;
  std::atomic<bool> searched{false};
  std::thread searches([&] {
    figures = RunSearches(options, load);
    searched.store(true);
  });
  const UploadFigures upload = UploadRows(client, options, other, rows);
  const bool beside = searched.load();
  searches.join();
  PrintUpload("upload_during_searches", options, options.upload_rows, upload);
  if (!beside) Fail("the upload ended before the searches beside it: give it more rows");
  PrintLoad("closed_during_upload", options, load.callers, figures);
  OrFail(client.DropCollection(other), "drop");
}

ServiceTarget Connect(const Options& options, size_t connections) {
  ServiceTarget target = {.clients = {}, .collection = options.collection};
  for (size_t i = 0; i < connections; ++i) {
    target.clients.push_back(OrFail(client::Client::Connect({.address = options.address,
                                                             .deadline = std::chrono::minutes(1),
                                                             .retry = {.tries_max = 1}}),
                                    "connect"));
  }
  target.queries = GaussianRows(kQueries, options.dim, kQuerySeed);
  target.dim = static_cast<uint32_t>(options.dim);
  target.k = options.k;
  return target;
}

size_t CallersOf(const Options& options) { return static_cast<size_t>(options.callers.front()); }

int RunWorker(const Options& options) {
  ServiceTarget target = Connect(options, kConnections);
  for (size_t i = 0; !options.filter_shares.empty() && i < CallersOf(options); ++i) {
    target.filters.push_back(LotFilter(options.seed + i, options.filter_shares.front()));
  }
  PrintTally(RunLoad(
      target,
      {.callers = options.callers.front(), .seconds = options.seconds, .rate = options.rate},
      options.seed));
  return 0;
}

int Run(const Options& options) {
  ServiceTarget target = Connect(options, 1);
  client::Client& client = target.clients.front();
  double upload_seconds = 0;
  if (options.fill) {
    upload_seconds = Fill(client, options).seconds * static_cast<double>(options.upload_rows) /
                     static_cast<double>(options.rows_count);
  }
  Verify(client, options, target, std::nullopt);
  for (const double share : options.filter_shares) {
    Verify(client, options, target, LotFilter(kQuerySeed, share));
  }
  RunSearches(options, {.callers = 8, .seconds = 1});  // warm-up
  double rate_max = 0;
  for (const int32_t callers : options.callers) {
    const LoadFigures figures =
        RunSearches(options, {.callers = callers, .seconds = options.seconds});
    rate_max = std::max(rate_max, figures.per_second);
    PrintLoad("closed", options, callers, figures);
    for (const double share : options.filter_shares) {
      const Load load = {.callers = callers, .seconds = options.seconds};
      PrintLoad("closed", options, callers, RunSearches(options, load, share), share);
    }
  }
  for (const double share : options.shares) {
    const Load load = {
        .callers = kOpenCallers, .seconds = options.seconds, .rate = share * rate_max};
    PrintLoad("open", options, load.rate, RunSearches(options, load));
  }
  if (options.upload_rows > 0) RunDuringUpload(client, options, upload_seconds);
  return 0;
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("service_bench: a running nearfield-server under load");
  nearfield::bench::Options options;
  app.add_option("--address", options.address, "a running nearfield-server")->capture_default_str();
  app.add_option("--collection", options.collection, "searched; made with --fill")
      ->capture_default_str();
  app.add_flag("--fill", options.fill, "make the collection, and upload its rows");
  app.add_option("--rows", options.rows_count, "rows of the collection")->capture_default_str();
  app.add_option("--dim", options.dim, "of the collection")->capture_default_str();
  app.add_option("-k", options.k, "neighbors")->capture_default_str();
  app.add_option("--seconds", options.seconds, "of each load")->capture_default_str();
  app.add_option("--callers", options.callers, "closed loops: callers at once")->delimiter(',');
  app.add_option("--shares", options.shares, "open loops: share of the greatest closed-loop rate")
      ->delimiter(',');
  app.add_option("--filter-shares", options.filter_shares,
                 "closed loops in which each caller has its own filter: rows that pass")
      ->check(CLI::Range(0.0, 1.0))
      ->delimiter(',');
  app.add_option("--upload-rows", options.upload_rows, "rows uploaded beside searches; 0: none")
      ->capture_default_str();
  app.add_option("--verified", options.verified, "answers that the oracle checks")
      ->capture_default_str();
  app.add_flag("--rows-alone", options.rows_alone, "keep no copy for scans: uploads do not encode");
  app.add_option("--block-bytes", options.block_bytes, "of an upload")->capture_default_str();
  app.add_option("--processes", options.processes, "that share a load")->capture_default_str();
  app.add_flag("--worker", options.worker, "one of those: prints what it saw")->group("");
  app.add_option("--rate", options.rate, "of a worker")->group("");
  app.add_option("--seed", options.seed, "of a worker")->group("");
  CLI11_PARSE(app, argc, argv);
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  return options.worker ? nearfield::bench::RunWorker(options) : nearfield::bench::Run(options);
}
