// One case of the selection benchmark: a shape, an input and an algorithm. It has a text form of
// one line.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nearfield/engine/select.h"
#include "tests/engine/topk/kit/select_cases.h"
#include "tests/engine/topk/kit/select_oracle.h"

namespace nearfield::bench {

// The inputs that FillScores makes.
inline constexpr std::array kTimedInputs = {select::Input::kNormal,   select::Input::kUniform,
                                            select::Input::kAllEqual, select::Input::kTwoValues,
                                            select::Input::kSortedUp, select::Input::kSortedDown,
                                            select::Input::kOneBin};

// Algorithm of a case: every algorithm that can select the shape, and the baseline if it is not too
// slow.
inline constexpr std::string_view kEveryAlgorithm = "all";
// The baseline of tests/bench/block_bubble.h; not an algorithm of the library.
inline constexpr std::string_view kSelectBlockBubble = "block_bubble";

struct TimedCase {
  select::Shape shape;
  select::Input input = select::Input::kNormal;
  std::string algorithm = std::string(select::kAdaptive);
};

inline int64_t InputBytes(const select::Shape& shape) {
  return shape.batch * shape.n * select::FormatOf(shape.type).bytes;
}
// Returns the bytes that a selection must read and write: every score, k values and k indices per
// row.
inline int64_t BytesMoved(const select::Shape& shape) {
  return InputBytes(shape) + shape.batch * shape.k * (select::FormatOf(shape.type).bytes + 4);
}

// Returns a line such as "1024 50000 2048 fp32 normal adaptive": batch, n, k, type, input,
// algorithm.
std::string Describe(const TimedCase& one);
// Parses a line as Describe writes it. Up to three words may be missing at its end.
absl::StatusOr<TimedCase> ParseTimedCase(absl::string_view line);
// Reads one case per line. Skips empty lines and lines that begin with '#'.
absl::StatusOr<std::vector<TimedCase>> ReadTimedCases(const std::string& path);

}  // namespace nearfield::bench
