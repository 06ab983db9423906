// Reads and writes numbers as bytes, least significant first.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace nearfield::store {

static_assert(std::endian::native == std::endian::little, "rows are stored as they lie in memory");

inline void PutUint32(uint32_t value, uint8_t* bytes) { std::memcpy(bytes, &value, sizeof value); }
inline void PutUint64(uint64_t value, uint8_t* bytes) { std::memcpy(bytes, &value, sizeof value); }

inline uint32_t GetUint32(const uint8_t* bytes) {
  uint32_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

inline uint64_t GetUint64(const uint8_t* bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace nearfield::store
