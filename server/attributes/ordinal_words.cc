// Converts OrdinalSet to and from plain bits, through the portable format of Roaring bitmaps
// (github.com/RoaringBitmap/RoaringFormatSpec). The format is stable, and the library has no other
// public interface for whole words. Little-endian, as the host.
#include <algorithm>
#include <cstring>
#include <string>

#include "engine/base/count_bits.h"
#include "server/attributes/ordinal_set.h"

namespace nearfield::server {
namespace {

constexpr size_t kContainerWords = 1024;      // of 65536 ordinals that have the same upper 16 bits
constexpr uint32_t kArrayOrdinalsMax = 4096;  // a larger container is a bitset or has runs
constexpr uint32_t kCookieWithoutRuns = 12346;
constexpr uint32_t kCookieWithRuns = 12347;  // lower half; the upper half is containers - 1
// Up to this many containers have no offsets if some of them have runs.
constexpr uint32_t kContainersWithoutOffsets = 3;

template <typename T>
void Put(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PutArray(absl::Span<const uint64_t> words, std::string* bytes) {
  for (size_t i = 0; i < words.size(); ++i) {
    for (uint64_t left = words[i]; left != 0; left &= left - 1) {
      Put(static_cast<uint16_t>(64 * i + static_cast<size_t>(__builtin_ctzll(left))), bytes);
    }
  }
}

// Reads numbers from the front of the library's output.
class Reader {
 public:
  explicit Reader(const char* bytes) : next_(bytes) {}
  template <typename T>
  T Take() {
    T value;
    std::memcpy(&value, next_, sizeof value);
    next_ += sizeof value;
    return value;
  }
  const char* Skip(size_t bytes) {
    const char* const skipped = next_;
    next_ += bytes;
    return skipped;
  }

 private:
  const char* next_;
};

// Sets bits [begin, end); ignores bits beyond `words`.
void SetBits(size_t begin, size_t end, absl::Span<uint64_t> words) {
  end = std::min(end, 64 * words.size());
  while (begin < end) {
    const size_t until = std::min(end, (begin / 64 + 1) * 64);
    const uint64_t ones = ~uint64_t{0} >> (64 - (until - begin));
    words[begin / 64] |= ones << (begin % 64);
    begin = until;
  }
}

// Reads one container into `words`; ignores ordinals beyond them.
void TakeContainer(bool has_runs, uint32_t count, absl::Span<uint64_t> words, Reader* reader) {
  if (has_runs) {
    for (auto runs = reader->Take<uint16_t>(); runs > 0; --runs) {
      const size_t begin = reader->Take<uint16_t>();
      SetBits(begin, begin + reader->Take<uint16_t>() + 1, words);
    }
  } else if (count > kArrayOrdinalsMax) {
    const char* const bits = reader->Skip(8 * kContainerWords);
    if (!words.empty()) std::memcpy(words.data(), bits, 8 * words.size());
  } else {
    for (; count > 0; --count) {
      const size_t bit = reader->Take<uint16_t>();
      if (bit < 64 * words.size()) words[bit / 64] |= uint64_t{1} << (bit % 64);
    }
  }
}

}  // namespace

OrdinalSet OrdinalSet::FromWords(uint32_t base, absl::Span<const uint64_t> words) {
  std::string heads;
  std::vector<uint32_t> counts;
  for (size_t begin = 0; begin < words.size(); begin += kContainerWords) {
    const auto count = static_cast<uint32_t>(CountBits(words.subspan(begin, kContainerWords)));
    counts.push_back(count);
    if (count == 0) continue;
    Put(static_cast<uint16_t>((base >> 16) + begin / kContainerWords), &heads);
    Put(static_cast<uint16_t>(count - 1), &heads);
  }
  std::string bytes;
  bytes.reserve(words.size() * 8 + counts.size() * 8 + 8);
  Put(kCookieWithoutRuns, &bytes);
  Put(static_cast<uint32_t>(heads.size() / 4), &bytes);
  bytes += heads;
  auto offset = static_cast<uint32_t>(bytes.size() + heads.size());
  for (const uint32_t count : counts) {
    if (count == 0) continue;
    Put(offset, &bytes);
    offset += count > kArrayOrdinalsMax ? uint32_t{8 * kContainerWords} : 2 * count;
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    const absl::Span<const uint64_t> container =
        words.subspan(i * kContainerWords, kContainerWords);
    if (counts[i] > kArrayOrdinalsMax) {
      bytes.append(reinterpret_cast<const char*>(container.data()), container.size() * 8);
      bytes.append((kContainerWords - container.size()) * 8, '\0');
    } else if (counts[i] > 0) {
      PutArray(container, &bytes);
    }
  }
  return OrdinalSet(roaring_bitmap_portable_deserialize_safe(bytes.data(), bytes.size()));
}

void OrdinalSet::CopyWords(uint32_t base, absl::Span<uint64_t> words) const {
  std::fill(words.begin(), words.end(), 0);
  std::string bytes(roaring_bitmap_portable_size_in_bytes(bitmap_), '\0');
  roaring_bitmap_portable_serialize(bitmap_, bytes.data());
  Reader reader(bytes.data());
  const auto cookie = reader.Take<uint32_t>();
  const bool any_runs = (cookie & 0xffff) == kCookieWithRuns;
  const uint32_t containers = any_runs ? (cookie >> 16) + 1 : reader.Take<uint32_t>();
  const char* const run_flags = any_runs ? reader.Skip((containers + 7) / 8) : nullptr;
  Reader heads(reader.Skip(size_t{4} * containers));
  if (!any_runs || containers > kContainersWithoutOffsets) reader.Skip(size_t{4} * containers);
  for (uint32_t i = 0; i < containers; ++i) {
    const auto key = heads.Take<uint16_t>();
    const uint32_t count = uint32_t{heads.Take<uint16_t>()} + 1;
    const bool has_runs = any_runs && ((run_flags[i / 8] >> (i % 8)) & 1) != 0;
    const size_t place = (size_t{key} - (base >> 16)) * kContainerWords;
    const bool inside = key >= base >> 16 && place < words.size();
    TakeContainer(has_runs, count,
                  inside ? words.subspan(place, kContainerWords) : absl::Span<uint64_t>(), &reader);
  }
}

}  // namespace nearfield::server
