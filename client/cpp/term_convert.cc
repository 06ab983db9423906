#include "client/cpp/term_convert.h"

#include <utility>

#include "client/cpp/check_text.h"
#include "client/cpp/filter_convert.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

// Converts a form; begins errors with `field`.
class FormToProto {
 public:
  FormToProto(std::string field, v1::RowTerm* proto) : field_(std::move(field)), proto_(proto) {}

  absl::Status operator()(const LinearTerm& term) {
    SetLine(term, proto_->mutable_linear());
    return SetAttribute(term);
  }
  absl::Status operator()(const ClampedTerm& term) {
    SetLine(term, proto_->mutable_clamped());
    proto_->mutable_clamped()->set_low(term.low);
    proto_->mutable_clamped()->set_high(term.high);
    return SetAttribute(term);
  }
  absl::Status operator()(const HalfLifeTerm& term) {
    proto_->mutable_half_life()->set_origin(term.origin);
    proto_->mutable_half_life()->set_half_life(term.half_life);
    proto_->mutable_half_life()->set_offset(term.offset);
    return SetAttribute(term);
  }
  absl::Status operator()(const FilterTerm& term) {
    v1::FilterTerm* const filter = proto_->mutable_filter();
    return ToProto(field_ + ".filter.", term.filter, filter->mutable_filter_text(),
                   filter->mutable_filter_args());
  }

 private:
  template <typename Term, typename Proto>
  static void SetLine(const Term& term, Proto* proto) {
    proto->set_origin(term.origin);
    proto->set_scale(term.scale);
  }
  template <typename Term>
  absl::Status SetAttribute(const Term& term) {
    NF_RETURN_IF_ERROR(CheckText(field_ + ".attribute", term.attribute));
    proto_->set_attribute(term.attribute);
    proto_->set_missing(term.missing);
    return absl::OkStatus();
  }

  const std::string field_;
  v1::RowTerm* const proto_;
};

absl::StatusOr<RowTerm> TermFromProto(const v1::RowTerm& proto) {
  RowTerm term = {.form = LinearTerm(), .weight = proto.has_weight() ? proto.weight() : 1};
  switch (proto.form_case()) {
    case v1::RowTerm::kLinear:
      term.form = LinearTerm{.attribute = proto.attribute(),
                             .origin = proto.linear().origin(),
                             .scale = proto.linear().has_scale() ? proto.linear().scale() : 1,
                             .missing = proto.missing()};
      return term;
    case v1::RowTerm::kClamped:
      term.form = ClampedTerm{.attribute = proto.attribute(),
                              .origin = proto.clamped().origin(),
                              .scale = proto.clamped().has_scale() ? proto.clamped().scale() : 1,
                              .low = proto.clamped().low(),
                              .high = proto.clamped().high(),
                              .missing = proto.missing()};
      return term;
    case v1::RowTerm::kHalfLife:
      term.form = HalfLifeTerm{.attribute = proto.attribute(),
                               .origin = proto.half_life().origin(),
                               .half_life = proto.half_life().half_life(),
                               .offset = proto.half_life().offset(),
                               .missing = proto.missing()};
      return term;
    case v1::RowTerm::kFilter: {
      std::vector<FilterArgument> arguments;
      for (const v1::FilterArgument& each : proto.filter().filter_args()) {
        NF_ASSIGN_OR_RETURN(FilterArgument argument,
                            FilterArgument::Parse(each.SerializeAsString()));
        arguments.push_back(std::move(argument));
      }
      term.form = FilterTerm{Filter(proto.filter().filter_text(), std::move(arguments))};
      return term;
    }
    default: return absl::InvalidArgumentError("a term has a form that this client does not know");
  }
}

}  // namespace

absl::Status ToProto(const RowTerms& terms, v1::RowTerms* proto) {
  proto->set_score_weight(terms.score_weight);
  for (size_t i = 0; i < terms.terms.size(); ++i) {
    v1::RowTerm* const term = proto->add_terms();
    term->set_weight(terms.terms[i].weight);
    NF_RETURN_IF_ERROR(
        std::visit(FormToProto(Cat("terms.terms[", i, "]"), term), terms.terms[i].form));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> SerializeTerms(const RowTerms& terms) {
  v1::RowTerms proto;
  NF_RETURN_IF_ERROR(ToProto(terms, &proto));
  return proto.SerializeAsString();
}

absl::StatusOr<RowTerms> ParseTerms(std::string_view message) {
  v1::RowTerms proto;
  if (!proto.ParseFromArray(message.data(), static_cast<int>(message.size()))) {
    return absl::InvalidArgumentError("not a RowTerms message");
  }
  RowTerms terms;
  if (proto.has_score_weight()) terms.score_weight = proto.score_weight();
  for (const v1::RowTerm& each : proto.terms()) {
    NF_ASSIGN_OR_RETURN(RowTerm term, TermFromProto(each));
    terms.terms.push_back(std::move(term));
  }
  return terms;
}

absl::StatusOr<std::vector<ScoreParts>> TakeParts(const v1::ScoreParts& proto, size_t rows_count) {
  if (static_cast<size_t>(proto.scores_size()) != rows_count ||
      static_cast<size_t>(proto.term_sums_size()) != rows_count) {
    return absl::InternalError("malformed reply: parts of scores");
  }
  std::vector<ScoreParts> parts;
  parts.reserve(rows_count);
  for (int i = 0; i < proto.scores_size(); ++i) {
    parts.push_back({.score = proto.scores(i), .term_sum = proto.term_sums(i)});
  }
  return parts;
}

}  // namespace nearfield::client
