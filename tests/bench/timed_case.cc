#include "tests/bench/timed_case.h"

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

absl::StatusOr<int64_t> ParseCount(absl::string_view text, int64_t max) {
  int64_t count = 0;
  if (absl::SimpleAtoi(text, &count) && count >= 1 && count <= max) return count;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not a count from 1 to ", max));
}

absl::StatusOr<ScoreType> ParseScoreType(absl::string_view name) {
  for (const ScoreType type : kScoreTypes) {
    if (select::IsInteger(type)) continue;  // FillScores makes none
    if (name == select::FormatOf(type).name) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat("no score type '", name, "'"));
}

absl::StatusOr<select::Input> ParseInput(absl::string_view name) {
  for (const select::Input input : kTimedInputs) {
    if (name == NameOf(input)) return input;
  }
  return absl::InvalidArgumentError(absl::StrCat("no input '", name, "'"));
}

}  // namespace

std::string Describe(const TimedCase& one) {
  return absl::StrFormat("%d %d %d %s %s %s", one.shape.batch, one.shape.n, one.shape.k,
                         select::FormatOf(one.shape.type).name, NameOf(one.input), one.algorithm);
}

absl::StatusOr<TimedCase> ParseTimedCase(absl::string_view line) {
  const std::vector<std::string> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() < 3 || words.size() > 6) {
    return absl::InvalidArgumentError("a case is: batch n k [type [input [algorithm]]]");
  }
  TimedCase one;
  ABSL_ASSIGN_OR_RETURN(one.shape.batch, ParseCount(words[0], select::kBatchMax));
  ABSL_ASSIGN_OR_RETURN(one.shape.n, ParseCount(words[1], select::kColumnsMax));
  ABSL_ASSIGN_OR_RETURN(one.shape.k, ParseCount(words[2], one.shape.n));
  if (words.size() > 3) {
    ABSL_ASSIGN_OR_RETURN(one.shape.type, ParseScoreType(words[3]));
  }
  if (words.size() > 4) {
    ABSL_ASSIGN_OR_RETURN(one.input, ParseInput(words[4]));
  }
  if (words.size() > 5) one.algorithm = words[5];
  return one;
}

absl::StatusOr<std::vector<TimedCase>> ReadTimedCases(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::vector<TimedCase> cases;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    if (text.empty() || text[0] == '#') continue;
    absl::StatusOr<TimedCase> one = ParseTimedCase(text);
    if (!one.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", one.status().message()));
    }
    cases.push_back(*std::move(one));
  }
  return cases;
}

}  // namespace nearfield::bench
