#include "tests/engine/topk/kit/select_oracle.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status_macros.h"

namespace nearfield::select {
namespace {

// Decodes by the definition of the format, in exact arithmetic.
double DecodeNarrow(const ScoreFormat& format, uint32_t bits) {
  const uint32_t magnitude = bits & ~format.sign();
  const auto mantissa = static_cast<int>(magnitude & ((1u << format.mantissa_bits) - 1));
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  double value = 0.0;
  if (magnitude > format.infinity()) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (magnitude == format.infinity()) {
    value = std::numeric_limits<double>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - format.mantissa_bits);
  } else {
    value =
        std::ldexp(mantissa + (1 << format.mantissa_bits), exponent - bias - format.mantissa_bits);
  }
  return (bits & format.sign()) != 0 ? -value : value;
}

std::vector<double> DecodeAll(ScoreType type) {
  std::vector<double> all(65'536);
  for (uint32_t bits = 0; bits < all.size(); ++bits) {
    all[bits] = DecodeNarrow(FormatOf(type), bits);
  }
  return all;
}

}  // namespace

uint32_t LoadScore(ScoreType type, const void* row, int64_t i) {
  if (FormatOf(type).bytes == 4) {
    uint32_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(row) + i * 4, 4);
    return bits;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(row) + i * 2, 2);
  return bits;
}

void StoreScore(ScoreType type, void* row, int64_t i, uint32_t bits) {
  if (FormatOf(type).bytes == 4) {
    std::memcpy(static_cast<char*>(row) + i * 4, &bits, 4);
  } else {
    const auto narrow = static_cast<uint16_t>(bits);
    std::memcpy(static_cast<char*>(row) + i * 2, &narrow, 2);
  }
}

double DecodeScore(ScoreType type, uint32_t bits) {
  static const std::vector<double>* const fp16 =
      new std::vector<double>(DecodeAll(ScoreType::kFloat16));
  static const std::vector<double>* const bf16 =
      new std::vector<double>(DecodeAll(ScoreType::kBFloat16));
  if (type == ScoreType::kFloat32) return std::bit_cast<float>(bits);
  if (type == ScoreType::kInt32) return static_cast<int32_t>(bits);
  if (type == ScoreType::kUint32) return bits;
  return (type == ScoreType::kFloat16 ? *fp16 : *bf16)[bits];
}

uint32_t ReturnedBits(ScoreType type, uint32_t bits) {
  const double score = DecodeScore(type, bits);
  if (std::isnan(score)) return FormatOf(type).quiet_nan();
  return score == 0.0 ? 0 : bits;
}

uint32_t BestBits(ScoreType type) {
  if (type == ScoreType::kInt32) return 0x7fffffff;
  return type == ScoreType::kUint32 ? 0xffffffff : FormatOf(type).infinity();
}

uint32_t WorstBits(ScoreType type) {
  if (type == ScoreType::kInt32) return 0x80000000;
  return type == ScoreType::kUint32 ? 0 : FormatOf(type).sign() | FormatOf(type).infinity();
}

bool Before(const Ranked& a, const Ranked& b) {
  if (a.score > b.score) return true;
  if (a.score < b.score) return false;
  // Equal, or at least one of them a NaN.
  const bool a_is_nan = std::isnan(a.score);
  const bool b_is_nan = std::isnan(b.score);
  return a_is_nan != b_is_nan ? b_is_nan : a.index < b.index;
}

void Answer::Append(const Answer& other, int64_t begin, int64_t count) {
  values.insert(values.end(), other.values.begin() + begin, other.values.begin() + begin + count);
  indices.insert(indices.end(), other.indices.begin() + begin,
                 other.indices.begin() + begin + count);
}

Answer SelectRow(ScoreType type, const void* row, int64_t n, int64_t k) {
  std::vector<Ranked> ranked(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    ranked[static_cast<size_t>(i)] = {.score = DecodeScore(type, LoadScore(type, row, i)),
                                      .index = static_cast<uint32_t>(i)};
  }
  if (k < n) std::nth_element(ranked.begin(), ranked.begin() + k, ranked.end(), Before);
  ranked.resize(static_cast<size_t>(k));
  std::sort(ranked.begin(), ranked.end(), Before);
  Answer answer;
  for (const Ranked& best : ranked) {
    answer.values.push_back(ReturnedBits(type, LoadScore(type, row, best.index)));
    answer.indices.push_back(best.index);
  }
  return answer;
}

Answer SelectBatch(const Shape& shape, const void* scores, int64_t stride) {
  const int64_t row_bytes = (stride == 0 ? shape.n : stride) * FormatOf(shape.type).bytes;
  Answer all;
  all.values.resize(static_cast<size_t>(shape.batch * shape.k));
  all.indices.resize(all.values.size());
  ForEach(shape.batch, [&](int64_t row) {
    const Answer best =
        SelectRow(shape.type, static_cast<const char*>(scores) + row * row_bytes, shape.n, shape.k);
    std::copy(best.values.begin(), best.values.end(), all.values.begin() + row * shape.k);
    std::copy(best.indices.begin(), best.indices.end(), all.indices.begin() + row * shape.k);
  });
  return all;
}

absl::Status Compare(const Shape& shape, const Answer& expected,
                     const absl::StatusOr<Answer>& result) {
  ABSL_RETURN_IF_ERROR(result.status());
  const Answer& got = *result;
  if (expected == got) return absl::OkStatus();
  if (expected.values.size() != got.values.size()) return absl::DataLossError("sizes differ");
  size_t differences = 0;
  size_t first = expected.values.size();
  for (size_t i = 0; i < expected.values.size(); ++i) {
    if (expected.values[i] == got.values[i] && expected.indices[i] == got.indices[i]) continue;
    if (differences++ == 0) first = i;
  }
  const auto key = [&](const Answer& answer) {
    const uint32_t bits = answer.values[first];
    return absl::StrFormat("0x%x (%g) at %d", bits, DecodeScore(shape.type, bits),
                           answer.indices[first]);
  };
  return absl::DataLossError(absl::StrCat(
      differences, " of ", expected.values.size(), " differ, first row ",
      static_cast<int64_t>(first) / shape.k, " place ", static_cast<int64_t>(first) % shape.k,
      ": expected ", key(expected), ", got ", key(got)));
}

void ForEach(int64_t count, const std::function<void(int64_t)>& work) {
  const int64_t threads_count =
      std::min<int64_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  std::atomic<int64_t> next = 0;
  const auto run = [&] {
    for (int64_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < threads_count; ++i) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
}

}  // namespace nearfield::select
