// One case of the selection benchmark: a shape, an input and an algorithm. It has a text form of
// one line.
#ifndef NEARFIELD_TESTS_BENCH_SELECT_CASE_H_
#define NEARFIELD_TESTS_BENCH_SELECT_CASE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nearfield/engine/select.h"

namespace nearfield::bench {

enum class SelectInput : uint8_t {
  kNormal,
  kUniform,
  kAllEqual,
  kTwoValues,
  kSortedUp,    // the best is last
  kSortedDown,  // the best is first
  kOneBin,      // the upper bits of all scores are the same
};
inline constexpr std::array kSelectInputs = {SelectInput::kNormal,   SelectInput::kUniform,
                                             SelectInput::kAllEqual, SelectInput::kTwoValues,
                                             SelectInput::kSortedUp, SelectInput::kSortedDown,
                                             SelectInput::kOneBin};

// Algorithm of a case: every algorithm that can select the shape, and the baseline if it is not too
// slow.
inline constexpr std::string_view kEveryAlgorithm = "all";
// The baseline of tests/bench/select_block_bubble.h; not an algorithm of the library.
inline constexpr std::string_view kSelectBlockBubble = "block_bubble";

struct SelectCase {
  select::Shape shape;
  SelectInput input = SelectInput::kNormal;
  std::string algorithm = std::string(select::kAdaptive);
};

const char* Name(RowType type);  // fp32, fp16, bf16
const char* Name(SelectInput input);
absl::StatusOr<RowType> ParseScoreType(absl::string_view name);
absl::StatusOr<SelectInput> ParseSelectInput(absl::string_view name);

int64_t ScoreBytes(RowType type);
inline int64_t InputBytes(const select::Shape& shape) {
  return shape.batch * shape.n * ScoreBytes(shape.type);
}
// Returns the bytes that a selection must read and write: every score, k values and k indices per
// row.
inline int64_t BytesMoved(const select::Shape& shape) {
  return InputBytes(shape) + shape.batch * shape.k * (ScoreBytes(shape.type) + 4);
}

// Returns a line such as "1024 50000 2048 fp32 normal adaptive": batch, n, k, type, input,
// algorithm.
std::string Describe(const SelectCase& one);
// Parses a line as Describe writes it. Up to three words may be missing at its end.
absl::StatusOr<SelectCase> ParseSelectCase(absl::string_view line);
// Reads one case per line. Skips empty lines and lines that begin with '#'.
absl::StatusOr<std::vector<SelectCase>> ReadSelectCases(const std::string& path);

}  // namespace nearfield::bench

#endif  // NEARFIELD_TESTS_BENCH_SELECT_CASE_H_
