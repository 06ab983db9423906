#include "server/attributes/term_list.h"

#include <string_view>
#include <utility>

namespace nearfield::server {
namespace {

template <typename T>
void Append(const T& number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace

TermList::TermList(double score_weight, std::vector<Term> terms)
    : score_weight_(score_weight), terms_(std::move(terms)) {
  Append(score_weight_, &canonical_);
  for (const Term& term : terms_) {
    const TermParameters& p = term.parameters;
    Append(p.form, &canonical_);
    for (const double number : {p.weight, p.origin, p.scale, p.low, p.high, p.offset, p.missing}) {
      Append(number, &canonical_);
    }
    Append(term.attribute, &canonical_);
    std::string_view filter;
    if (term.filter.has_value()) filter = term.filter->canonical();
    Append(filter.size(), &canonical_);
    canonical_ += filter;
  }
}

int64_t TermList::bytes() const {
  auto bytes =
      static_cast<int64_t>(sizeof *this + terms_.capacity() * sizeof(Term) + canonical_.capacity());
  for (const Term& term : terms_) {
    if (term.filter.has_value()) bytes += term.filter->bytes();
  }
  return bytes;
}

}  // namespace nearfield::server
