// What an OrderPrefix holds.
#ifndef NEARFIELD_ENGINE_ORDER_PREFIX_H_
#define NEARFIELD_ENGINE_ORDER_PREFIX_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/corpus/snapshot.h"
#include "engine/search_rows.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// The first rows of an order.
struct KnownRows {
  Hits hits;
  bool whole = false;  // no other row follows
};

class HeldPrefix final : public OrderPrefix {
 public:
  explicit HeldPrefix(int64_t rows_max) : rows_max_(rows_max) {}
  static HeldPrefix* Of(const Query& query) {
    return static_cast<HeldPrefix*>(query.prefix.get());  // MakeOrderPrefix makes no other
  }

  int64_t rows_count() const override { return static_cast<int64_t>(known_.hits.size()); }
  int64_t rows_max() const { return rows_max_; }
  bool IsOf(const std::shared_ptr<const corpus::CorpusSnapshot>& snapshot) const {
    return snapshot_.lock() == snapshot;
  }
  void Begin(const std::shared_ptr<const corpus::CorpusSnapshot>& snapshot, KnownRows known) {
    snapshot_ = snapshot;
    known_ = std::move(known);
  }
  KnownRows& known() { return known_; }

 private:
  const int64_t rows_max_;
  // Not held: a page that comes late must not keep deleted rows in memory.
  std::weak_ptr<const corpus::CorpusSnapshot> snapshot_;
  KnownRows known_;
};

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_ORDER_PREFIX_H_
