// LatencyModel: latency model of passes over one collection, learned from the passes that ended.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "nearfield/engine/collection.h"
#include "server/scheduler/clock.h"

namespace nearfield::server {

// The properties, except the number of queries, that determine the cost of a pass. Only passes of
// one kind are compared.
struct PassKind {
  bool copies = false;    // vectors or payloads are returned
  bool few_rows = false;  // the filter matches so few rows that only these are scanned
  int32_t k_max = 0;      // maximum k of its queries
};

// Measured pass times by number of queries. For each power of two it stores the last five times and
// uses their median, so that one slow pass changes nothing. Buckets without a new sample for two
// seconds are dropped when another bucket gets one.
// Not thread-safe.
class LatencyModel {
 public:
  // `floor_us`: minimum time of any pass. It is the estimate until a pass has ended.
  explicit LatencyModel(double floor_us) : floor_us_(floor_us) {}

  // Records a pass of `queries` that took `us`. If it was cancelled (`complete` is false), `us` is
  // only a lower bound of its time.
  void Record(PassKind kind, int64_t queries, double us, TimePoint now, bool complete = true);

  // Returns the predicted time: linear interpolation between known points, square root beyond them.
  // The square root is halfway between a pass whose time does not depend on its queries and one
  // whose time is proportional to them. Cost: at most 17 steps.
  double PredictUs(PassKind kind, double queries) const;
  // Returns one query's share of a recent pass; 0 if nothing is known.
  double QueryUs(PassKind kind) const;
  // Returns the median time of the last five passes, whatever their number of queries.
  double TypicalUs(PassKind kind) const;

  // Returns false if no pass ended in the last second. Then the estimate alone must not refuse a
  // search.
  bool IsFresh(TimePoint now) const;
  // Returns true at most once a second: this caller may test whether the estimate still holds.
  bool TakeProbe(TimePoint now);

 private:
  static constexpr size_t kSamples = 5;
  static constexpr size_t kBuckets = 17;  // up to 65,536 queries
  static constexpr size_t kKinds = 8;
  struct Point {
    double queries = 0;
    double us = 0;
  };
  // The last samples of passes of similar size.
  struct Bucket {
    std::array<Point, kSamples> samples;
    size_t count = 0;  // samples ever added; the newest is at (count - 1) % kSamples
    TimePoint newest;
    void Add(Point sample);
    // Returns the sample with the median time; of an even number, the faster of the two.
    Point Median() const;
  };
  struct Curve {
    std::array<Bucket, kBuckets> buckets;
    Bucket recent;  // the last samples of all sizes
    double query_us = 0;
    std::vector<Point> points;  // medians that are not expired; queries and times ascend
  };
  static size_t IndexOf(PassKind kind) {
    return (kind.few_rows ? kFewRows : 0u) + (kind.copies ? 2u : 0u) +
           (kind.k_max > kSmallK ? 1u : 0u);
  }
  static constexpr int32_t kSmallK = 256;
  static constexpr size_t kFewRows = 4;  // first index of the kinds with few_rows
  // Returns the curve of `kind` or, if it is empty, that of another kind. Kinds without few_rows
  // never get a curve of a kind with few_rows.
  const Curve* CurveOf(PassKind kind) const;
  static void Rebuild(Curve* curve, TimePoint now);

  const double floor_us_;
  std::array<Curve, kKinds> curves_;
  TimePoint newest_ = TimePoint::min();
  TimePoint probed_ = TimePoint::min();
};

// The latency models of all recently searched collections.
// Not thread-safe.
class LatencyModels {
 public:
  // Returns null if the collection is not known yet.
  std::shared_ptr<LatencyModel> Find(const std::shared_ptr<const Collection>& collection) const;
  // Drops collections that no longer exist and, if too many are tracked, an arbitrary one.
  std::shared_ptr<LatencyModel> Add(const std::shared_ptr<const Collection>& collection,
                                    double floor_us);
  size_t size() const { return tracked_.size(); }

 private:
  struct Tracked {
    std::weak_ptr<const Collection> collection;  // detects a later collection at the same address
    std::shared_ptr<LatencyModel> latency;
  };
  std::unordered_map<const Collection*, Tracked> tracked_;
};

// Returns the minimum time of one pass: bytes of all live rows / read bandwidth of the device.
// Returns 0 if the bandwidth is not known.
double PassFloorUs(const Collection& collection, double read_bytes_per_second);

}  // namespace nearfield::server
