#include "client/cli/term_option.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "client/cli/options.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/value_text/decimal_text.h"
#include "client/value_text/timestamp_text.h"

namespace nearfield::client {
namespace {

std::string_view Trimmed(std::string_view text) {
  const absl::string_view trimmed =
      absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  return {trimmed.data(), trimmed.size()};
}

absl::Status Wrong(std::string_view what) { return absl::InvalidArgumentError(std::string(what)); }

double MicrosecondsNow() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

// Returns the microseconds of a unit of time: s, m, h or d.
std::optional<double> UnitOf(char unit) {
  switch (unit) {
    case 's': return 1e6;
    case 'm': return 60e6;
    case 'h': return 3600e6;
    case 'd': return 86400e6;
    default: return std::nullopt;
  }
}

// Parses an origin: a number, the word now, or a time, which may have the quotes of a filter.
absl::StatusOr<double> ParseOrigin(std::string_view text, double now) {
  if (text == "now") return now;
  if (const auto number = ParseDecimal(text)) return *number;
  std::string_view time = text;
  if (time.size() > 1 && time.front() == '"' && time.back() == '"') {
    time = time.substr(1, time.size() - 2);
  }
  const absl::StatusOr<Microseconds> parsed = ParseTimestamp(time);
  if (parsed.ok()) return static_cast<double>(parsed->time_since_epoch().count());
  return Wrong(
      Cat("origin=", text, " must be a number, now, or a time: ", parsed.status().message()));
}

// Parses a number, or a span of time such as 30d.
std::optional<double> ParseSpan(std::string_view text) {
  if (const auto number = ParseDecimal(text)) return number;
  const std::optional<double> unit = text.empty() ? std::nullopt : UnitOf(text.back());
  if (!unit) return std::nullopt;
  const auto count = ParseDecimal(text.substr(0, text.size() - 1));
  return count ? std::optional(*count * *unit) : std::nullopt;
}

absl::StatusOr<double> ParseParameter(std::string_view name, std::string_view text, double now) {
  if (name == "origin") return ParseOrigin(text, now);
  const bool is_span = name == "half_life" || name == "offset";
  const std::optional<double> number = is_span ? ParseSpan(text) : ParseDecimal(text);
  if (number) return *number;
  return Wrong(Cat(name, "=", text, " must be a number", is_span ? " or a span such as 30d" : ""));
}

// The parts of "linear(importance, scale=0.1)".
struct ParsedForm {
  std::string attribute;
  std::map<std::string, double> parameters;

