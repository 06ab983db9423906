#include "tests/bench/select_case.h"

#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"

namespace nearfield::bench {
namespace {

constexpr std::array kScoreTypes = {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16};

absl::StatusOr<int64_t> ParseCount(absl::string_view text, int64_t max) {
  int64_t count = 0;
  if (absl::SimpleAtoi(text, &count) && count >= 1 && count <= max) return count;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a count from 1 to ", max));
}

}  // namespace

const char* Name(RowType type) {
  switch (type) {
    case RowType::kFloat32:
      return "fp32";
    case RowType::kFloat16:
      return "fp16";
    case RowType::kBFloat16:
      return "bf16";
  }
  return "?";
}

const char* Name(SelectInput input) {
  switch (input) {
    case SelectInput::kNormal:
      return "normal";
    case SelectInput::kUniform:
      return "uniform";
    case SelectInput::kAllEqual:
      return "all_equal";
    case SelectInput::kTwoValues:
      return "two_values";
    case SelectInput::kSortedUp:
      return "sorted_up";
    case SelectInput::kSortedDown:
      return "sorted_down";
    case SelectInput::kOneBin:
      return "one_bin";
  }
  return "?";
}

absl::StatusOr<RowType> ParseScoreType(absl::string_view name) {
  for (const RowType type : kScoreTypes) {
    if (name == Name(type)) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat("no score type '", name, "'"));
}

absl::StatusOr<SelectInput> ParseSelectInput(absl::string_view name) {
  for (const SelectInput input : kSelectInputs) {
    if (name == Name(input)) return input;
  }
  return absl::InvalidArgumentError(absl::StrCat("no input '", name, "'"));
}

int64_t ScoreBytes(RowType type) { return type == RowType::kFloat32 ? 4 : 2; }

std::string Describe(const SelectCase& one) {
  return absl::StrFormat("%d %d %d %s %s %s", one.shape.batch, one.shape.n, one.shape.k,
                         Name(one.shape.type), Name(one.input), one.algorithm);
}

absl::StatusOr<SelectCase> ParseSelectCase(absl::string_view line) {
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() < 3 || words.size() > 6) {
    return absl::InvalidArgumentError("a case is: batch n k [type [input [algorithm]]]");
  }
  SelectCase one;
  ABSL_ASSIGN_OR_RETURN(one.shape.batch, ParseCount(words[0], select::kBatchMax));
  ABSL_ASSIGN_OR_RETURN(one.shape.n, ParseCount(words[1], select::kColumnsMax));
  ABSL_ASSIGN_OR_RETURN(one.shape.k, ParseCount(words[2], one.shape.n));
  if (words.size() > 3) {
    ABSL_ASSIGN_OR_RETURN(one.shape.type, ParseScoreType(words[3]));
  }
  if (words.size() > 4) {
    ABSL_ASSIGN_OR_RETURN(one.input, ParseSelectInput(words[4]));
  }
  if (words.size() > 5) one.algorithm = words[5];
  return one;
}

absl::StatusOr<std::vector<SelectCase>> ReadSelectCases(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::vector<SelectCase> cases;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty() || text[0] == '#') continue;
    absl::StatusOr<SelectCase> one = ParseSelectCase(text);
    if (!one.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", one.status().message()));
    }
    cases.push_back(*std::move(one));
  }
  return cases;
}

}  // namespace nearfield::bench
