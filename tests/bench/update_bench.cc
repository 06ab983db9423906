// Loads a running nearfield-server with updates of attributes: calls of many rows, calls of one row
// by many callers, and searches without and during such calls. Fills a collection first. Checks
// after each load of updates that each of its rows has the value that was written last. Prints
// lines "NEARFIELD_BENCH_JSON {...}". Exits with 1 if a call failed or a value was wrong.
//
// The one-row calls come from a process that runs only when a core is idle (SCHED_IDLE), so that it
// takes no time from the server and the searches, as if it ran on another machine. Each line has
// the processor time of the server, of this program, and of the rest of the machine, so that
// contention shows.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tests/bench/bench_data.h"
#include "tests/bench/fail.h"
#include "tests/bench/options.h"
#include "tests/bench/service_load.h"
#include "tests/bench/service_processes.h"
#include "tests/bench/timing.h"

namespace nearfield::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kCollection[] = "update_bench";
constexpr int64_t kPartRows = 100'000;  // passed to the client at a time
constexpr int64_t kQueries = 1024;
constexpr int32_t kSearchCallers = 16;
constexpr int kLargeCalls = 10;

const client::FetchOptions kStatusAlone = {
    .with_payload = false, .with_vectors = false, .attributes = {"status"}};
const client::FetchOptions kVersionAlone = {
    .with_payload = false, .with_vectors = false, .attributes = {"version"}};

struct Options {
  std::string address = "127.0.0.1:50051";
  std::string data_dir;    // of the server, to time syncs of its disk
  int64_t server_pid = 0;  // to measure the processor time of the server
  int64_t rows_count = 1'000'000;
  int32_t dim = 64;
  int64_t call_rows = 10'000;  // of a large call
  int32_t callers = 64;        // that update one row per call
  double rate = 2000;          // of these calls per second during searches
  double search_rate = 25;     // searches per second
  double seconds = 10;         // of a load of updates alone
  double search_seconds = 40;  // of a load with searches
  int32_t rounds = 1;          // of loads with searches
  bool worker = false;         // makes one-row calls for another process of this program
  bool reads = false;          // only for a worker
  uint64_t seed = 0;           // only for a worker
  std::string program;         // path of this program
};

// Returns the median milliseconds of a sync after a write of 4 KiB in the folder.
double SyncMs(const std::string& folder) {
  const std::string path = folder + "/update_bench.tmp";
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) Fail("cannot write " + path);
  const std::string block(4096, 'x');
  const Timing timing = MedianOf({.runs = 50}, [&](int) {
    if (::write(file, block.data(), block.size()) != 4096 || ::fdatasync(file) != 0) {
      Fail("cannot sync " + path);
    }
  });
  ::close(file);
  ::unlink(path.c_str());
  return timing.median_us / 1e3;
}

// Processor time in seconds so far, or as a share of the elapsed time: in cores.
struct CpuTime {
  double server = 0;
  double load = 0;   // this process, and those that it started and that have ended
  double other = 0;  // the rest of the machine
};

// Returns the fields of a file of /proc, without the `skipped` first ones.
std::vector<double> FieldsOf(const std::string& path, size_t skipped) {
  std::ifstream file(path);
  std::vector<double> fields;
  std::string line;
  std::getline(file, line);
  std::istringstream words(line.substr(line.rfind(')') + 1));  // after the name of a program
  for (std::string word; words >> word;) {
    if (skipped > 0) {
      --skipped;
    } else {
      fields.push_back(std::strtod(word.c_str(), nullptr));
    }
  }
  if (fields.size() < 8) Fail("cannot read " + path);
  return fields;
}

CpuTime CpuTimeNow(const Options& options) {
  CpuTime now;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage = {};
    ::getrusage(who, &usage);
    for (const timeval& part : {usage.ru_utime, usage.ru_stime}) {
      now.load += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) / 1e6;
    }
  }
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  // user, system
  const auto server = FieldsOf("/proc/" + std::to_string(options.server_pid) + "/stat", 11);
  now.server = (server[0] + server[1]) / ticks;
  // user, nice, system, idle, iowait, irq, softirq, steal
  const auto all = FieldsOf("/proc/stat", 1);
  now.other = (std::accumulate(all.begin(), all.begin() + 8, 0.0) - all[3] - all[4]) / ticks -
              now.server - now.load;
  return now;
}

