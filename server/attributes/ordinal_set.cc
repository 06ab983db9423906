#include "server/attributes/ordinal_set.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace nearfield::server {
namespace {

// Bytes of a container in addition to its serialized form: its header, its entries in three arrays,
// and the heap's overhead for both.
constexpr int64_t kContainerBytes = 72;
// Bytes of its serialized form besides its ordinals: key, size and place, and the number of runs.
constexpr int64_t kContainerHeaderBytes = 16;
constexpr int64_t kContainerOrdinals = 65536;
constexpr int64_t kOrdinalBytes = 2;  // a sparse container has a list; all others are smaller

roaring_bitmap_t* Checked(roaring_bitmap_t* bitmap) {
  if (bitmap == nullptr) std::abort();
  return bitmap;
}

}  // namespace

OrdinalSet::OrdinalSet() : OrdinalSet(roaring_bitmap_create()) {}
OrdinalSet::OrdinalSet(roaring_bitmap_t* bitmap) : bitmap_(Checked(bitmap)) {}
OrdinalSet::~OrdinalSet() {
  if (bitmap_ != nullptr) roaring_bitmap_free(bitmap_);
}
OrdinalSet::OrdinalSet(const OrdinalSet& other) : OrdinalSet(roaring_bitmap_copy(other.bitmap_)) {}
OrdinalSet& OrdinalSet::operator=(const OrdinalSet& other) {
  if (this != &other) *this = OrdinalSet(other);
  return *this;
}
OrdinalSet::OrdinalSet(OrdinalSet&& other) noexcept
    : bitmap_(std::exchange(other.bitmap_, nullptr)) {}
OrdinalSet& OrdinalSet::operator=(OrdinalSet&& other) noexcept {
  std::swap(bitmap_, other.bitmap_);
  return *this;
}

OrdinalSet OrdinalSet::FromRange(OrdinalRange range) {
  if (range.begin >= range.end) return {};
  return OrdinalSet(roaring_bitmap_from_range(range.begin, range.end, 1));
}

OrdinalSet OrdinalSet::FromSorted(absl::Span<const uint32_t> ordinals) {
  return OrdinalSet(roaring_bitmap_of_ptr(ordinals.size(), ordinals.data()));
}

int64_t OrdinalSet::size() const {
  return static_cast<int64_t>(roaring_bitmap_get_cardinality(bitmap_));
}
bool OrdinalSet::empty() const { return roaring_bitmap_is_empty(bitmap_); }
bool OrdinalSet::Contains(uint32_t ordinal) const {
  return roaring_bitmap_contains(bitmap_, ordinal);
}
uint32_t OrdinalSet::first() const { return roaring_bitmap_minimum(bitmap_); }
uint32_t OrdinalSet::last() const { return roaring_bitmap_maximum(bitmap_); }
int64_t OrdinalSet::IntersectionSize(const OrdinalSet& other) const {
  return static_cast<int64_t>(roaring_bitmap_and_cardinality(bitmap_, other.bitmap_));
}

int64_t OrdinalSet::CountBelow(uint32_t ordinal) const {
  if (ordinal == 0) return 0;
  return static_cast<int64_t>(roaring_bitmap_rank(bitmap_, ordinal - 1));
}

int64_t OrdinalSet::bytes() const {
  const int64_t containers = bitmap_->high_low_container.size;
  return static_cast<int64_t>(sizeof(OrdinalSet) + sizeof(roaring_bitmap_t)) +
         containers * kContainerBytes +
         static_cast<int64_t>(roaring_bitmap_portable_size_in_bytes(bitmap_));
}

int64_t OrdinalSet::BytesMax(int64_t count, int64_t span) {
  const int64_t containers = std::min(count, span / kContainerOrdinals + 2);
  return static_cast<int64_t>(sizeof(OrdinalSet) + sizeof(roaring_bitmap_t)) +
         kContainerHeaderBytes + containers * (kContainerBytes + kContainerHeaderBytes) +
         std::min(kOrdinalBytes * count, containers * kContainerOrdinals / 8);
}

void OrdinalSet::IntersectWith(const OrdinalSet& other) {
  roaring_bitmap_and_inplace(bitmap_, other.bitmap_);
}
void OrdinalSet::UniteWith(const OrdinalSet& other) {
  roaring_bitmap_or_inplace(bitmap_, other.bitmap_);
}
void OrdinalSet::Subtract(const OrdinalSet& other) {
  roaring_bitmap_andnot_inplace(bitmap_, other.bitmap_);
}
void OrdinalSet::ToggleAll(const OrdinalSet& other) {
  roaring_bitmap_xor_inplace(bitmap_, other.bitmap_);
}
void OrdinalSet::Add(uint32_t ordinal) { roaring_bitmap_add(bitmap_, ordinal); }

void OrdinalSet::Compact() {
  roaring_bitmap_run_optimize(bitmap_);
  roaring_bitmap_shrink_to_fit(bitmap_);
}

OrdinalSet OrdinalSet::Intersection(const OrdinalSet& a, const OrdinalSet& b) {
  return OrdinalSet(roaring_bitmap_and(a.bitmap_, b.bitmap_));
}
OrdinalSet OrdinalSet::Difference(const OrdinalSet& a, const OrdinalSet& b) {
  return OrdinalSet(roaring_bitmap_andnot(a.bitmap_, b.bitmap_));
}
OrdinalSet OrdinalSet::SymmetricDifference(const OrdinalSet& a, const OrdinalSet& b) {
  return OrdinalSet(roaring_bitmap_xor(a.bitmap_, b.bitmap_));
}
OrdinalSet OrdinalSet::Union(absl::Span<const OrdinalSet* const> sets) {
  std::vector<const roaring_bitmap_t*> bitmaps;
  bitmaps.reserve(sets.size());
  for (const OrdinalSet* set : sets) bitmaps.push_back(set->bitmap_);
  return OrdinalSet(roaring_bitmap_or_many(bitmaps.size(), bitmaps.data()));
}
bool operator==(const OrdinalSet& a, const OrdinalSet& b) {
  return roaring_bitmap_equals(a.bitmap_, b.bitmap_);
}

void OrdinalSet::ForEachRange(absl::FunctionRef<void(OrdinalRange range)> visit) const {
  roaring_uint32_iterator_t iterator;
  roaring_init_iterator(bitmap_, &iterator);
  OrdinalRange range;
  std::array<uint32_t, 256> ordinals;
  for (;;) {
    const uint32_t count = roaring_read_uint32_iterator(&iterator, ordinals.data(),
                                                        static_cast<uint32_t>(ordinals.size()));
    for (const uint32_t ordinal : absl::MakeConstSpan(ordinals).first(count)) {
      if (ordinal != range.end && range.begin < range.end) visit(range);
      if (ordinal != range.end || range.begin == range.end) range.begin = ordinal;
      range.end = uint64_t{ordinal} + 1;
    }
    if (count < ordinals.size()) break;
  }
  if (range.begin < range.end) visit(range);
}

std::vector<uint32_t> OrdinalSet::ToVector() const {
  std::vector<uint32_t> ordinals(static_cast<size_t>(size()));
  if (!ordinals.empty()) roaring_bitmap_to_uint32_array(bitmap_, ordinals.data());
  return ordinals;
}

}  // namespace nearfield::server
