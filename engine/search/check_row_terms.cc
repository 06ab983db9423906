#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "nearfield/engine/row_terms.h"

namespace nearfield {
namespace {

absl::Status CheckNumber(const std::string& name, double value, double most) {
  if (std::abs(value) <= most) return absl::OkStatus();  // false for NaN
  return MustBe(name, absl::StrCat(value),
                most < std::numeric_limits<double>::max() ? "-2^60 .. 2^60" : "finite");
}

absl::Status CheckTerm(const RowTerm& term, const std::string& name) {
  constexpr double kFinite = std::numeric_limits<double>::max();
  const TermParameters& p = term.parameters;
  struct Limit {
    const char* field;
    double value;
    double most;
  };
  for (const Limit& limit :
       {Limit{"weight", p.weight, kTermParameterMax}, Limit{"origin", p.origin, kFinite},
        Limit{"scale", p.scale, kTermParameterMax}, Limit{"low", p.low, kFinite},
        Limit{"high", p.high, kFinite}, Limit{"offset", p.offset, kFinite},
        Limit{"missing", p.missing, kTermParameterMax}}) {
    ABSL_RETURN_IF_ERROR(
        CheckNumber(absl::StrCat(name, ".", limit.field), limit.value, limit.most));
  }
  switch (p.form) {
    case TermForm::kLinear: break;
    case TermForm::kClamped:
      if (p.low <= p.high) break;
      return MustBe(absl::StrCat(name, ".low"), absl::StrCat(p.low),
                    absl::StrCat("at most high = ", p.high));
    case TermForm::kHalfLife:
      if (p.scale < 0) {
        return MustBe(absl::StrCat(name, ".scale"), absl::StrCat(p.scale), "at least 0");
      }
      if (p.offset < 0) {
        return MustBe(absl::StrCat(name, ".offset"), absl::StrCat(p.offset), "at least 0");
      }
      break;
    case TermForm::kIs:
      if (term.filter != nullptr) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(name, " has no filter"));
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(name, ".form = ", static_cast<int>(p.form), " is none"));
  }
  if (term.numbers != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " has no numbers"));
}

}  // namespace

absl::Status CheckRowTerms(const RowTerms& terms, absl::string_view name) {
  if (!(terms.score_weight > 0 && terms.score_weight <= kTermParameterMax)) {
    return MustBe(absl::StrCat(name, ".score_weight"), absl::StrCat(terms.score_weight),
                  "above 0, at most 2^60");
  }
  if (terms.terms.size() > kTermsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", terms.terms.size(), " terms; at most ", kTermsMax));
  }
  for (size_t i = 0; i < terms.terms.size(); ++i) {
    ABSL_RETURN_IF_ERROR(CheckTerm(terms.terms[i], absl::StrCat(name, ".terms[", i, "]")));
  }
  return absl::OkStatus();
}

}  // namespace nearfield