CpuTime CoresDuring(const Options& options, const std::function<void()>& phase) {
  const CpuTime before = CpuTimeNow(options);
  const auto begin = Clock::now();
  phase();
  const double seconds = SecondsSince(begin);
  const CpuTime after = CpuTimeNow(options);
  return {.server = (after.server - before.server) / seconds,
          .load = (after.load - before.load) / seconds,
          .other = std::max(0.0, (after.other - before.other) / seconds)};
}

client::Client Connect(const Options& options) {
  return OrFail(client::Client::Connect({.address = options.address,
                                         .deadline = std::chrono::minutes(1),
                                         .retry = {.tries_max = 1}}),
                "connect");
}

std::vector<int64_t> VersionsOf(client::Client& client, int32_t callers) {
  std::vector<uint64_t> ids(static_cast<size_t>(callers));
  std::iota(ids.begin(), ids.end(), 0);
  const auto found = OrFail(client.Fetch(kCollection, ids, kVersionAlone), "fetch");
  if (found.attributes.size() != 1) Fail("a row has no version");
  return std::get<std::vector<int64_t>>(found.attributes[0].values);
}

// Runs calls that each add 1 to the version of one row, a row for each caller, and checks the rows.
LoadTally UpdateRows(client::Client& client, const Load& load, uint64_t seed) {
  const uint64_t epoch = OrFail(client.GetCollection(kCollection)).epoch;
  std::vector<int64_t> versions = VersionsOf(client, load.callers);
  LoadTally tally =
      RunCalls(load, seed, [&](size_t caller, size_t, Clock::time_point due, LoadTally* each) {
        const std::vector<int64_t> next = {versions[caller] + 1};
        const client::IdColumn ids = std::vector<uint64_t>{caller};
        const auto answer =
            client.Update(kCollection, ids,
                          {.attributes = {{.column = {.attribute = "version", .values = next}}}});
        Note(answer.status(), due, each);
        if (answer.ok()) versions[caller] = next[0];
      });
  if (tally.failed > 0) return tally;
  if (OrFail(client.GetCollection(kCollection)).epoch != epoch + tally.took_us.size()) {
    Fail("the epoch does not count the updates");
  }
  if (VersionsOf(client, load.callers) != versions)
    Fail("a version is not that of its last update");
  return tally;
}

// Runs calls that each read the row that UpdateRows changes.
LoadTally FetchRows(client::Client& client, const Load& load, uint64_t seed) {
  return RunCalls(load, seed, [&](size_t caller, size_t, Clock::time_point due, LoadTally* tally) {
    const client::IdColumn ids = std::vector<uint64_t>{caller};
    Note(client.Fetch(kCollection, ids, kVersionAlone).status(), due, tally);
  });
}

int RunWorker(const Options& options) {
  client::Client client = Connect(options);
  const Load load = {.callers = options.callers, .seconds = options.seconds, .rate = options.rate};
  PrintTally(options.reads ? FetchRows(client, load, options.seed)
                           : UpdateRows(client, load, options.seed));
  return 0;
}

// Runs one-row calls in another process.
LoadTally RunOneRowCalls(const Options& options, const Load& load, bool reads) {
  const std::string command = "chrt --idle 0 " + options.program + " --address " + options.address +
                              " --data-dir " + options.data_dir + " --server-pid " +
                              std::to_string(options.server_pid) + (reads ? " --reads" : "");
  return std::move(RunInProcesses(command, load, /*processes=*/1).front());
}

