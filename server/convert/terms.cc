#include "server/convert/terms.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/convert/attributes.h"
#include "server/convert/filter.h"

namespace nearfield::server {
namespace {

constexpr double kFiniteMax = std::numeric_limits<double>::max();
// The smallest half-life: its scale is kTermParameterMax.
constexpr double kHalfLifeMin = 1 / kTermParameterMax;

// A number of a term, and its field in the request.
struct Number {
  const char* field;
  double value;
};

absl::Status CheckMagnitude(const std::string& path, const Number& number, double most) {
  if (std::abs(number.value) <= most) return absl::OkStatus();  // false for NaN
  return MustBe(absl::StrCat(path, ".", number.field), absl::StrCat(number.value),
                most < kFiniteMax ? "-2^60 .. 2^60" : "finite");
}

absl::Status CheckAtLeast(const std::string& path, const Number& number, double least,
                          const char* limit) {
  if (number.value >= least && number.value <= kFiniteMax) return absl::OkStatus();
  return MustBe(absl::StrCat(path, ".", number.field), absl::StrCat(number.value), limit);
}

GivenFilter GivenOf(const std::string& path, const pb::FilterTerm& term) {
  GivenFilter given = FilterOf(term);
  given.fields = {.text = path + ".filter.filter_text", .arguments = path + ".filter.filter_args"};
  return given;
}

absl::Status CheckGiven(const std::string& path, const char* field, bool is_given) {
  if (is_given) return absl::OkStatus();
  return ArgumentError(absl::StrCat(path, ".", field), "absent, must be given", "absent");
}

// Sets the parameters of `linear` and `clamped`.
template <typename Form>
absl::Status ReadLinear(const std::string& path, const Form& form, TermParameters* parameters) {
  parameters->origin = form.origin();
  if (form.has_scale()) parameters->scale = form.scale();
  ABSL_RETURN_IF_ERROR(CheckMagnitude(path, {"origin", parameters->origin}, kFiniteMax));
  return CheckMagnitude(path, {"scale", parameters->scale}, kTermParameterMax);
}

absl::Status ReadClamped(const std::string& path, const pb::ClampedTerm& form,
                         TermParameters* parameters) {
  parameters->form = TermForm::kClamped;
  ABSL_RETURN_IF_ERROR(CheckGiven(path, "low", form.has_low()));
  ABSL_RETURN_IF_ERROR(CheckGiven(path, "high", form.has_high()));
  parameters->low = form.low();
  parameters->high = form.high();
  ABSL_RETURN_IF_ERROR(ReadLinear(path, form, parameters));
  ABSL_RETURN_IF_ERROR(CheckMagnitude(path, {"low", form.low()}, kFiniteMax));
  ABSL_RETURN_IF_ERROR(CheckMagnitude(path, {"high", form.high()}, kFiniteMax));
  if (form.low() <= form.high()) return absl::OkStatus();
  return MustBe(path + ".low", absl::StrCat(form.low()),
                absl::StrCat("at most high = ", form.high()));
}

absl::Status ReadHalfLife(const std::string& path, const pb::HalfLifeTerm& form,
                          TermParameters* parameters) {
  parameters->form = TermForm::kHalfLife;
  ABSL_RETURN_IF_ERROR(CheckGiven(path, "half_life", form.has_half_life()));
  ABSL_RETURN_IF_ERROR(CheckGiven(path, "origin", form.has_origin()));
  parameters->origin = form.origin();
  parameters->offset = form.offset();
  ABSL_RETURN_IF_ERROR(CheckMagnitude(path, {"origin", form.origin()}, kFiniteMax));
  ABSL_RETURN_IF_ERROR(CheckAtLeast(path, {"half_life", form.half_life()}, kHalfLifeMin,
                                    "finite and at least 2^-60"));
  parameters->scale = 1 / form.half_life();
  return CheckAtLeast(path, {"offset", form.offset()}, 0, "finite and at least 0");
}

absl::Status ReadFilter(const std::string& path, const pb::RowTerm& message, IdType id_type,
                        const AttributeSchema& schema, TermList::Term* term) {
  term->parameters.form = TermForm::kIs;
  if (!message.attribute().empty()) {
    return ArgumentError(path + ".attribute", "a term with a filter has none", message.attribute(),
                         "absent");
  }
  if (message.has_missing()) {
    return ArgumentError(path + ".missing", "a term with a filter has none",
                         absl::StrCat(message.missing()), "absent");
  }
  const GivenFilter given = GivenOf(path, message.filter());
  if (!given.given()) {
    return ArgumentError(given.fields.text, "absent, the term needs one", "absent");
  }
  ABSL_ASSIGN_OR_RETURN(term->filter, FromProto(given, id_type, schema));
  return absl::OkStatus();
}

// Returns the number of the attribute that a term reads.
absl::StatusOr<int32_t> NumbersFromProto(const std::string& field, const std::string& name,
                                         const AttributeSchema& schema) {
  ABSL_ASSIGN_OR_RETURN(const int32_t attribute, AttributeFromProto(field, name, schema));
  const AttributeSpec& spec = schema.at(attribute);
  if (!spec.is_list && spec.type != AttributeType::kKeyword) return attribute;
  return ArgumentError(field,
                       absl::StrCat("\"", spec.name, "\" is a ", Describe(spec),
                                    ", must have one number, time or bool in each row"),
                       spec.name, "an int64, double, timestamp or bool");
}

absl::StatusOr<TermList::Term> TermFromProto(const std::string& path, const pb::RowTerm& message,
                                             IdType id_type, const AttributeSchema& schema) {
  TermList::Term term;
  TermParameters& parameters = term.parameters;
  if (message.has_weight()) parameters.weight = message.weight();
  ABSL_RETURN_IF_ERROR(CheckMagnitude(path, {"weight", parameters.weight}, kTermParameterMax));
  switch (message.form_case()) {
    case pb::RowTerm::kLinear:
      parameters.form = TermForm::kLinear;
      ABSL_RETURN_IF_ERROR(ReadLinear(path + ".linear", message.linear(), &parameters));
      break;
    case pb::RowTerm::kClamped:
      ABSL_RETURN_IF_ERROR(ReadClamped(path + ".clamped", message.clamped(), &parameters));
      break;
    case pb::RowTerm::kHalfLife:
      ABSL_RETURN_IF_ERROR(ReadHalfLife(path + ".half_life", message.half_life(), &parameters));
      break;
    case pb::RowTerm::kFilter:
      ABSL_RETURN_IF_ERROR(ReadFilter(path, message, id_type, schema, &term));
      return term;
    default:
      return ArgumentError(path, "none of linear, clamped, half_life and filter is set", "absent");
  }
  parameters.missing = message.missing();
  ABSL_RETURN_IF_ERROR(CheckMagnitude(path, {"missing", parameters.missing}, kTermParameterMax));
  ABSL_ASSIGN_OR_RETURN(term.attribute,
                        NumbersFromProto(path + ".attribute", message.attribute(), schema));
  return term;
}

bool IsFew(const pb::RowTerms& terms) { return terms.terms_size() <= static_cast<int>(kTermsMax); }

}  // namespace

absl::StatusOr<TermList> FromProto(const pb::RowTerms& message, IdType id_type,
                                   const AttributeSchema& schema) {
  const double score_weight = message.has_score_weight() ? message.score_weight() : 1;
  if (!(score_weight > 0 && score_weight <= kTermParameterMax)) {
    return MustBe("terms.score_weight", absl::StrCat(score_weight), "above 0, at most 2^60");
  }
  if (!IsFew(message)) {
    return MustBe("terms.terms", absl::StrCat(message.terms_size(), " terms"),
                  absl::StrCat("at most ", kTermsMax));
  }
  std::vector<TermList::Term> terms;
  terms.reserve(static_cast<size_t>(message.terms_size()));
  for (int i = 0; i < message.terms_size(); ++i) {
    ABSL_ASSIGN_OR_RETURN(TermList::Term term, TermFromProto(absl::StrCat("terms.terms[", i, "]"),
                                                             message.terms(i), id_type, schema));
    terms.push_back(std::move(term));
  }
  return TermList(score_weight, std::move(terms));
}

int64_t TermsMemoryMax(const pb::RowTerms& terms) {
  if (!IsFew(terms)) return 0;  // refused at once
  auto bytes = static_cast<int64_t>(sizeof(TermList));
  for (const pb::RowTerm& term : terms.terms()) {
    // The filter's canonical form is also part of the list's.
    bytes += 2 * static_cast<int64_t>(sizeof(TermList::Term));
    if (term.has_filter()) bytes += 2 * FilterMemoryMax(FilterOf(term.filter()));
  }
  return bytes;
}

void ToProto(absl::Span<const ScoreParts> parts, pb::ScoreParts* message) {
  message->mutable_scores()->Reserve(static_cast<int>(parts.size()));
  message->mutable_term_sums()->Reserve(static_cast<int>(parts.size()));
  for (const ScoreParts& part : parts) {
    message->add_scores(part.score);
    message->add_term_sums(part.terms);
  }
}

}  // namespace nearfield::server
