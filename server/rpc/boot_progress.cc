#include "server/rpc/boot_progress.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace nearfield::server {
namespace {

constexpr int64_t kSecondUs = 1'000'000;
constexpr double kGigabyte = 1e9;
// An estimate from less time than this would jump.
constexpr int64_t kEstimateUsMin = kSecondUs;

}  // namespace

void BootProgress::Begin(Step step) {
  const MutexLock lock(mutex_);
  step_ = step;
  if (step == Step::kLoading) loading_since_ = clock_->Now();
}

void BootProgress::Report(const Loading& loading) {
  const MutexLock lock(mutex_);
  loading_ = loading;
}

BootProgress::View BootProgress::Get() const {
  const MutexLock lock(mutex_);
  View view = {.step = step_, .loading = loading_};
  if (step_ != Step::kLoading || loading_.bytes_read <= 0) return view;
  const int64_t elapsed_us = MicrosBetween(loading_since_, clock_->Now());
  if (elapsed_us < kEstimateUsMin) return view;
  const int64_t bytes_left = std::max<int64_t>(loading_.bytes_total - loading_.bytes_read, 0);
  const double us_left = static_cast<double>(elapsed_us) * static_cast<double>(bytes_left) /
                         static_cast<double>(loading_.bytes_read);
  view.seconds_left = static_cast<int64_t>(us_left / static_cast<double>(kSecondUs)) + 1;
  return view;
}

std::string BootProgress::Text() const {
  const View view = Get();
  switch (view.step) {
    case Step::kEngine: return "creating the engine";
    case Step::kSelfTest: return "running the self-test";
    case Step::kLoading: break;
  }
  const Loading& loading = view.loading;
  std::string text = absl::StrFormat("loading collections: %d of %d", loading.collections_loaded,
                                     loading.collections_count);
  if (loading.bytes_total > 0) {
    const double total = static_cast<double>(loading.bytes_total);
    const double percent = 100.0 * static_cast<double>(loading.bytes_read) / total;
    absl::StrAppendFormat(&text, ", %d%% of %.3g GB", static_cast<int>(percent), total / kGigabyte);
  }
  if (view.seconds_left.has_value()) {
    absl::StrAppendFormat(&text, ", about %d s left", *view.seconds_left);
  }
  return text;
}

}  // namespace nearfield::server
