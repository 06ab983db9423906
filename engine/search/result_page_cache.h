// ResultPageCacheImpl: the implementation of ResultPageCache (nearfield/engine/engine.h).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "engine/corpus/row_selection.h"
#include "engine/corpus/snapshot.h"
#include "engine/search/search_rows.h"
#include "nearfield/engine/engine.h"

namespace nearfield {

// The first count() rows of a query's result order: the last of them as hits, the earlier ones only
// as bits.
struct KnownRows {
  int64_t begin = 0;  // rows of the order before hits.front()
  Hits hits;
  // Bits of the first `marked` rows of the order. The hits at `marked` and later have no bits yet
  // (MarkAll).
  corpus::RowSet rows;
  int64_t marked = 0;
  bool whole = false;  // no other row follows

  int64_t count() const { return begin + static_cast<int64_t>(hits.size()); }
  // Marks all known rows.
  void MarkAll(const corpus::CorpusSnapshot& snapshot);
  // Drops the hits before this place of the order.
  void DropBefore(const corpus::CorpusSnapshot& snapshot, int64_t place);
};

class ResultPageCacheImpl final : public ResultPageCache {
 public:
  explicit ResultPageCacheImpl(int64_t rows_max) : rows_max_(rows_max) {}
  static ResultPageCacheImpl* Of(const Query& query) {
    // MakeResultPageCache creates no other type.
    return static_cast<ResultPageCacheImpl*>(query.page_cache.get());
  }

  int64_t rows_count() const override { return known_.count(); }
  int64_t bytes() const override {
    return static_cast<int64_t>(known_.hits.capacity() * sizeof(Hit)) + known_.rows.bytes();
  }
  int64_t rows_max() const { return rows_max_; }
  // Returns true if the known rows serve a page of this state that begins at `skip`.
  bool Serves(const std::shared_ptr<const corpus::CorpusSnapshot>& snapshot, int64_t skip) const {
    return known_.count() > 0 && known_.begin <= skip && snapshot_.lock() == snapshot;
  }
  void Begin(const std::shared_ptr<const corpus::CorpusSnapshot>& snapshot, KnownRows known) {
    snapshot_ = snapshot;
    known_ = std::move(known);
  }
  KnownRows& known() { return known_; }

 private:
  const int64_t rows_max_;
  // A weak reference: a late page must not keep deleted rows in memory.
  std::weak_ptr<const corpus::CorpusSnapshot> snapshot_;
  KnownRows known_;
};

}  // namespace nearfield
