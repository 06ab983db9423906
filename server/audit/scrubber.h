// Scrubber: scrubs all collections periodically in the background: compares their rows in memory
// with the stored rows (scrub.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/audit/scrub.h"
#include "server/scheduler/clock.h"

namespace nearfield::server {

struct ScrubberOptions {
  // Time from the beginning of one pass to the beginning of the next, and from the start to the
  // first pass. 0 disables the scrub. If a pass takes longer, the next one follows immediately.
  std::chrono::seconds interval{0};
  int64_t bytes_per_second = 1;  // maximum bytes of rows read in a second
};

// The objects that the scrubber uses. All outlive it.
struct ScrubberBase {
  std::function<std::vector<NamedCollectionPtr>()> collections;
  const Clock* clock = nullptr;
  Pace* pace = nullptr;
  Alarm* alarm = nullptr;
  // Called after each pass.
  std::function<void(const ScrubCounts&)> report = [](const ScrubCounts&) {};
  // Called if the scrub of a collection fails.
  std::function<void(const std::string& collection, const absl::Status&)> failed =
      [](const std::string&, const absl::Status&) {};
};

// Runs one thread.
class Scrubber {
 public:
  Scrubber(const ScrubberOptions& options, ScrubberBase base);
  // Ends the pace, and with it the running pass.
  ~Scrubber();

  const ScrubCounts& counts() const { return counts_; }

 private:
  void Loop();
  // Returns false if the scrubber must end.
  bool Pass();

  const ScrubberOptions options_;
  const ScrubberBase base_;
  ScrubCounts counts_;
  std::thread thread_;
};

}  // namespace nearfield::server
