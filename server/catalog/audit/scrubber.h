// Scrubs all collections in the background, again and again.
#ifndef NEARFIELD_SERVER_CATALOG_AUDIT_SCRUBBER_H_
#define NEARFIELD_SERVER_CATALOG_AUDIT_SCRUBBER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/batching/clock.h"
#include "server/catalog/audit/scrub.h"

namespace nearfield::server {

struct ScrubberOptions {
  // From the begin of a pass to the begin of the next; the first comes as long after the start. 0:
  // no scrub. A pass that takes longer is followed by the next one at once.
  std::chrono::seconds interval{0};
  int64_t bytes_per_second = 1;  // of rows, at most
};

// What it works on. All outlive the scrubber.
struct ScrubberBase {
  std::function<std::vector<std::shared_ptr<NamedCollection>>()> collections;
  const Clock* clock = nullptr;
  Pace* pace = nullptr;
  Alarm* alarm = nullptr;
  // A pass has ended.
  std::function<void(const ScrubCounts&)> tell = [](const ScrubCounts&) {};
  // A collection could not be scrubbed to its end.
  std::function<void(const std::string& collection, const absl::Status&)> failed =
      [](const std::string&, const absl::Status&) {};
};

// One thread.
class Scrubber {
 public:
  Scrubber(const ScrubberOptions& options, ScrubberBase base);
  // Ends the pace, and with it the pass under way.
  ~Scrubber();
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  const ScrubCounts& counts() const { return counts_; }

 private:
  void Loop();
  // False where the scrubber ends.
  bool Pass();

  const ScrubberOptions options_;
  const ScrubberBase base_;
  ScrubCounts counts_;
  std::thread thread_;
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CATALOG_AUDIT_SCRUBBER_H_
