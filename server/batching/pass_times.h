// How long a pass over a collection takes, learned from the passes that ended.
#ifndef NEARFIELD_SERVER_BATCHING_PASS_TIMES_H_
#define NEARFIELD_SERVER_BATCHING_PASS_TIMES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "nearfield/engine/collection.h"
#include "server/batching/clock.h"

namespace nearfield::server {

// What a pass costs beside its number of queries: passes of one kind are compared with each other.
struct PassKind {
  bool copies = false;    // vectors or payloads are returned
  bool few_rows = false;  // a filter leaves so few that these alone are looked at
  int32_t k_max = 0;      // of its queries
};

// Times of the passes over one collection, by the number of their queries. Each power of two keeps
// the median of its last five, so that one slow pass changes nothing; what was not renewed while
// others were is forgotten after two seconds. Not thread-safe.
class PassTimes {
 public:
  // `floor_us`: the least time of any pass; the estimate until one has ended.
  explicit PassTimes(double floor_us) : floor_us_(floor_us) {}

  // A pass of `queries` ended after `us`. One that was given up (`complete` is false) tells only
  // that it takes longer than that.
  void Note(PassKind kind, int64_t queries, double us, TimePoint now, bool complete = true);

  // Between known points a line; beyond them the square root, halfway between a pass whose time
  // does not depend on its queries and one that has nothing but them. Cost: at most 17 steps.
  double PredictUs(PassKind kind, double queries) const;
  // One query's share of a pass as they lately were; 0: nothing is known.
  double QueryUs(PassKind kind) const;
  // A pass as they lately were, however many queries it had: the median of the last five.
  double TypicalUs(PassKind kind) const;

  // False where no pass was seen for a second: then the estimate alone is no ground for a refusal.
  bool IsFresh(TimePoint now) const;
  // True at most once a second: this caller may try whether the estimate still holds.
  bool TakeProbe(TimePoint now);

 private:
  static constexpr size_t kSamples = 5;
  static constexpr size_t kBuckets = 17;  // up to 65,536 queries
  static constexpr size_t kKinds = 8;
  struct Point {
    double queries = 0;
    double us = 0;
  };
  // The last few of some passes.
  struct Bucket {
    std::array<Point, kSamples> samples;
    size_t count = 0;  // ever noted; the newest is at (count - 1) % kSamples
    TimePoint newest;
    void Add(Point sample);
    // The sample whose time is the median; of an even number, the faster of the two.
    Point Median() const;
  };
  struct Curve {
    std::array<Bucket, kBuckets> buckets;
    Bucket recent;  // of all of them
    double query_us = 0;
    std::vector<Point> points;  // fresh medians, ascending queries and times
  };
  static size_t IndexOf(PassKind kind) {
    return (kind.few_rows ? kFewRows : 0u) + (kind.copies ? 2u : 0u) +
           (kind.k_max > kSmallK ? 1u : 0u);
  }
  static constexpr int32_t kSmallK = 256;
  static constexpr size_t kFewRows = 4;  // indexes from here on
  // Its own curve, or another one where it has seen nothing: none of few rows for passes over all.
  const Curve* CurveOf(PassKind kind) const;
  static void Rebuild(Curve* curve, TimePoint now);

  const double floor_us_;
  std::array<Curve, kKinds> curves_;
  TimePoint newest_ = TimePoint::min();
  TimePoint probed_ = TimePoint::min();
};

// The times of all collections that were searched lately. Not thread-safe.
class PassModel {
 public:
  // Null where the collection is not known yet.
  std::shared_ptr<PassTimes> Find(const std::shared_ptr<const Collection>& collection) const;
  // Forgets collections that are gone, and any one where too many are tracked.
  std::shared_ptr<PassTimes> Add(const std::shared_ptr<const Collection>& collection,
                                 double floor_us);
  size_t size() const { return tracked_.size(); }

 private:
  struct Tracked {
    std::weak_ptr<const Collection> collection;  // an address alone may be that of a later one
    std::shared_ptr<PassTimes> times;
  };
  std::unordered_map<const Collection*, Tracked> tracked_;
};

// The least time of one pass: every live row's bytes over what the device reads; 0: not known.
double PassFloorUs(const Collection& collection, double read_bytes_per_second);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_PASS_TIMES_H_
