#include "tests/bench/service_processes.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "tests/bench/fail.h"

namespace nearfield::bench {
namespace {

LoadTally ReadTally(std::FILE* from) {
  LoadTally tally;
  size_t answered = 0;
  char line[256] = {};
  char error[1024] = {};
  if (std::fgets(line, sizeof(line), from) == nullptr ||
      std::sscanf(line, "%zu %" SCNd64 " %lf %lf", &answered, &tally.failed, &tally.batch_sum,
                  &tally.seconds) != 4 ||
      std::fgets(error, sizeof(error), from) == nullptr) {
    Fail("a worker ended without a tally");
  }
  tally.error = error;
  tally.took_us.resize(answered);
  for (double& took : tally.took_us) {
    if (std::fscanf(from, "%lf", &took) != 1) Fail("a worker ended in its tally");
  }
  return tally;
}

}  // namespace

void PrintTally(const LoadTally& tally) {
  std::string error = tally.error.substr(0, 1000);
  std::replace(error.begin(), error.end(), '\n', ' ');
  std::printf("%zu %" PRId64 " %.1f %.6f\n%s\n", tally.took_us.size(), tally.failed,
              tally.batch_sum, tally.seconds, error.c_str());
  for (const double took : tally.took_us) std::printf("%.1f\n", took);
}

std::vector<LoadTally> RunInProcesses(const std::string& command, const Load& load,
                                      int32_t processes) {
  const int32_t count = std::min(processes, load.callers);
  std::vector<std::FILE*> workers;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t callers = load.callers / count + (i < load.callers % count ? 1 : 0);
    const std::string line = command + " --worker --callers " + std::to_string(callers) +
                             " --seconds " + std::to_string(load.seconds) + " --rate " +
                             std::to_string(load.rate / count) + " --seed " +
                             std::to_string(7 + 101 * i);
    workers.push_back(::popen(line.c_str(), "r"));
    if (workers.back() == nullptr) Fail("a worker cannot be started");
  }
  std::vector<LoadTally> tallies;
  for (std::FILE* worker : workers) {
    tallies.push_back(ReadTally(worker));
    if (::pclose(worker) != 0) Fail("a worker failed");
  }
  return tallies;
}

}  // namespace nearfield::bench
