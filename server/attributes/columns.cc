#include "server/attributes/columns.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

uint64_t NextVersion() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// Chunks [begin, end) of a list.
struct Run {
  size_t begin = 0;
  size_t end = 0;
};

// Returns the chunk before `end` with those neighbors before it that are merged with it; the chunk
// alone if there are none. Each chunk is at most twice as large as all after it, as in a binary
// counter, and none is more than twice as large as all others together. So each merge makes the
// chunk of every row at least half as large again, and each row is merged a logarithmic number of
// times, wherever new rows are inserted.
Run RunBefore(const AttributeChunks& chunks, size_t end, int64_t rows_max) {
  int64_t rows = chunks[end - 1]->rows_count();
  int64_t largest = rows;
  int64_t last = chunks[end - 1]->last();
  Run run = {.begin = end - 1, .end = end};
  for (size_t begin = end - 1; begin > 0; --begin) {
    const AttributeChunk& before = *chunks[begin - 1];
    last = std::max<int64_t>(last, before.last());
    if (before.rows_count() > 2 * rows || rows + before.rows_count() > rows_max ||
        last - before.first() >= AttributeChunk::kSpanMax) {
      break;
    }
    rows += before.rows_count();
    largest = std::max(largest, before.rows_count());
    if (largest <= 2 * (rows - largest)) run.begin = begin - 1;
  }
  return run;
}

// Returns the chunks to merge next: neighbors, or one chunk most of whose rows are dead. Returns an
// empty run if there is nothing to merge.
Run NextRun(const AttributeChunks& chunks, const OrdinalSet& dead, int64_t rows_max) {
  for (size_t end = chunks.size(); end > 0; --end) {
    const AttributeChunk& chunk = *chunks[end - 1];
    if (chunk.rows_count() > rows_max) continue;
    const Run run = RunBefore(chunks, end, rows_max);
    const bool mostly_dead =
        !dead.empty() && dead.IntersectionSize(chunk.rows()) > chunk.rows_count() / 2;
    if (run.end - run.begin > 1 || mostly_dead) return run;
  }
  return {};
}

// Checks that the chunks have no row in common. Their ranges may overlap if concurrent uploads
// finished out of order.
absl::Status CheckDisjoint(const AttributeChunk& a, const AttributeChunk& b) {
  if (a.last() < b.first() || b.last() < a.first()) return absl::OkStatus();
  const OrdinalSet both = OrdinalSet::Intersection(a.rows(), b.rows());
  if (both.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(both.size(), " ordinals, ", both.first(),
                                                 " the first, have attributes already"));
}

bool StartsBefore(const std::shared_ptr<const AttributeChunk>& a,
                  const std::shared_ptr<const AttributeChunk>& b) {
  return a->first() < b->first();
}

// Returns the position of `run`, found earlier, in `chunks`. Other chunks may have been added or
// removed since.
absl::Span<const std::shared_ptr<const AttributeChunk>> Find(const AttributeChunks& chunks,
                                                             const AttributeChunks& run) {
  const auto found = std::search(chunks.begin(), chunks.end(), run.begin(), run.end());
  return absl::MakeConstSpan(chunks).subspan(static_cast<size_t>(found - chunks.begin()),
                                             found == chunks.end() ? 0 : run.size());
}

}  // namespace

AttributeColumns::AttributeColumns(AttributeSchema schema)
    : current_(std::make_shared<const AttributeSnapshot>(
          AttributeSnapshot{.schema = std::make_shared<const AttributeSchema>(std::move(schema)),
                            .chunks = {},
                            .version = NextVersion()})) {}

std::shared_ptr<const AttributeSnapshot> AttributeColumns::Snapshot() const {
  const MutexLock lock(mutex_);
  return current_;
}

void AttributeColumns::Install(AttributeChunks chunks, uint64_t version) {
  auto next = std::make_shared<AttributeSnapshot>();
  next->schema = current_->schema;
  next->chunks = std::move(chunks);
  next->version = version;
  current_ = std::move(next);
}

void AttributeColumns::SetSchema(std::shared_ptr<const AttributeSchema> schema) {
  const MutexLock lock(mutex_);
  auto next = std::make_shared<AttributeSnapshot>(*current_);
  next->schema = std::move(schema);
  next->version = NextVersion();
  current_ = std::move(next);
}

void AttributeColumns::Forget(const std::vector<int32_t>& attributes) {
  const MutexLock merge_lock(merge_mutex_);
  const MutexLock lock(mutex_);
  AttributeChunks chunks = current_->chunks;
  bool any = false;
  for (std::shared_ptr<const AttributeChunk>& chunk : chunks) {
    auto rest = chunk->Without(attributes);
    if (rest == nullptr) continue;
    chunk = std::move(rest);
    any = true;
  }
  if (any) Install(std::move(chunks), current_->version);
}

