#include "client/formats/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "client/cpp/status_macros.h"

namespace nearfield::client {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Returns the end of the string whose opening quote is at `at`: the byte after its closing quote.
size_t StringEnd(std::string_view text, size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == '"') {
      return at + 1;
    }
  }
  return text.size();
}

// Returns the position of the first ',' or ':' outside strings and nested values, or the end.
size_t SeparatorAt(std::string_view text) {
  size_t depth = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth == 0 && (c == ',' || c == ':')) return at;
    at = c == '"' ? StringEnd(text, at) : at + 1;
  }
  return text.size();
}

// Returns the parts of an object or array between its outer separators, trimmed. brackets: "{}" or
// "[]".
absl::StatusOr<std::vector<std::string_view>> Parts(std::string_view text,
                                                    std::string_view brackets) {
  std::string_view rest = TrimJson(text);
  if (rest.size() < 2 || rest.front() != brackets[0] || rest.back() != brackets[1]) {
    return absl::InvalidArgumentError(
        Cat("expected a JSON ", brackets == "{}" ? "object" : "array"));
  }
  rest = TrimJson(rest.substr(1, rest.size() - 2));
  std::vector<std::string_view> parts;
  while (!rest.empty()) {
    const size_t end = SeparatorAt(rest);
    parts.push_back(TrimJson(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return parts;
}

// Parses one decimal, rounded once. Returns false if it is not a number or not a finite fp32.
bool ParseFloat(std::string_view text, float* value) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, *value);
  if (parsed.ec == std::errc() && parsed.ptr == end) return std::isfinite(*value);
  if (parsed.ec != std::errc::result_out_of_range) return false;
  // Too large, or smaller than half of the smallest denormal, which rounds to zero.
  const double wide = std::strtod(std::string(text).c_str(), nullptr);
  if (std::fabs(wide) > 1.0) return false;
  *value = std::signbit(wide) ? -0.0f : 0.0f;
  return true;
}

// Accepts all values and keeps the first error.
struct Checker : nlohmann::detail::json_sax_acceptor<nlohmann::json> {
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& raised) {
    constexpr int kOutOfRange = 406;
    // The library's message begins with its name and the place: "[...] parse error at ...: reason".
    std::string reason = raised.what();
    if (const size_t cut = reason.find(": "); cut != std::string::npos) reason.erase(0, cut + 2);
    if (raised.id == kOutOfRange) reason = "a number beyond the range of a double";
    error = absl::InvalidArgumentError(Cat("column ", position, ": ", reason));
    return false;
  }

  absl::Status error;
};

}  // namespace

absl::Status CheckJson(std::string_view text) {
  // The library treats a NUL as the end of the text, and skips a byte order mark.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(Cat("column ", nul + 1, ": a NUL byte"));
  }
  if (text.substr(0, 3) == "\xef\xbb\xbf") {
    return absl::InvalidArgumentError("column 1: a byte order mark");
  }
  Checker checker;
  nlohmann::json::sax_parse(text.begin(), text.end(), &checker);
  return checker.error;
}

std::string_view TrimJson(std::string_view text) {
  while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

std::string CompactJson(std::string_view text) {
  std::string compact;
  compact.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '"' ? StringEnd(text, at) : at + 1;
    if (!IsSpace(text[at])) compact.append(text.substr(at, end - at));
    at = end;
  }
  return compact;
}

absl::StatusOr<std::vector<JsonMember>> JsonMembers(std::string_view text) {
  NF_ASSIGN_OR_RETURN(const std::vector<std::string_view> parts, Parts(text, "{}"));
  std::vector<JsonMember> members;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    members.push_back({JsonString(parts[i]).value_or(""), parts[i + 1]});
  }
  return members;
}

absl::StatusOr<std::vector<std::string_view>> JsonElements(std::string_view text) {
  return Parts(text, "[]");
}

std::optional<std::string> JsonString(std::string_view text) {
  const std::string_view trimmed = TrimJson(text);
  if (trimmed.empty() || trimmed.front() != '"') return std::nullopt;
  nlohmann::json value = nlohmann::json::parse(trimmed.begin(), trimmed.end(), nullptr,
                                               /*allow_exceptions=*/false);
  if (!value.is_string()) return std::nullopt;
  return std::move(value.get_ref<std::string&>());
}

absl::StatusOr<std::vector<float>> JsonFloats(std::string_view text) {
  NF_ASSIGN_OR_RETURN(const std::vector<std::string_view> elements, JsonElements(text));
  std::vector<float> values(elements.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    if (!ParseFloat(elements[i], &values[i])) {
      return absl::InvalidArgumentError(
          Cat("element ", i, " is ", elements[i].substr(0, 40), ", not a finite float32 number"));
    }
  }
  return values;
}

absl::StatusOr<Id> JsonId(std::string_view text) {
  const std::string_view trimmed = TrimJson(text);
  if (std::optional<std::string> value = JsonString(trimmed)) return Id(*std::move(value));
  if (const auto number = ParseNumber<uint64_t>(trimmed)) return Id(*number);
  return absl::InvalidArgumentError(
      Cat("id is ", trimmed.substr(0, 40),
          "; an id is a string or a whole number 0 .. 18446744073709551615"));
}

std::string QuoteJson(std::string_view bytes) {
  return nlohmann::json(std::string(bytes))
      .dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

}  // namespace nearfield::client
