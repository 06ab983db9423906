// Selection benchmark on the device: compares every case with the oracle, then times it as one call
// between two events and as 20 calls in a graph. A wrong result is reported and not timed, and the
// exit code is 1. Prints one line "NEARFIELD_BENCH_JSON {...}" per case with --json, else a table.
// The predicted limit is (scores read + results written) / --read-tb-s.
#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "tests/bench/fail.h"
#include "tests/bench/options.h"
#include "tests/bench/select_runner.h"
#include "tests/bench/timed_case.h"

namespace nearfield::bench {
namespace {

struct Config {
  std::vector<TimedCase> cases;
  std::string tune_file;
  bool json = false;
  bool tiny = false;
  unsigned limit_s = 20;
  double read_tb_s = 4.53;
  SelectRunnerOptions runner;
};

// The values of each axis, in the order of a case's line.
using Axes = std::array<std::vector<std::string>, 6>;
constexpr std::array<const char*, 6> kAxisNames = {"--batch", "--n",     "--k",
                                                   "--type",  "--input", "--algorithm"};
constexpr size_t kN = 1;
constexpr size_t kK = 2;

// Returns every combination with k <= n. The algorithm changes fastest, then k: neighbors share an
// input.
absl::StatusOr<std::vector<TimedCase>> Combine(const Axes& axes) {
  std::vector<std::array<std::string, 6>> lines = {{}};
  for (const size_t axis : {0, 1, 3, 4, 2, 5}) {
    std::vector<std::array<std::string, 6>> longer;
    for (const auto& line : lines) {
      for (const std::string& value : axes[axis]) {
        longer.push_back(line);
        longer.back()[axis] = value;
      }
    }
    lines = std::move(longer);
  }
  std::vector<TimedCase> cases;
  for (const auto& line : lines) {
    int64_t n = 0;
    int64_t k = 0;
    if (absl::SimpleAtoi(line[kN], &n) && absl::SimpleAtoi(line[kK], &k) && k > n) continue;
    ABSL_ASSIGN_OR_RETURN(TimedCase one, ParseTimedCase(absl::StrJoin(line, " ")));
    cases.push_back(std::move(one));
  }
  return cases;
}

const Axes& UsualAxes() {
  static const Axes axes = {{{"1"}, {"1000000"}, {"100"}, {"fp32"}, {"normal"}, {"adaptive"}}};
  return axes;
}

const Axes& TinyAxes() {
  static const Axes axes = {{{"1", "3"},
                             {"1", "1000", "4099"},
                             {"1", "100"},
                             {"fp32", "bf16"},
                             {"normal", "two_values"},
                             {"all"}}};
  return axes;
}

const Axes& TuneAxes() {
  static const Axes axes = {{{"1", "2", "4", "8", "16", "32", "64", "128", "256", "1024", "4096"},
                             {"1024", "2048", "4096", "8192", "16384", "32768", "65536", "131072",
                              "262144", "1048576", "4194304", "16777216", "100000000"},
                             {"1", "8", "32", "128", "512", "1024", "2048", "8192"},
                             {"fp32"},
                             {"normal"},
                             {"all"}}};
  return axes;
}

// The options, before the cases are made from them.
struct Options {
  Config config;
  Axes axes = UsualAxes();
  std::string case_file;
};

void AddOptions(CLI::App& app, Options& options) {
  Config& config = options.config;
  AddTiny(app, [&] {
    config.tiny = true;
    options.axes = TinyAxes();
    config.runner.runs_min = 3;
    config.runner.runs_max = 3;
  });
  app.add_option_function<std::string>(
      "--tune",
      [&](const std::string& file) {
        config.tune_file = file;
        options.axes = TuneAxes();
        config.runner.runs_min = 21;
        config.runner.runs_max = 31;
        config.runner.seconds = 0.005;
        config.runner.graph = false;
      },
      "CSV of every algorithm over a coarse grid: batch,n,k,algorithm,us");
  for (size_t axis = 0; axis < kAxisNames.size(); ++axis) {
    app.add_option(kAxisNames[axis], options.axes[axis], "an axis: every value, with k up to n")
        ->delimiter(',')
        ->capture_default_str();
  }
  app.add_option("--case-file", options.case_file,
                 "one case per line, batch n k [type [input [algorithm]]], in place of the axes");
  app.add_flag("--json", config.json, "one JSON row per case, marked as the campaign reads it");
  AddPositive(app, "--runs", config.runner.runs_min,
              "minimum of timed calls (11 if a call takes more than 5 ms)");
  app.add_option("--seconds", config.runner.seconds,
                 "for each figure of a case, once it has its runs")
      ->capture_default_str();
  app.add_option("--limit-s", config.limit_s,
                 "a case that takes longer hangs: the program names it and ends")
      ->capture_default_str();
  AddPositive(app, "--read-tb-s", config.read_tb_s,
              "measured streaming read of the GPU, for the limit");
  app.add_option("--seed", config.runner.seed, "of the inputs")->capture_default_str();
}

absl::StatusOr<Config> ConfigOf(Options options) {
  Config& config = options.config;
  config.runner.runs_max = std::max(config.runner.runs_max, config.runner.runs_min);
  if (options.case_file.empty()) {
    ABSL_ASSIGN_OR_RETURN(config.cases, Combine(options.axes));
  } else {
    ABSL_ASSIGN_OR_RETURN(config.cases, ReadTimedCases(options.case_file));
  }
  return std::move(config);
}

std::string Number(double value) { return absl::StrFormat("%.2f", value); }

std::string Json(const TimedCase& one, const SelectRow& row, double limit_us) {
  std::string line = absl::StrFormat(
      R"({"bench":"select","name":"%s","choice":"%s","batch":%d,"n":%d,"k":%d,"dtype":"%s",)"
      R"("input":"%s","us":%.2f)",
      one.algorithm, row.choice, one.shape.batch, one.shape.n, one.shape.k,
      select::FormatOf(one.shape.type).name, NameOf(one.input), row.us);
  if (row.graph_us) absl::StrAppend(&line, ",\"graph_us\":", Number(*row.graph_us));
  absl::StrAppendFormat(&line,
                        R"(,"limit_us":%.2f,"share_of_limit":%.3f,"runs":%d,"copies":%d,)"
                        R"("warm":%s,"workspace_bytes":%d,"hash":"%016x","matches_oracle":true})",
                        limit_us, limit_us / row.us, row.runs, row.copies,
                        row.warm ? "true" : "false", row.workspace_bytes, row.hash);
  return line;
}

std::string JsonWrong(const TimedCase& one, absl::string_view message) {
  return absl::StrFormat(
      R"({"bench":"select","name":"%s","batch":%d,"n":%d,"k":%d,"dtype":"%s","input":"%s",)"
      R"("error":"%s","matches_oracle":false})",
      one.algorithm, one.shape.batch, one.shape.n, one.shape.k,
      select::FormatOf(one.shape.type).name, NameOf(one.input), message);
}

// Message that the watchdog prints before it ends the program.
std::array<char, 256> g_hanging{};

extern "C" void OnAlarm(int /*signal*/) {
  const size_t length = strnlen(g_hanging.data(), g_hanging.size());
  if (write(STDERR_FILENO, g_hanging.data(), length) < 0) _exit(10);
  _exit(9);
}

// Gives this case limit_s seconds.
void Watch(const TimedCase& one, unsigned limit_s) {
  alarm(0);
  absl::SNPrintF(g_hanging.data(), g_hanging.size(), "select_bench: hangs: %s\n", Describe(one));
  alarm(limit_s);
}

void Print(const Config& config, const TimedCase& one, const SelectRow& row) {
  const double limit_us = static_cast<double>(BytesMoved(one.shape)) / (config.read_tb_s * 1e6);
  if (config.json) {
    std::printf("NEARFIELD_BENCH_JSON %s\n", Json(one, row, limit_us).c_str());
  } else {
    std::printf("%-52s %10.2f us %10s graph %9.2f limit %5.2f of it  %s%s %016llx\n",
                Describe(one).c_str(), row.us, row.graph_us ? Number(*row.graph_us).c_str() : "-",
                limit_us, limit_us / row.us, row.choice.c_str(), row.warm ? " (warm)" : "",
                static_cast<unsigned long long>(row.hash));
  }
  std::fflush(stdout);
}

// Writes the CSV. Skips an algorithm for larger n once it took more than 20 times as long as the
// best one.
class Tuner {
 public:
  explicit Tuner(std::FILE* file) : file_(file) {
    if (file_ != nullptr) std::fputs("batch,n,k,algorithm,us\n", file_);
  }
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;
  ~Tuner() {
    if (file_ != nullptr) std::fclose(file_);
  }