absl::Status AttributeColumns::Add(AttributeChunks chunks) {
  if (chunks.empty()) return absl::OkStatus();
  const MutexLock lock(mutex_);
  AttributeChunks all = current_->chunks;
  for (std::shared_ptr<const AttributeChunk>& added : chunks) {
    for (const auto& chunk : all) ABSL_RETURN_IF_ERROR(CheckDisjoint(*chunk, *added));
    all.push_back(std::move(added));
  }
  std::sort(all.begin(), all.end(), StartsBefore);
  Install(std::move(all), NextVersion());
  return absl::OkStatus();
}

void AttributeColumns::MergeSmall() {
  // If a larger merge is running, the next merge takes these chunks too.
  if (!merge_mutex_.TryLock()) return;
  const MutexLock merge_lock(merge_mutex_, std::adopt_lock);
  while (MergeOnce(kInlineRowsMax)) {
  }
}

bool AttributeColumns::MergeStep() {
  const MutexLock merge_lock(merge_mutex_);
  return MergeOnce(AttributeChunk::kRowsMax);
}

void AttributeColumns::Drop(const OrdinalSet& dead) {
  const MutexLock lock(mutex_);
  DropHere(dead);
}

void AttributeColumns::Release(const OrdinalSet& rows) {
  const MutexLock lock(mutex_);
  DropHere(rows);
  freed_.UniteWith(OrdinalSet::Difference(rows, dead_));
}

void AttributeColumns::DropHere(const OrdinalSet& dead) {
  AttributeChunks left;
  OrdinalSet dead_left;
  OrdinalSet freed;
  for (const auto& chunk : current_->chunks) {
    OrdinalSet dead_here = OrdinalSet::Intersection(chunk->rows(), dead);
    dead_here.UniteWith(OrdinalSet::Intersection(chunk->rows(), dead_));
    if (dead_here.size() == chunk->rows_count()) {
      freed.UniteWith(dead_here);
    } else {
      dead_left.UniteWith(dead_here);
      left.push_back(chunk);
    }
  }
  dead_left.Compact();
  if (left.size() < current_->chunks.size()) Install(std::move(left), NextVersion());
  dead_ = std::move(dead_left);
  freed_.UniteWith(freed);
}

OrdinalSet AttributeColumns::TakeFreed() {
  const MutexLock lock(mutex_);
  return std::exchange(freed_, {});
}

int64_t AttributeColumns::rows_count() const {
  const MutexLock lock(mutex_);
  int64_t rows = -dead_.size();
  for (const auto& chunk : current_->chunks) rows += chunk->rows_count();
  CHECK_GE(rows, 0);  // every dead row is in a chunk
  return rows;
}

bool AttributeColumns::MergeOnce(int64_t rows_max) {
  AttributeChunks run;
  OrdinalSet dead;
  std::shared_ptr<const AttributeSchema> schema;
  {
    const MutexLock lock(mutex_);
    const Run next = NextRun(current_->chunks, dead_, rows_max);
    if (next.begin == next.end) return false;
    run.assign(current_->chunks.begin() + static_cast<ptrdiff_t>(next.begin),
               current_->chunks.begin() + static_cast<ptrdiff_t>(next.end));
    dead = dead_;
    schema = current_->schema;
  }
  const std::shared_ptr<const AttributeChunk> merged = AttributeChunk::Merge(*schema, run, dead);
  const MutexLock lock(mutex_);
  const auto place = Find(current_->chunks, run);
  // A chunk of the run was dropped meanwhile, or one was inserted: the next step searches again.
  if (place.empty()) return true;
  const AttributeChunks& old = current_->chunks;
  const auto begin = place.data() - old.data();
  AttributeChunks chunks(old.begin(), old.begin() + begin);
  chunks.insert(chunks.end(), old.begin() + begin + static_cast<ptrdiff_t>(run.size()), old.end());
  // Without its dead rows, the merged chunk may start after chunks that the run started before.
  if (merged != nullptr) {
    chunks.insert(std::upper_bound(chunks.begin(), chunks.end(), merged, StartsBefore), merged);
  }
  // A version does not cover dead rows, so it stays the same.
  Install(std::move(chunks), current_->version);
  for (const auto& chunk : run) {
    const OrdinalSet dead_here = OrdinalSet::Intersection(dead, chunk->rows());
    dead_.Subtract(dead_here);
    freed_.UniteWith(dead_here);
  }
  return true;
}

int64_t AttributeColumns::bytes() const {
  const std::shared_ptr<const AttributeSnapshot> snapshot = Snapshot();
  int64_t bytes = 0;
  for (const auto& chunk : snapshot->chunks) bytes += chunk->bytes();
  const MutexLock lock(mutex_);
  return bytes + dead_.bytes();
}

}  // namespace nearfield::server
