// The slow, obviously right selection, on the host: the rules of nearfield/engine/select.h in IEEE
// arithmetic, with a sort. It shares no code with the kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/engine/select.h"

namespace nearfield::select {

constexpr bool IsInteger(ScoreType type) {
  return type == ScoreType::kInt32 || type == ScoreType::kUint32;
}

// A binary floating-point format like IEEE's: sign, exponent, mantissa, from the top bit down. An
// integer type has the fields of fp32, which give bits for its scores too.
struct ScoreFormat {
  const char* name;
  int bytes;
  int exponent_bits;
  int mantissa_bits;

  constexpr uint32_t sign() const { return uint32_t{1} << (exponent_bits + mantissa_bits); }
  constexpr uint32_t infinity() const {
    return ((uint32_t{1} << exponent_bits) - 1) << mantissa_bits;
  }
  constexpr uint32_t quiet_nan() const { return infinity() | (uint32_t{1} << (mantissa_bits - 1)); }
};

constexpr ScoreFormat FormatOf(ScoreType type) {
  switch (type) {
    case ScoreType::kFloat16:
      return {.name = "fp16", .bytes = 2, .exponent_bits = 5, .mantissa_bits = 10};
    case ScoreType::kBFloat16:
      return {.name = "bf16", .bytes = 2, .exponent_bits = 8, .mantissa_bits = 7};
    case ScoreType::kInt32:
      return {.name = "int32", .bytes = 4, .exponent_bits = 8, .mantissa_bits = 23};
    case ScoreType::kUint32:
      return {.name = "uint32", .bytes = 4, .exponent_bits = 8, .mantissa_bits = 23};
    default: return {.name = "fp32", .bytes = 4, .exponent_bits = 8, .mantissa_bits = 23};
  }
}

// Returns score `i` of a row as stored in memory.
uint32_t LoadScore(ScoreType type, const void* row, int64_t i);
void StoreScore(ScoreType type, void* row, int64_t i, uint32_t bits);

double DecodeScore(ScoreType type, uint32_t bits);
// Returns the score as a selection returns it: -0 as +0, a NaN as the quiet positive NaN.
uint32_t ReturnedBits(ScoreType type, uint32_t bits);
// Return the bits of the best score of a type, and of the worst that is not NaN.
uint32_t BestBits(ScoreType type);
uint32_t WorstBits(ScoreType type);

struct Ranked {
  double score;
  uint32_t index;
};
// Returns true if a comes before b in the order of select.h.
bool Before(const Ranked& a, const Ranked& b);

// Bits and indices, best first; a batch is stored row after row.
struct Answer {
  std::vector<uint32_t> values;
  std::vector<uint32_t> indices;
  bool operator==(const Answer&) const = default;

  // Appends `count` places of another answer.
  void Append(const Answer& other, int64_t begin, int64_t count);
};

// Returns the k best of one row of n scores.
Answer SelectRow(ScoreType type, const void* row, int64_t n, int64_t k);

// Runs SelectRow for each row, on all cores. Scores and stride are as in Buffers, in host memory;
// the rows are not ragged, and their scores are neighbors.
Answer SelectBatch(const Shape& shape, const void* scores, int64_t stride);

// Returns OK if they are equal, the status of `result` if it has no answer, else DataLoss that
// shows the first difference.
absl::Status Compare(const Shape& shape, const Answer& expected,
                     const absl::StatusOr<Answer>& result);

// Calls work(0) to work(count - 1), on all cores.
void ForEach(int64_t count, const std::function<void(int64_t)>& work);

}  // namespace nearfield::select
