// Entry point of the crash harness. See scripts/crash --help.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/fault/crash_campaign.h"

namespace nearfield::fault {
namespace {

struct Arguments {
  CampaignOptions campaign;
  bool deaths = true;
  bool errors = true;
  bool controls = true;
  bool flips = true;
  std::string work;  // empty: in memory, else in /tmp
};

void Usage() {
  std::fprintf(stderr,
               "usage: crash_main [--points N] [--seed S] [--jobs N] [--error-steps N]\n"
               "                  [--allocations N] [--flip-step N] [--work DIR]\n"
               "                  [--only deaths|errors|controls|flips] [--patched-workers DIR]\n");
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  CampaignOptions& campaign = arguments->campaign;
  const std::map<std::string, int64_t*> numbers = {{"--points", &campaign.points},
                                                   {"--jobs", &campaign.jobs},
                                                   {"--error-steps", &campaign.error_steps},
                                                   {"--flip-step", &campaign.flip_step},
                                                   {"--allocations", &campaign.allocations}};
  const std::map<std::string, std::string*> texts = {
      {"--patched-workers", &campaign.patched_workers}, {"--work", &arguments->work}};
  const std::map<std::string, bool*> parts = {{"deaths", &arguments->deaths},
                                              {"errors", &arguments->errors},
                                              {"controls", &arguments->controls},
                                              {"flips", &arguments->flips}};
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 == argc) return false;
    const std::string flag = argv[i];
    const std::string value = argv[i + 1];
    if (flag == "--seed") {
      campaign.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (numbers.count(flag) > 0) {
      *numbers.at(flag) = std::strtoll(value.c_str(), nullptr, 10);
    } else if (texts.count(flag) > 0) {
      *texts.at(flag) = value;
    } else if (flag == "--only" && parts.count(value) > 0) {
      for (const auto& [name, chosen] : parts) *chosen = name == value;
    } else {
      return false;
    }
  }
  return true;
}

int64_t CountCaught(const CampaignOptions& options) {
  const std::vector<Control> controls = Controls(options);
  std::atomic<int64_t> caught{0};
  InParallel(options.jobs, static_cast<int64_t>(controls.size()), [&](int64_t n) {
    const Control& control = controls[static_cast<size_t>(n)];
    const bool found = Caught(options, control);
    if (found) ++caught;
    std::fprintf(stderr, "control %s: %s\n", control.name.c_str(), found ? "caught" : "NOT CAUGHT");
  });
  return caught;
}

// Sets the campaign's directory. The harness models the loss of data, so a file system in memory
// works too and is faster.
bool MakeDirectory(const Arguments& arguments, std::string* dir) {
  const std::vector<std::string> places = arguments.work.empty()
                                              ? std::vector<std::string>{"/dev/shm", "/tmp"}
                                              : std::vector<std::string>{arguments.work};
  for (const std::string& place : places) {
    *dir = place + "/nearfield-crash-XXXXXX";
    if (::mkdtemp(dir->data()) != nullptr) return true;
  }
  std::fprintf(stderr, "crash: cannot make a directory in %s\n", places.back().c_str());
  return false;
}

int Main(Arguments arguments) {
  CampaignOptions& options = arguments.campaign;
  if (!MakeDirectory(arguments, &options.dir)) return 2;
  Tally tally;
  if (arguments.deaths) tally.Add(RunDeaths(options));
  if (arguments.errors) {
    const Tally errors = RunErrors(options);
    std::fprintf(stderr, "errors: %lld failed calls, %lld operations acknowledged\n",
                 static_cast<long long>(errors.points), static_cast<long long>(errors.acked));
    Tally counted = errors;
    counted.points = 0;  // points are deaths
    tally.Add(counted);
  }
  if (arguments.flips && !RunFlips(options)) {
    ++tally.wrong;
    if (tally.first.empty()) tally.first = "a changed byte went unseen";
  }
  const auto planted = static_cast<int64_t>(arguments.controls ? Controls(options).size() : 0);
  const int64_t caught = arguments.controls ? CountCaught(options) : 0;
  const bool good = tally.clean() && caught == planted;
  if (!tally.first.empty()) std::fprintf(stderr, "first finding: %s\n", tally.first.c_str());
  if (good) {
    std::filesystem::remove_all(options.dir);
  } else {
    std::fprintf(stderr, "seed %llu; what failed is in %s\n",
                 static_cast<unsigned long long>(options.seed), options.dir.c_str());
  }
  std::printf("points=%lld acked=%lld lost=%lld half=%lld wrong=%lld controls=%lld/%lld\n",
              static_cast<long long>(tally.points), static_cast<long long>(tally.acked),
              static_cast<long long>(tally.lost), static_cast<long long>(tally.half),
              static_cast<long long>(tally.wrong), static_cast<long long>(caught),
              static_cast<long long>(planted));
  return good ? 0 : 1;
}

}  // namespace
}  // namespace nearfield::fault

int main(int argc, char** argv) {
  nearfield::fault::Arguments arguments;
  arguments.campaign.worker = NEARFIELD_CRASH_WORKER;
  arguments.campaign.library = NEARFIELD_FAULT_LIBRARY;
  if (!nearfield::fault::Parse(argc, argv, &arguments)) {
    nearfield::fault::Usage();
    return 2;
  }
  return nearfield::fault::Main(std::move(arguments));
}
