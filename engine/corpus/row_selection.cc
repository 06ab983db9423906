#include "engine/corpus/row_selection.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/count_bits.h"
#include "engine/base/status_macros.h"
#include "engine/corpus/change.h"
#include "engine/corpus/tombstone_words.h"

namespace nearfield::corpus {
namespace {

// The slots of the chosen rows are listed too if at most one live row in this many is chosen.
constexpr int64_t kLiveRowsPerListed = 32;

// Returns the bits of the rows that are deleted or not chosen.
std::vector<uint64_t> LeftOut(const GenerationState& state, const RowFilter& filter) {
  const int64_t rows_count = state.generation->rows_count();
  std::vector<uint64_t> words(static_cast<size_t>((rows_count + 63) / 64));
  state.Choose(filter, absl::MakeSpan(words));
  for (uint64_t& word : words) word = ~word;
  if (rows_count % 64 != 0) words.back() &= (uint64_t{1} << (rows_count % 64)) - 1;
  if (state.tombstones != nullptr) {
    const absl::Span<const uint64_t> deleted = state.tombstones->words();
    for (size_t i = 0; i < words.size(); ++i) words[i] |= deleted[i];
  }
  return words;
}

void Set(uint32_t ordinal, RowFilter* rows) {
  const size_t word = ordinal / 64;
  if (word >= rows->chosen.size()) rows->chosen.resize(word + 1);
  rows->chosen[word] |= uint64_t{1} << (ordinal % 64);
}

}  // namespace

std::vector<uint32_t> ChosenSlots(const GenerationState& state, const RowFilter& filter) {
  return ZeroBits(LeftOut(state, filter), state.generation->rows_count());
}

RowFilter LiveRows(const CorpusSnapshot& snapshot) {
  RowFilter rows;
  for (const GenerationState& state : snapshot.generations) {
    const int64_t rows_count = state.generation->rows_count();
    for (const uint32_t slot : LiveSlots(state.tombstones.get(), 0, rows_count)) {
      Set(state.ordinal(slot), &rows);
    }
  }
  return rows;
}

RowFilter RowsWithIds(const CorpusSnapshot& snapshot, const IdColumn& ids) {
  RowFilter rows;
  for (const std::optional<RowRef>& ref : Locate(snapshot, ids)) {
    if (ref) Set(snapshot.generations[ref->generation].ordinal(ref->slot), &rows);
  }
  return rows;
}

int64_t CountChosen(const CorpusSnapshot& snapshot, const RowFilter& filter) {
  int64_t count = 0;
  for (const GenerationState& state : snapshot.generations) {
    count += state.generation->rows_count() - CountBits(LeftOut(state, filter));
  }
  return count;
}

void RowSet::Add(const CorpusSnapshot& snapshot, const RowRef& row) {
  words_.resize(snapshot.generations.size());
  std::vector<uint64_t>& words = words_[row.generation];
  const int64_t rows_count = snapshot.generations[row.generation].generation->rows_count();
  CHECK_LT(int64_t{row.slot}, rows_count);
  if (words.empty()) {
    words.resize(static_cast<size_t>((rows_count + 63) / 64));
  }
  words[row.slot / 64] |= uint64_t{1} << (row.slot % 64);
}

int64_t RowSet::bytes() const {
  size_t bytes = 0;
  for (const std::vector<uint64_t>& words : words_) bytes += words.size() * sizeof(uint64_t);
  return static_cast<int64_t>(bytes);
}

bool SearchedRows::Holds(const RowRef& row) const {
  if (selection == nullptr) return true;
  if (selection->rows_live[row.generation] == 0) return false;
  const std::shared_ptr<const backend::Tombstones>& left_out =
      selection->tombstones[row.generation];
  return left_out == nullptr || !IsDeleted(left_out->words(), row.slot);
}

int64_t SearchedRows::rows_count() const {
  return selection == nullptr ? snapshot->rows_live() : selection->rows_count;
}

std::vector<backend::GenerationView> SearchedRows::Views() const {
  std::vector<backend::GenerationView> views = snapshot->Views();
  if (selection == nullptr) return views;
  for (size_t g = 0; g < views.size(); ++g) {
    views[g].rows_live = selection->rows_live[g];
    if (selection->tombstones[g] != nullptr) views[g].tombstones = selection->tombstones[g].get();
    if (selection->slots.empty()) continue;
    views[g].live_slots = selection->slots[g];
    CHECK_EQ(static_cast<int64_t>(views[g].live_slots.size()), views[g].rows_live);
  }
  return views;
}

absl::StatusOr<RowSelection> SelectRows(const Device& device, const CorpusSnapshot& snapshot,
                                        const RowFilter& filter) {
  RowSelection selection;
  std::vector<std::vector<uint64_t>> left_out;
  for (const GenerationState& state : snapshot.generations) {
    left_out.push_back(LeftOut(state, filter));
    selection.rows_live.push_back(state.generation->rows_count() - CountBits(left_out.back()));
    selection.rows_count += selection.rows_live.back();
  }
  const bool few = selection.rows_count * kLiveRowsPerListed <= snapshot.rows_live();
  for (size_t g = 0; g < left_out.size(); ++g) {
    const GenerationState& state = snapshot.generations[g];
    if (few) selection.slots.push_back(ZeroBits(left_out[g], state.generation->rows_count()));
    selection.tombstones.push_back(nullptr);
    if (selection.rows_live[g] == 0 || selection.rows_live[g] == state.rows_live) continue;
    auto tombstones =
        device.backend().MakeTombstones(*state.generation->planes, std::move(left_out[g]));
    if (!tombstones.ok()) return device.Observe(tombstones.status());
    selection.tombstones.back() = *std::move(tombstones);
  }
  return selection;
}

absl::StatusOr<SearchedRows> WithoutRows(const Device& device, const SearchedRows& rows,
                                         const RowSet& left_out) {
  auto rest = std::make_shared<RowSelection>();
  for (size_t g = 0; g < rows.snapshot->generations.size(); ++g) {
    GenerationState state = rows.snapshot->generations[g];
    if (rows.selection != nullptr) {
      state.rows_live = rows.selection->rows_live[g];
      if (rows.selection->tombstones[g] != nullptr) {
        state.tombstones = rows.selection->tombstones[g];
      }
    }
    if (const absl::Span<const uint64_t> words = left_out.words(g); !words.empty()) {
      ABSL_ASSIGN_OR_RETURN(state, WithoutBits(device, state, words));
    }
    rest->tombstones.push_back(state.tombstones);
    rest->rows_live.push_back(state.rows_live);
    rest->rows_count += state.rows_live;
  }
  return SearchedRows{.snapshot = rows.snapshot, .selection = std::move(rest)};
}

int64_t SelectionBytes(const CorpusSnapshot& snapshot) {
  int64_t bytes = 0;
  for (const GenerationState& state : snapshot.generations) {
    bytes += (state.generation->rows_count() + 63) / 64 * int64_t{sizeof(uint64_t)};
  }
  return bytes;
}

std::shared_ptr<const RowSelection> RowSelectionCache::Find(
    const std::shared_ptr<const CorpusSnapshot>& snapshot,
    const std::shared_ptr<const RowFilter>& filter) {
  const MutexLock lock(mutex_);
  const auto place = places_.find({.snapshot = snapshot.get(), .filter = filter.get()});
  if (place == places_.end() || place->second->IsOver()) return nullptr;
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->selection;
}

void RowSelectionCache::Remove(Entries::iterator entry, Entries* removed) {
  places_.erase(entry->key);
  bytes_ -= entry->bytes;
  removed->splice(removed->end(), entries_, entry);
}

void RowSelectionCache::Add(const std::shared_ptr<const CorpusSnapshot>& snapshot,
                            const std::shared_ptr<const RowFilter>& filter,
                            const std::shared_ptr<const RowSelection>& selection) {
  Entries removed;
  const MutexLock lock(mutex_);
  const Key key = {.snapshot = snapshot.get(), .filter = filter.get()};
  const auto known = places_.find(key);
  if (known != places_.end()) Remove(known->second, &removed);
  entries_.push_front({.key = key,
                       .snapshot = snapshot,
                       .filter = filter,
                       .selection = selection,
                       .bytes = SelectionBytes(*snapshot)});
  places_[key] = entries_.begin();
  bytes_ += entries_.front().bytes;
}

void RowSelectionCache::TrimTo(int64_t bytes_max) {
  Entries removed;
  const MutexLock lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (entry->IsOver()) Remove(entry, &removed);
    entry = next;
  }
  const size_t kept = bytes_max == 0 ? 0 : kEntriesKept;
  while (entries_.size() > kept && bytes_ > bytes_max) Remove(std::prev(entries_.end()), &removed);
}

absl::StatusOr<std::shared_ptr<const RowSelection>> RowSelectionCache::Get(
    const Device& device, const std::shared_ptr<const CorpusSnapshot>& snapshot,
    const std::shared_ptr<const RowFilter>& filter) {
  if (std::shared_ptr<const RowSelection> known = Find(snapshot, filter)) return known;
  auto selection = SelectRows(device, *snapshot, *filter);
  if (absl::IsResourceExhausted(selection.status())) {
    TrimTo(0);
    selection = SelectRows(device, *snapshot, *filter);
  }
  if (!selection.ok()) return selection.status();
  auto made = std::make_shared<const RowSelection>(*std::move(selection));
  Add(snapshot, filter, made);
  TrimTo(std::min(kBytesMax, device.backend().device_bytes_total() / kDeviceParts));
  return made;
}

}  // namespace nearfield::corpus
