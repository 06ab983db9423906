#include "tests/bench/timed_device.h"

#include <thread>
#include <utility>

namespace nearfield::bench {
TimedDevice::TimedDevice(const DeviceTimes& times, size_t passes_max)
    : times_(times), passes_max_(passes_max) {
  passes_.reserve(passes_max);
}

void TimedDevice::SetTimes(const DeviceTimes& times) { times_ = times; }

std::vector<TimedPass> TimedDevice::TakePasses() {
  std::vector<TimedPass> taken;
  taken.reserve(passes_max_);
  std::swap(taken, passes_);
  return taken;
}

absl::StatusOr<std::shared_ptr<Collection>> TimedDevice::CreateCollection(
    const CollectionSpec& spec, uint64_t epoch) {
  return rows_.engine->CreateCollection(spec, epoch);
}

absl::StatusOr<SearchResult> TimedDevice::Search(const Collection& /*collection*/,
                                                 const SearchBatch& batch) {
  TimedPass pass;
  pass.begin = std::chrono::steady_clock::now();
  pass.queries = static_cast<int64_t>(batch.queries.size());
  const std::chrono::duration<double, std::micro> took(times_.Of(pass.queries));
  if (took.count() > 0) {
    std::this_thread::sleep_until(  // tidy: allow(sleep): this is all that the device does
        pass.begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(took));
  }
  SearchResult result;
  result.queries.resize(batch.queries.size());
  pass.end = std::chrono::steady_clock::now();
  if (passes_.size() < passes_max_) passes_.push_back(pass);
  return result;
}

absl::StatusOr<VerifyResult> TimedDevice::Verify(const Collection& /*collection*/,
                                                 const Claim& /*claim*/,
                                                 const std::function<bool()>& /*cancelled*/) {
  return absl::UnimplementedError("a timed device has no oracle");
}

absl::Status TimedDevice::SelfTest(uint64_t /*seed*/) { return absl::OkStatus(); }

}  // namespace nearfield::bench
