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

inline constexpr ScoreType kScoreTypes[] = {ScoreType::kFloat32, ScoreType::kFloat16,
                                            ScoreType::kBFloat16, ScoreType::kInt32,
                                            ScoreType::kUint32};

constexpr int32_t BytesPerElement(ScoreType type) {
  return type == ScoreType::kFloat16 || type == ScoreType::kBFloat16 ? 2 : 4;
}

// Returns the type as users spell it.
constexpr const char* NameOf(ScoreType type) {
  switch (type) {
    case ScoreType::kFloat32: return "float32";
    case ScoreType::kFloat16: return "float16";
    case ScoreType::kBFloat16: return "bfloat16";
    case ScoreType::kInt32: return "int32";
    case ScoreType::kUint32: break;
  }
  return "uint32";
}

}  // namespace nearfield
