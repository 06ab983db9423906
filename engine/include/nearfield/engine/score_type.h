// Element type of the scores that a selection (select.h) reads.
#pragma once

#include <cstdint>

namespace nearfield {

enum class ScoreType : uint8_t {
  kFloat32 = 1,
  kFloat16 = 2,
  kBFloat16 = 3,
  kInt32 = 4,
  kUint32 = 5
};

constexpr int32_t BytesPerElement(ScoreType type) {
  return type == ScoreType::kFloat16 || type == ScoreType::kBFloat16 ? 2 : 4;
}

}  // namespace nearfield