  // Removes a parameter, and returns its value.
  double Take(const std::string& name, double otherwise) {
    const auto found = parameters.find(name);
    if (found == parameters.end()) return otherwise;
    return parameters.extract(found).mapped();
  }
};

absl::StatusOr<ParsedForm> ParseForm(std::string_view inside, double now) {
  ParsedForm form;
  const size_t end = inside.find(',');
  form.attribute = Trimmed(inside.substr(0, end));
  if (form.attribute.empty()) return Wrong("the name of an attribute must come first");
  while (inside.find(',') != std::string_view::npos) {
    inside.remove_prefix(inside.find(',') + 1);
    const std::string_view parameter = Trimmed(inside.substr(0, inside.find(',')));
    const size_t equals = parameter.find('=');
    if (equals == std::string_view::npos) {
      return Wrong(Cat("\"", parameter, "\" is no parameter, as in scale=0.1"));
    }
    const std::string name(Trimmed(parameter.substr(0, equals)));
    const std::string_view value = Trimmed(parameter.substr(equals + 1));
    NF_ASSIGN_OR_RETURN(const double number, ParseParameter(name, value, now));
    if (!form.parameters.emplace(name, number).second) return Wrong(Cat(name, " is given twice"));
  }
  return form;
}

// Returns the parameters that a form cannot do without.
std::vector<std::string> NeededBy(std::string_view name) {
  if (name == "clamped") return {"low", "high"};
  if (name == "half_life") return {"half_life", "origin"};
  return {};
}

absl::StatusOr<RowTerm> TermOf(std::string_view name, ParsedForm form) {
  RowTerm term;
  for (const std::string& needed : NeededBy(name)) {
    if (form.parameters.count(needed) == 0) return Wrong(Cat(name, " needs ", needed, "="));
  }
  if (name == "linear") {
    term.form = LinearTerm{.attribute = form.attribute,
                           .origin = form.Take("origin", 0),
                           .scale = form.Take("scale", 1),
                           .missing = form.Take("missing", 0)};
  } else if (name == "clamped") {
    term.form = ClampedTerm{.attribute = form.attribute,
                            .origin = form.Take("origin", 0),
                            .scale = form.Take("scale", 1),
                            .low = form.Take("low", 0),
                            .high = form.Take("high", 0),
                            .missing = form.Take("missing", 0)};
  } else if (name == "half_life") {
    term.form = HalfLifeTerm{.attribute = form.attribute,
                             .origin = form.Take("origin", 0),
                             .half_life = form.Take("half_life", 0),
                             .offset = form.Take("offset", 0),
                             .missing = form.Take("missing", 0)};
  } else {
    return Wrong(Cat("\"", name, "\" is none of linear, clamped, half_life and is"));
  }
  if (form.parameters.empty()) return term;
  return Wrong(Cat(name, " has no parameter ", form.parameters.begin()->first));
}

}  // namespace

const char kTermHelp[] =
    "A row term, which is added to the score of a row (WEIGHT * is optional):\n"
    "  0.3 * half_life(written, half_life=30d, origin=now)   halved every 30 days from now\n"
    "  0.1 * linear(importance)                              also origin=, scale=, missing=\n"
    "  clamped(price, scale=-0.01, low=-1, high=0)\n"
    "  0.05 * is(kind == \"note\")                             a boost of rows that pass a filter\n"
    "Numbers. For timestamps origin= is also a time or now, and half_life= and offset= are also\n"
    "spans in s, m, h or d.\n";

absl::StatusOr<RowTerm> ParseTerm(std::string_view text, double now) {
  text = Trimmed(text);
  const size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')') {
    return Wrong("must be FORM(...) or WEIGHT * FORM(...)");
  }
  const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
  std::string_view name = text.substr(0, open);
  std::optional<double> weight = 1;
  if (const size_t star = name.find('*'); star != std::string_view::npos) {
    weight = ParseDecimal(Trimmed(name.substr(0, star)));
    if (!weight) return Wrong(Cat("\"", Trimmed(name.substr(0, star)), "\" must be a number"));
    name = name.substr(star + 1);
  }
  name = Trimmed(name);
  RowTerm term;
  if (name == "is") {
    term.form = FilterTerm{Filter(std::string(Trimmed(inside)))};
  } else {
    NF_ASSIGN_OR_RETURN(ParsedForm form, ParseForm(inside, now));
    NF_ASSIGN_OR_RETURN(term, TermOf(name, std::move(form)));
  }
  term.weight = *weight;
  return term;
}

void AddTermOptions(CLI::App& app, std::optional<RowTerms>* terms) {
  const auto of = [terms]() -> RowTerms& {
    return terms->has_value() ? **terms : terms->emplace();
  };
  const auto add = [of](const std::vector<std::string>& given) {
    const double now = MicrosecondsNow();
    for (const std::string& text : given) {
      absl::StatusOr<RowTerm> term = ParseTerm(text, now);
      const std::string wrong = Cat(text, ": ", term.status().message());
      if (!term.ok()) throw CLI::ValidationError("--term", wrong);
      of().terms.push_back(*std::move(term));
    }
  };
  Repeated(app.add_option_function<std::vector<std::string>>(
      "--term", add, "A row term, as written below, which is added to the score; may be repeated"));
  app.add_option_function<double>(
         "--score-weight", [of](double weight) { of().score_weight = weight; },
         "The weight of the score of the vectors, next to the terms [1]")
      ->check(Number());
}

}  // namespace nearfield::client
