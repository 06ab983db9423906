#include "nearfield/client/filter.h"

namespace nearfield::client {

Filter Filter::And(std::vector<Filter> filters) {
  Filter filter(Kind::kAnd);
  filter.operands_ = std::move(filters);
  return filter;
}

Filter Filter::Or(std::vector<Filter> filters) {
  Filter filter(Kind::kOr);
  filter.operands_ = std::move(filters);
  return filter;
}

Filter Filter::Not(Filter operand) {
  Filter filter(Kind::kNot);
  filter.operands_.push_back(std::move(operand));
  return filter;
}

Filter Filter::OfValues(Kind kind, std::string attribute, std::vector<AttributeValue> values) {
  Filter filter(kind);
  filter.attribute_ = std::move(attribute);
  filter.values_ = std::move(values);
  return filter;
}

Filter Filter::Equal(std::string attribute, AttributeValue value) {
  return OfValues(Kind::kEqual, std::move(attribute), {std::move(value)});
}
Filter Filter::NotEqual(std::string attribute, AttributeValue value) {
  return OfValues(Kind::kNotEqual, std::move(attribute), {std::move(value)});
}
Filter Filter::Less(std::string attribute, AttributeValue value) {
  return OfValues(Kind::kLess, std::move(attribute), {std::move(value)});
}
Filter Filter::LessEqual(std::string attribute, AttributeValue value) {
  return OfValues(Kind::kLessEqual, std::move(attribute), {std::move(value)});
}
Filter Filter::Greater(std::string attribute, AttributeValue value) {
  return OfValues(Kind::kGreater, std::move(attribute), {std::move(value)});
}
Filter Filter::GreaterEqual(std::string attribute, AttributeValue value) {
  return OfValues(Kind::kGreaterEqual, std::move(attribute), {std::move(value)});
}
Filter Filter::In(std::string attribute, std::vector<AttributeValue> values) {
  return OfValues(Kind::kIn, std::move(attribute), std::move(values));
}
Filter Filter::ListAny(std::string attribute, std::vector<AttributeValue> values) {
  return OfValues(Kind::kListAny, std::move(attribute), std::move(values));
}
Filter Filter::ListAll(std::string attribute, std::vector<AttributeValue> values) {
  return OfValues(Kind::kListAll, std::move(attribute), std::move(values));
}
Filter Filter::Exists(std::string attribute) {
  return OfValues(Kind::kExists, std::move(attribute), {});
}

Filter Filter::HasId(IdColumn ids) {
  Filter filter(Kind::kHasId);
  filter.ids_ = std::move(ids);
  return filter;
}

bool Filter::operator==(const Filter& other) const {
  return kind_ == other.kind_ && operands_ == other.operands_ && attribute_ == other.attribute_ &&
         values_ == other.values_ && ids_ == other.ids_;
}

}  // namespace nearfield::client
