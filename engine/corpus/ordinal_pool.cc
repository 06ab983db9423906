#include "engine/corpus/ordinal_pool.h"

#include <algorithm>
#include <bit>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/count_bits.h"
#include "engine/base/out_of_memory.h"

namespace nearfield::corpus {
namespace {

constexpr int64_t kWordBits = 64;

// Returns a word whose bit i is set if bits [i, i + length) of `bits` are. Requires: length is 1 ..
// 64.
uint64_t RunStarts(uint64_t bits, int64_t length) {
  for (int64_t known = 1; known < length && bits != 0;) {
    const int64_t step = std::min(known, length - known);
    bits &= bits >> step;
    known += step;
  }
  return bits;
}

}  // namespace

absl::StatusOr<uint32_t> OrdinalPool::Take(int64_t rows_count) {
  CHECK_GT(rows_count, 0);
  return CatchOutOfMemory([&]() -> absl::StatusOr<uint32_t> {
    const MutexLock lock(mutex_);
    if (const std::optional<int64_t> first = FindFree(rows_count)) {
      SetFree(*first, *first + rows_count, false);
      free_count_ -= rows_count;
      DCHECK(IsConsistent());
      return static_cast<uint32_t>(*first);
    }
    too_long_ = std::min(too_long_, rows_count);
    if (rows_count > ordinals_max_ - end_) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "ordinals: ", rows_count, " consecutive ones are needed for the rows of the upload; ",
          ordinals_max_ - end_ + free_count_, " of the collection's ", ordinals_max_,
          " are free, but none as many in a row. Deleted rows keep theirs until no kept epoch "
          "shows them and the collection was compacted"));
    }
    free_.resize(static_cast<size_t>((end_ + rows_count + kWordBits - 1) / kWordBits));
    const int64_t first = end_;
    end_ += rows_count;
    DCHECK(IsConsistent());
    return static_cast<uint32_t>(first);
  });
}

void OrdinalPool::Release(uint32_t first, int64_t rows_count) noexcept {
  const MutexLock lock(mutex_);
  CHECK_LE(first + rows_count, end_);
  SetFree(first, first + rows_count, true);
  free_count_ += rows_count;
  first_word_ = std::min(first_word_, static_cast<size_t>(first / kWordBits));
  too_long_ = INT64_MAX;
  Trim();
  DCHECK(IsConsistent());  // also fails if one of the ordinals was free already
}

bool OrdinalPool::IsConsistent() const {
  const int64_t free_count = CountBits(free_);
  const bool last_in_use =
      end_ == 0 ||
      (free_[static_cast<size_t>((end_ - 1) / kWordBits)] >> ((end_ - 1) % kWordBits) & 1) == 0;
  return free_count == free_count_ && end_ <= ordinals_max_ && last_in_use &&
         static_cast<int64_t>(free_.size()) == (end_ + kWordBits - 1) / kWordBits &&
         first_word_ <= free_.size();
}

std::optional<int64_t> OrdinalPool::FindFree(int64_t rows_count) const {
  if (rows_count >= too_long_) return std::nullopt;
  int64_t length = 0;  // length of the free range that ends where the word begins
  for (size_t word = first_word_; word < free_.size(); ++word) {
    const int64_t begin = static_cast<int64_t>(word) * kWordBits;
    const uint64_t bits = free_[word];
    if (length + std::countr_one(bits) >= rows_count) return begin - length;
    if (rows_count < kWordBits) {
      const uint64_t starts = RunStarts(bits, rows_count);
      if (starts != 0) return begin + std::countr_zero(starts);
    }
    length = ~bits == 0 ? length + kWordBits : std::countl_one(bits);
  }
  return std::nullopt;
}

void OrdinalPool::SetFree(int64_t begin, int64_t end, bool free) noexcept {
  while (begin < end) {
    const int64_t shift = begin % kWordBits;
    const int64_t count = std::min(end - begin, kWordBits - shift);
    const uint64_t mask = (~uint64_t{0} >> (kWordBits - count)) << shift;
    uint64_t& word = free_[static_cast<size_t>(begin / kWordBits)];
    word = free ? word | mask : word & ~mask;
    begin += count;
  }
  while (first_word_ < free_.size() && free_[first_word_] == 0) ++first_word_;
}

void OrdinalPool::Trim() noexcept {
  while (end_ > 0) {
    const auto word = static_cast<size_t>((end_ - 1) / kWordBits);
    const int64_t used = end_ - static_cast<int64_t>(word) * kWordBits;  // bits of the last word
    const int64_t free = std::countl_one(free_[word] << (kWordBits - used));
    SetFree(end_ - free, end_, false);
    end_ -= free;
    free_count_ -= free;
    if (free < used) break;
  }
  free_.resize(static_cast<size_t>((end_ + kWordBits - 1) / kWordBits));
  first_word_ = std::min(first_word_, free_.size());
}

}  // namespace nearfield::corpus