void Fill(client::Client& client, const Options& options) {
  OrFail(client.CreateCollection(
             {.name = kCollection,
              .dim = static_cast<uint32_t>(options.dim),
              .attributes = {{.name = "status", .type = client::AttributeType::kKeyword},
                             {.name = "version", .type = client::AttributeType::kInt64}}}),
         "create");
  const int64_t least = std::max<int64_t>(options.call_rows, options.callers);
  if (options.rows_count < least) Fail("--rows must be at least " + std::to_string(least));
  const std::vector<float> rows = GaussianRows(options.rows_count, options.dim, 1);
  client::Upload upload =
      OrFail(client.BeginUpload({.collection = kCollection,
                                 .rows_max = static_cast<uint64_t>(options.rows_count)}),
             "begin");
  for (int64_t first = 0; first < options.rows_count; first += kPartRows) {
    const auto count = static_cast<size_t>(std::min(kPartRows, options.rows_count - first));
    std::vector<uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), static_cast<uint64_t>(first));
    const client::IdColumn ids = std::move(numbers);
    const std::string_view bytes(reinterpret_cast<const char*>(rows.data() + first * options.dim),
                                 count * static_cast<size_t>(options.dim) * sizeof(float));
    const std::vector<client::AttributeColumn> attributes = {
        {.attribute = "status", .values = std::vector<std::string>(count, "new")},
        {.attribute = "version", .values = std::vector<int64_t>(count, 0)}};
    OrFail(upload.Write({.ids = &ids, .vectors = bytes, .attributes = attributes}));
  }
  OrFail(upload.Commit(), "commit");
}

// Times calls that give many random rows a keyword each that no row has.
void RunLargeCalls(client::Client& client, const Options& options) {
  std::mt19937_64 random(11);
  std::vector<uint64_t> all(static_cast<size_t>(options.rows_count));
  std::iota(all.begin(), all.end(), 0);
  std::vector<double> times_ms;
  for (int repeat = 0; repeat < kLargeCalls; ++repeat) {
    std::shuffle(all.begin(), all.end(), random);
    const std::vector<uint64_t> chosen(all.begin(), all.begin() + options.call_rows);
    std::vector<std::string> words;
    for (size_t i = 0; i < chosen.size(); ++i) {
      words.push_back("call " + std::to_string(repeat) + " row " + std::to_string(i));
    }
    const client::RowUpdate update = {
        .attributes = {{.column = {.attribute = "status", .values = words}}}};
    const auto begin = Clock::now();
    const auto answer = OrFail(client.Update(kCollection, chosen, update), "update");
    times_ms.push_back(1e3 * SecondsSince(begin));
    const auto found = OrFail(client.Fetch(kCollection, chosen, kStatusAlone), "fetch");
    if (answer.rows_updated != chosen.size() || found.attributes.size() != 1 ||
        found.attributes[0].values != client::AttributeValues(words)) {
      Fail("a keyword is not that of the last call");
    }
  }
  std::sort(times_ms.begin(), times_ms.end());
  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\": \"update\", \"what\": \"large_calls\", \"n\": %lld, "
      "\"dim\": %d, \"call_rows\": %lld, \"median_ms\": %.1f, \"max_ms\": %.1f, "
      "\"sync_ms\": %.2f}\n",
      static_cast<long long>(options.rows_count), options.dim,
      static_cast<long long>(options.call_rows), times_ms[times_ms.size() / 2], times_ms.back(),
      SyncMs(options.data_dir));
  std::fflush(stdout);
}

// `rate`: 0 in a closed loop.
void Print(const Options& options, const char* what, double rate, const LoadTally& tally,
           const CpuTime& cores) {
  const LoadFigures figures = Summarize({tally});
  if (figures.failed > 0) Fail(figures.error);
  std::printf(
      "NEARFIELD_BENCH_JSON {\"bench\": \"update\", \"what\": \"%s\", \"n\": %lld, \"dim\": %d, "
      "\"rate\": %.0f, \"per_second\": %.1f, \"p50_us\": %.0f, \"p99_us\": %.0f, "
      "\"max_us\": %.0f, \"server_cores\": %.2f, \"load_cores\": %.2f, \"other_cores\": %.2f, "
      "\"sync_ms\": %.2f}\n",
      what, static_cast<long long>(options.rows_count), options.dim, rate, figures.per_second,
      figures.p50_us, figures.p99_us, figures.max_us, cores.server, cores.load, cores.other,
      SyncMs(options.data_dir));
  std::fflush(stdout);
}

