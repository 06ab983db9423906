#include "tests/bench/timed_device.h"

#include <thread>
#include <utility>

namespace nearfield::bench {
namespace {

class EmptyCollection final : public Collection {
 public:
  explicit EmptyCollection(CollectionSpec spec) : spec_(spec) {}
  const CollectionSpec& spec() const override { return spec_; }
  CollectionStats Stats() const override { return {}; }
  absl::StatusOr<std::unique_ptr<Upload>> BeginUpload(const UploadReservation& /*all*/) override {
    return absl::UnimplementedError("a timed device has no rows");
  }
  using Collection::Delete;
  absl::StatusOr<DeleteResult> Delete(const IdColumn& /*ids*/,
                                      const CommitHook& /*before_visible*/) override {
    return absl::UnimplementedError("a timed device has no rows");
  }
  absl::StatusOr<DeleteResult> DeleteRows(const RowFilter& /*rows*/,
                                          const CommitHook& /*before_visible*/) override {
    return absl::UnimplementedError("a timed device has no rows");
  }
  void ReleaseOrdinals(uint32_t /*first*/, int64_t /*rows_count*/) noexcept override {}
  absl::StatusOr<RowFilter> LiveRows(const PinnedEpoch* /*at*/) const override {
    return absl::UnimplementedError("a timed device has no rows");
  }
  absl::StatusOr<RowFilter> RowsWithIds(const PinnedEpoch* /*at*/,
                                        const IdColumn& /*ids*/) const override {
    return absl::UnimplementedError("a timed device has no rows");
  }
  absl::StatusOr<int64_t> CountRows(const PinnedEpoch* /*at*/,
                                    const RowFilter& /*rows*/) const override {
    return absl::UnimplementedError("a timed device has no rows");
  }
  std::shared_ptr<const PinnedEpoch> PinEpoch() const override { return nullptr; }
  PinnedEpochs ReachableEpochs() const override { return {}; }
  HeldBytes BytesHeldBy(const PinnedEpochs& /*epochs*/) const override { return {}; }
  absl::StatusOr<CompactionResult> Compact(const CompactionOptions& /*options*/) override {
    return CompactionResult{.done = true};
  }
  absl::StatusOr<FetchResult> Fetch(const IdColumn& /*ids*/, RowParts /*parts*/) const override {
    return absl::UnimplementedError("a timed device has no rows");
  }

 private:
  const CollectionSpec spec_;
};

}  // namespace

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
    const CollectionSpec& spec, uint64_t /*epoch*/) {
  return std::make_shared<EmptyCollection>(spec);
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
