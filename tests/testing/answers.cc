#include "tests/testing/answers.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/score/score.h"

namespace nearfield::testing {
namespace {

std::string IdText(const IdColumn& ids, int64_t index) {
  if (ids.type() == IdType::kUint64) return absl::StrCat(ids.number(index));
  return absl::StrCat("\"", std::string(ids.string(index)), "\"");
}

std::string Entry(const Neighbors& answer, int64_t place) {
  const float score = answer.scores[static_cast<size_t>(place)];
  return absl::StrFormat("id %s with score %.9g (bits %08x)", IdText(answer.ids, place), score,
                         score::BitsFromFloat(score));
}

}  // namespace

std::string FirstDifference(const Neighbors& got, const Neighbors& want) {
  if (got.ids.type() != want.ids.type()) return "the ids are of different types";
  if (got.ids.size() != static_cast<int64_t>(got.scores.size())) {
    return absl::StrCat(got.ids.size(), " ids, but ", got.scores.size(), " scores");
  }
  const int64_t shared = std::min(got.ids.size(), want.ids.size());
  for (int64_t place = 0; place < shared; ++place) {
    const auto i = static_cast<size_t>(place);
    const bool same = got.ids.Compare(place, want.ids, place) == 0 &&
                      score::BitsFromFloat(got.scores[i]) == score::BitsFromFloat(want.scores[i]);
    if (!same)
      return absl::StrCat("place ", place, ": ", Entry(got, place), ", expected ",
                          Entry(want, place));
  }
  if (got.ids.size() == want.ids.size()) return "";
  return absl::StrCat(got.ids.size(), " neighbors, expected ", want.ids.size());
}

Neighbors Prefix(const Neighbors& answer, int64_t k) {
  Neighbors prefix;
  prefix.ids = IdColumn(answer.ids.type());
  for (int64_t place = 0; place < std::min(k, answer.ids.size()); ++place) {
    prefix.ids.AppendFrom(answer.ids, place);
    prefix.scores.push_back(answer.scores[static_cast<size_t>(place)]);
  }
  return prefix;
}

}  // namespace nearfield::testing