enum class Meanwhile : uint8_t { kNothing, kFetches, kUpdates };

// Runs searches at random times, and one-row calls meanwhile.
void RunSearches(const Options& options, const ServiceTarget& target, Meanwhile calls) {
  const Load load = {
      .callers = options.callers, .seconds = options.search_seconds, .rate = options.rate};
  LoadTally searches;
  LoadTally other;
  const CpuTime cores = CoresDuring(options, [&] {
    std::thread meanwhile([&] {
      if (calls == Meanwhile::kNothing) return;
      other = RunOneRowCalls(options, load, /*reads=*/calls == Meanwhile::kFetches);
    });
    searches = RunLoad(
        target,
        {.callers = kSearchCallers, .seconds = options.search_seconds, .rate = options.search_rate},
        /*seed=*/13);
    meanwhile.join();
  });
  switch (calls) {
    case Meanwhile::kNothing:
      return Print(options, "searches_alone", options.search_rate, searches, cores);
    case Meanwhile::kFetches:
      Print(options, "searches_during_fetches", options.search_rate, searches, cores);
      return Print(options, "fetches", options.rate, other, cores);
    case Meanwhile::kUpdates:
      Print(options, "searches_during_updates", options.search_rate, searches, cores);
      return Print(options, "updates", options.rate, other, cores);
  }
}

int Run(const Options& options) {
  client::Client client = Connect(options);
  Fill(client, options);
  RunLargeCalls(client, options);
  LoadTally tally;
  const CpuTime cores = CoresDuring(options, [&] {
    tally = RunOneRowCalls(options, {.callers = options.callers, .seconds = options.seconds},
                           /*reads=*/false);
  });
  Print(options, "updates_alone", 0, tally, cores);
  const ServiceTarget target = {.clients = {client},
                                .collection = kCollection,
                                .queries = GaussianRows(kQueries, options.dim, /*seed=*/999),
                                .dim = static_cast<uint32_t>(options.dim)};
  for (int round = 0; round < options.rounds; ++round) {
    for (const Meanwhile calls : {Meanwhile::kNothing, Meanwhile::kFetches, Meanwhile::kUpdates}) {
      RunSearches(options, target, calls);
    }
  }
  OrFail(client.DropCollection(kCollection), "drop");
  return 0;
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  using nearfield::bench::AddPositive;
  CLI::App app("update_bench: a running nearfield-server under updates");
  nearfield::bench::Options options;
  nearfield::bench::AddTiny(app, [&options] {
    options.rows_count = 2000;
    options.dim = 16;
    options.call_rows = 500;
    options.rate = 200;
    options.seconds = 0.5;
    options.search_seconds = 0.5;
    options.rounds = 1;
  });
  app.add_option("--address", options.address, "a running nearfield-server")->capture_default_str();
  app.add_option("--data-dir", options.data_dir, "of the server")->required();
  app.add_option("--server-pid", options.server_pid, "its process")->required();
  AddPositive(app, "--rows", options.rows_count, "rows of the collection");
  AddPositive(app, "--dim", options.dim, "of the collection");
  AddPositive(app, "--callers", options.callers, "that make calls for one row each");
  app.add_option("--rate", options.rate, "of these calls per second during searches")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddPositive(app, "--search-rate", options.search_rate, "searches per second");
  AddPositive(app, "--seconds", options.seconds, "of updates without searches");
  AddPositive(app, "--search-seconds", options.search_seconds, "of each load with searches");
  AddPositive(app, "--rounds", options.rounds, "of loads with searches");
  app.add_flag("--worker", options.worker, "makes one-row calls: prints what it saw")->group("");
  app.add_flag("--reads", options.reads, "of a worker: calls that change nothing")->group("");
  app.add_option("--seed", options.seed, "of a worker")->group("");
  CLI11_PARSE(app, argc, argv);
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  return options.worker ? nearfield::bench::RunWorker(options) : nearfield::bench::Run(options);
}
