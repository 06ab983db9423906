#include "server/scheduler/latency_model.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <utility>

#include "nearfield/engine/types.h"

namespace nearfield::server {
namespace {

constexpr std::chrono::seconds kForgetAfter(2);
constexpr std::chrono::seconds kFreshFor(1);
constexpr size_t kTrackedMax = 4096;

}  // namespace

void LatencyModel::Bucket::Add(Point sample) {
  samples[count % kSamples] = sample;
  ++count;
}

LatencyModel::Point LatencyModel::Bucket::Median() const {
  std::array<Point, kSamples> sorted = samples;
  const size_t filled = std::min(count, kSamples);
  const auto end = sorted.begin() + static_cast<std::ptrdiff_t>(filled);
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((filled - 1) / 2);
  std::nth_element(sorted.begin(), middle, end,
                   [](const Point& a, const Point& b) { return a.us < b.us; });
  return *middle;
}

void LatencyModel::Record(PassKind kind, int64_t queries, double us, TimePoint now, bool complete) {
  const auto queries_count = static_cast<double>(std::max<int64_t>(queries, 1));
  if (!complete && us <= PredictUs(kind, queries_count)) return;
  Curve& curve = curves_[IndexOf(kind)];
  const auto width = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(queries_count)));
  Bucket& bucket = curve.buckets[std::min(width - 1, kBuckets - 1)];
  bucket.Add({.queries = queries_count, .us = us});
  curve.recent.Add({.queries = queries_count, .us = us});
  bucket.newest = now;
  newest_ = now;
  Rebuild(&curve, now);
  // Charges follow the median of passes of this size, not the pass itself.
  const Point typical = bucket.Median();
  curve.query_us = typical.us / typical.queries;
}

void LatencyModel::Rebuild(Curve* curve, TimePoint now) {
  curve->points.clear();
  for (Bucket& bucket : curve->buckets) {
    if (bucket.count == 0) continue;
    if (now - bucket.newest > kForgetAfter) {
      bucket.count = 0;
      continue;
    }
    curve->points.push_back(bucket.Median());
  }
  // More queries never take less time. A point that contradicts this is a slow pass among few
  // samples.
  for (size_t i = curve->points.size(); i-- > 1;) {
    curve->points[i - 1].us = std::min(curve->points[i - 1].us, curve->points[i].us);
  }
}

const LatencyModel::Curve* LatencyModel::CurveOf(PassKind kind) const {
  const Curve& own = curves_[IndexOf(kind)];
  if (!own.points.empty()) return &own;
  for (size_t i = 0; i < (kind.few_rows ? kKinds : kFewRows); ++i) {
    const size_t of_same_rows = kind.few_rows ? (i + kFewRows) % kKinds : i;
    if (!curves_[of_same_rows].points.empty()) return &curves_[of_same_rows];
  }
  return nullptr;
}

double LatencyModel::QueryUs(PassKind kind) const {
  const Curve* const curve = CurveOf(kind);
  return curve == nullptr ? 0 : curve->query_us;
}

double LatencyModel::TypicalUs(PassKind kind) const {
  const Curve* const curve = CurveOf(kind);
  return curve == nullptr ? 0 : curve->recent.Median().us;
}

double LatencyModel::PredictUs(PassKind kind, double queries) const {
  if (queries <= 0) return 0;
  const Curve* curve = CurveOf(kind);
  const double floor_us = kind.few_rows ? 0 : floor_us_;
  if (curve == nullptr) return floor_us;
  const std::vector<Point>& points = curve->points;
  const auto next = std::find_if(points.begin(), points.end(),
                                 [&](const Point& p) { return p.queries >= queries; });
  if (next == points.begin() || next == points.end()) {
    const Point& known = next == points.begin() ? points.front() : points.back();
    return std::max(floor_us, known.us * std::sqrt(queries / known.queries));
  }
  const Point& before = *std::prev(next);
  const double part = (queries - before.queries) / (next->queries - before.queries);
  return before.us + part * (next->us - before.us);
}

bool LatencyModel::IsFresh(TimePoint now) const {
  return newest_ != TimePoint::min() && now - newest_ <= kFreshFor;
}

bool LatencyModel::TakeProbe(TimePoint now) {
  if (probed_ != TimePoint::min() && now - probed_ <= kFreshFor) return false;
  probed_ = now;
  return true;
}

std::shared_ptr<LatencyModel> LatencyModels::Find(
    const std::shared_ptr<const Collection>& collection) const {
  const auto it = tracked_.find(collection.get());
  // While the weak pointer exists, a new collection at the same address has another owner.
  if (it == tracked_.end() || it->second.collection.expired()) return nullptr;
  return it->second.latency;
}

std::shared_ptr<LatencyModel> LatencyModels::Add(
    const std::shared_ptr<const Collection>& collection, double floor_us) {
  if (tracked_.size() >= kTrackedMax) {
    std::erase_if(tracked_, [](const auto& each) { return each.second.collection.expired(); });
    if (tracked_.size() >= kTrackedMax) tracked_.erase(tracked_.begin());
  }
  Tracked tracked = {.collection = collection, .latency = std::make_shared<LatencyModel>(floor_us)};
  return tracked_.insert_or_assign(collection.get(), std::move(tracked)).first->second.latency;
}

double PassFloorUs(const Collection& collection, double read_bytes_per_second) {
  if (read_bytes_per_second <= 0) return 0;
  const CollectionSpec& spec = collection.spec();
  // Codes take one byte for each dimension. A minimum assumes that codes are read if the scan may
  // read them, because they are the smallest.
  const int32_t bytes = spec.scan == ScanChoice::kRows ? BytesPerElement(spec.row_type) : 1;
  const double row_bytes = static_cast<double>(spec.dim) * bytes;
  return static_cast<double>(collection.Stats().rows_count) * row_bytes / read_bytes_per_second *
         1e6;
}

}  // namespace nearfield::server