  bool Skips(const TimedCase& one) {
    if (file_ == nullptr) return false;
    if (one.algorithm == select::kAdaptive || one.algorithm == kSelectBlockBubble) return true;
    const Line line = {one.shape.batch, one.shape.k};
    if (slow_.contains({line, one.algorithm})) return true;
    const auto& by_n = us_[line];
    const auto next = by_n.lower_bound(one.shape.n);
    if (next == by_n.begin()) return false;
    const std::map<std::string, double>& before = std::prev(next)->second;
    const auto own = before.find(one.algorithm);
    if (own == before.end()) return false;
    double best_us = own->second;
    for (const auto& [name, us] : before) best_us = std::min(best_us, us);
    if (own->second <= 20 * best_us) return false;
    slow_.insert({line, one.algorithm});
    return true;
  }

  void Note(const TimedCase& one, const SelectRow& row) {
    if (file_ == nullptr) return;
    us_[{one.shape.batch, one.shape.k}][one.shape.n][one.algorithm] = row.us;
    absl::FPrintF(file_, "%d,%d,%d,%s,%.2f\n", one.shape.batch, one.shape.n, one.shape.k,
                  one.algorithm, row.us);
  }

 private:
  using Line = std::pair<int64_t, int64_t>;  // batch, k

  std::FILE* file_;                                                      // owned; null: no tuning
  std::map<Line, std::map<int64_t, std::map<std::string, double>>> us_;  // by n, by algorithm
  std::set<std::pair<Line, std::string>> slow_;
};

// Drops cases with inputs above 1 GiB: a coarse grid does not need them.
std::vector<TimedCase> WithoutHuge(const std::vector<TimedCase>& cases) {
  std::vector<TimedCase> kept;
  for (const TimedCase& one : cases) {
    if (InputBytes(one.shape) <= int64_t{1} << 30) kept.push_back(one);
  }
  return kept;
}

// Runs every case. Returns the number of wrong ones.
absl::StatusOr<int> RunCases(const Config& config) {
  const bool tunes = !config.tune_file.empty();
  std::FILE* const file = tunes ? std::fopen(config.tune_file.c_str(), "w") : nullptr;
  if (tunes && file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot write ", config.tune_file));
  }
  Tuner tuner(file);
  ABSL_ASSIGN_OR_RETURN(
      const std::unique_ptr<SelectRunner> runner,
      SelectRunner::Create(config.runner, tunes ? WithoutHuge(config.cases) : config.cases));
  for (const std::string& dropped : runner->dropped()) {
    std::printf("select_bench: left out: %s\n", dropped.c_str());
  }
  int wrong = 0;
  for (const TimedCase& one : runner->cases()) {
    if (tuner.Skips(one)) continue;
    Watch(one, config.limit_s);
    const absl::StatusOr<SelectRow> row = runner->Run(one);
    if (row.ok()) {
      tuner.Note(one, *row);
      if (!tunes) Print(config, one, *row);
      continue;
    }
    const std::string message(row.status().message());
    if (!absl::IsDataLoss(row.status())) {
      return absl::Status(row.status().code(), absl::StrCat(Describe(one), ": ", message));
    }
    ++wrong;
    if (config.json) std::printf("NEARFIELD_BENCH_JSON %s\n", JsonWrong(one, message).c_str());
    std::fflush(stdout);
    absl::FPrintF(stderr, "select_bench: wrong: %s: %s\n", Describe(one), message);
  }
  alarm(0);
  return wrong;
}

absl::Status Run(const Config& config) {
  std::signal(SIGALRM, OnAlarm);
  ABSL_ASSIGN_OR_RETURN(const int wrong, RunCases(config));
  if (wrong == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(wrong, " cases with a wrong result"));
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("select_bench: the selection library, checked and timed on the device");
  nearfield::bench::Options options;
  nearfield::bench::AddOptions(app, options);
  CLI11_PARSE(app, argc, argv);
  const auto config = nearfield::bench::ConfigOf(std::move(options));
  if (!config.ok()) return nearfield::bench::ExitCode(config.status());
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices);
      error != cudaSuccess || devices == 0) {
    std::printf("select_bench: skipped, no GPU: %s\n", cudaGetErrorString(error));
    return config->tiny ? 0 : 3;
  }
  return nearfield::bench::ExitCode(nearfield::bench::Run(*config));
}
