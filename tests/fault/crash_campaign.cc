#include "tests/fault/crash_campaign.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "server/store/store.h"
#include "tests/fault/crash_exit.h"
#include "tests/testing/random.h"

namespace nearfield::fault {
namespace {

using testing::Random;
using testing::Scramble;

constexpr int64_t kDeathsOnOneDirectory = 60;
constexpr int64_t kThreads = 3;     // in every second directory
constexpr int64_t kStepsMax = 400;  // of one life: more than it survives
constexpr int64_t kControlPointsMax = 1500;
constexpr int64_t kFlipStride = 29;  // for the control only: some of the bytes suffice

using Environment = std::vector<std::pair<std::string, std::string>>;

// Draws one life of the worker. Most lives are short, so that opening and recovery fail as often as
// regular work.
Life DrawLife(Random& random, const Environment& environment, int64_t threads) {
  const int64_t span = random.OneIn(3) ? 25 : random.OneIn(4) ? 400 : 120;
  return {.kind = random.OneIn(4) ? "kill" : "power",
          .at = random.Between(1, span * threads),
          .seed = random.Bits(),
          .steps = kStepsMax,
          .threads = threads,
          .environment = environment};
}

CrashRunner RunnerIn(const CampaignOptions& options, const std::string& name) {
  return CrashRunner(
      {.worker = options.worker, .library = options.library, .dir = options.dir + "/" + name});
}

struct Series {
  int64_t points = kDeathsOnOneDirectory;
  int64_t threads = 1;
  Environment environment;
};

// Causes up to `series.points` deaths in one directory, then checks it. Stops at the first finding.
Tally DieOften(CrashRunner& runner, Random& random, const Series& series) {
  runner.Reset();
  Tally tally;
  while (tally.points < series.points && tally.clean()) {
    const Death death = runner.Run(DrawLife(random, series.environment, series.threads));
    if (death.killed) ++tally.points;
    runner.Count(death, &tally);
  }
  if (tally.clean()) {
    runner.Count(
        runner.Run({.seed = 1, .threads = series.threads, .environment = series.environment}),
        &tally);
  }
  tally.acked = runner.Acknowledged();
  return tally;
}

// Returns whether `failed`, a line of the fault library, is a call on the data directory itself,
// and not on a snapshot or a directory restored from one. These hold a catalog too.
bool OnDataDirectory(const std::string& failed) {
  return failed.find("/data/") != std::string::npos ||
         (failed.size() >= 5 && failed.compare(failed.size() - 5, 5, "/data") == 0);
}

// Returns true if the failed call excuses the end of the worker (server/store/DESIGN.md, "Errors").
// After a failed change of the data directory, or any failed call on its catalog, the process may
// end or refuse to start. A full disk never ends the process; it only refuses a start that makes a
// new store. Without descriptors the start may be refused. Without memory the start may be refused,
// or SQLite may end the process in its COMMIT.
bool Excused(const CrashRunner& runner, const Life& life, const Death& death) {
  const std::string failed = runner.FailedCall();
  const bool refused = death.code == kExitRefused;
  if (failed.empty() || !(refused || death.code == store::kFatalExitCode)) return false;
  if (life.kind == "emfile" || life.kind == "enfile") return refused;
  if (life.kind == "enospc") return refused && !runner.Tried();
  if (life.kind == "enomem") return refused || failed.find(" libsqlite3.") != std::string::npos;
  const bool of_catalog = failed.find("/data/catalog.db") != std::string::npos ||
                          failed.find("/data/high_water") != std::string::npos;
  if (life.kind == "eio-read") return of_catalog;
  return refused || OnDataDirectory(failed);
}

// Fails one call in a fresh directory, then checks what remains.
Tally FailOnce(CrashRunner& runner, Life life) {
  runner.Reset();
  Tally tally;
  const Death death = runner.Run(life);
  if (!Excused(runner, life, death)) runner.Count(death, &tally);
  if (runner.SawFailure()) ++tally.points;
  if (runner.AckAfterFailedSync()) {
    ++tally.wrong;
    tally.first = "acknowledged after a failed sync";
  }
  life.kind = "count";
  life.steps = 20;
  if (tally.clean()) runner.Count(runner.Run(life), &tally);
  tally.acked = runner.Acknowledged();
  return tally;
}

// Returns one life for each call that `whole` made and each error that applies to it.
std::vector<Life> LivesWithErrors(const Death& whole, const CampaignOptions& options) {
  std::vector<Life> lives;
  for (int64_t at = 1; at <= whole.calls; ++at) {
    lives.push_back({.kind = "eio", .at = at});
    lives.push_back({.kind = "enospc", .at = at});
    lives.push_back({.kind = "enospc", .at = at, .times = 25});
  }
  for (int64_t at = 1; at <= whole.reads; ++at) lives.push_back({.kind = "eio-read", .at = at});
  for (int64_t at = 1; at <= whole.opens; ++at) {
    lives.push_back({.kind = at % 2 == 0 ? "emfile" : "enfile", .at = at});
  }
  Random random(Scramble(options.seed + 1));
  const int64_t count = std::min(options.allocations, whole.allocations);
  for (int64_t i = 0; i < count; ++i) {  // one from each of `count` equal parts
    const int64_t begin = whole.allocations * i / count;
    const int64_t end = whole.allocations * (i + 1) / count;
    lives.push_back({.kind = "enomem", .at = random.Between(begin, end) + 1});
  }
  return lives;
}

}  // namespace

void InParallel(int64_t jobs, int64_t count, const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next{0};
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < jobs; ++i) {
    threads.emplace_back([&] {
      for (int64_t n = next++; n < count; n = next++) work(n);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Tally RunDeaths(const CampaignOptions& options) {
  const int64_t directories = (options.points + kDeathsOnOneDirectory - 1) / kDeathsOnOneDirectory;
  Tally tally;
  std::mutex mutex;
  InParallel(options.jobs, directories, [&](int64_t n) {
    Random random(Scramble(options.seed * 1'000'003 + static_cast<uint64_t>(n)));
    CrashRunner runner = RunnerIn(options, "deaths-" + std::to_string(n));
    const int64_t points =
        std::min(kDeathsOnOneDirectory, options.points - n * kDeathsOnOneDirectory);
    const Tally found =
        DieOften(runner, random, {.points = points, .threads = n % 2 == 0 ? 1 : kThreads});
    if (found.clean()) std::filesystem::remove_all(runner.dir());
    const std::lock_guard lock(mutex);
    tally.Add(found);
  });
  return tally;
}

Tally RunErrors(const CampaignOptions& options) {
  const uint64_t script = Scramble(options.seed);
  CrashRunner counter = RunnerIn(options, "errors-count");
  counter.Reset();
  const Death whole = counter.Run({.seed = script, .steps = options.error_steps});
  Tally tally;
  counter.Count(whole, &tally);
  std::mutex mutex;
  if (whole.allocations == 0) {
    ++tally.wrong;
    tally.first = "the library counted no allocation";
  }
  const std::vector<Life> lives = LivesWithErrors(whole, options);
  InParallel(options.jobs, static_cast<int64_t>(lives.size()), [&](int64_t n) {
    CrashRunner runner = RunnerIn(options, "errors-" + std::to_string(n));
    Life life = lives[static_cast<size_t>(n)];
    life.seed = script;
    life.steps = options.error_steps;
    const Tally found = FailOnce(runner, life);
    if (found.clean()) std::filesystem::remove_all(runner.dir());
    const std::lock_guard lock(mutex);
    tally.Add(found);
  });
  return tally;
}

bool RunFlips(const CampaignOptions& options) {
  std::atomic<bool> good{true};
  const int64_t step = std::max<int64_t>(1, options.flip_step);
  const auto first = static_cast<int64_t>(std::random_device()() % static_cast<uint64_t>(step));
  std::fprintf(stderr, "flips: every byte whose place is %lld N + %lld\n",
               static_cast<long long>(step), static_cast<long long>(first));
  InParallel(options.jobs, options.jobs, [&](int64_t n) {
    CrashRunner runner = RunnerIn(options, "flips-" + std::to_string(n));
    runner.Reset();
    if (runner.Flips({.first = first + n * step, .stride = options.jobs * step}) != 0) good = false;
  });
  return good;
}

std::vector<Control> Controls(const CampaignOptions& options) {
  using Provoke = Control::Provoke;
  const auto sync = [](const char* which) {
    return Control{.name = std::string("ignored_syncs_of_") + which,
                   .environment = {{"NEARFIELD_FAULT_IGNORE_SYNC", which}}};
  };
  const Control early_ack = {.name = "ack_before_commit",
                             .environment = {{"NEARFIELD_CRASH_EARLY_ACK", "1"}}};
  const auto patch = [&](const char* which, Provoke provoke = Provoke::kDeaths) {
    return Control{
        .name = which, .provoke = provoke, .worker = options.patched_workers + "/" + which};
  };
  const auto on_threads = [](Control control) {
    control.name += "_on_threads";
    control.threads = kThreads;
    return control;
  };
  std::vector<Control> controls = {
      sync("segments"),
      sync("directories"),
      sync("catalog"),
      early_ack,
      on_threads(early_ack),
      patch("commit_before_sync"),
      on_threads(patch("commit_before_sync")),
      patch("orphans_kept"),
      patch("deletion_apart"),
      patch("token_apart"),
      patch("replace_apart"),
      patch("unlink_before_swap"),
      patch("patches_dropped_early"),
      patch("records_dropped_early"),
      patch("late_epoch"),
      patch("undurable_checkpoint"),
      patch("snapshot_deleted_in_place"),
      patch("sync_error_ignored", Provoke::kErrors),
      patch("checksums_unverified", Provoke::kFlips),
  };
  if (options.patched_workers.empty()) {
    std::erase_if(controls, [](const Control& control) { return !control.worker.empty(); });
  }
  return controls;
}

bool Caught(CampaignOptions options, const Control& control) {
  if (!control.worker.empty()) options.worker = control.worker;
  Random random(Scramble(options.seed));
  CrashRunner runner = RunnerIn(options, "control-" + control.name);
  runner.Reset();
  // A worker that cannot run would count as caught.
  if (runner.Run({.seed = 1, .threads = control.threads}).code != 0) return false;
  bool caught = false;
  if (control.provoke == Control::Provoke::kDeaths) {
    for (int64_t points = 0; !caught && points < kControlPointsMax;) {
      const Tally tally = DieOften(
          runner, random, {.threads = control.threads, .environment = control.environment});
      caught = !tally.clean();
      points += std::max<int64_t>(tally.points, 1);
    }
  } else if (control.provoke == Control::Provoke::kErrors) {
    for (int64_t at = 1; !caught && at < kControlPointsMax; ++at) {
      const Life life = {.kind = "eio",
                         .at = at,
                         .seed = Scramble(options.seed),
                         .steps = options.error_steps,
                         .environment = control.environment};
      const Tally tally = FailOnce(runner, life);
      caught = !tally.clean();
      if (tally.points == 0) break;  // past the end of the script
    }
  } else {
    runner.Reset();
    caught =
        runner.Flips({.stride = kFlipStride, .environment = control.environment, .quiet = true}) ==
        kExitFindings;
  }
  std::filesystem::remove_all(runner.dir());
  return caught;
}

}  // namespace nearfield::fault
