#include "client/formats/json_text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"
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

// Returns the position of the first ',' or ':' outside strings and nested values from `at`, or the
// end.
size_t SeparatorAt(std::string_view text, size_t at) {
  size_t depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = StringEnd(text, at);
      continue;
    }
    if (c == '[' || c == '{') ++depth;
    if ((c == ']' || c == '}') && depth > 0) --depth;
    if (depth == 0 && (c == ',' || c == ':')) return at;
    ++at;
  }
  return at;
}

// Returns the text between the outer brackets.
absl::StatusOr<std::string_view> Inside(std::string_view text, char open, char close) {
  const std::string_view trimmed = TrimJson(text);
  if (trimmed.size() < 2 || trimmed.front() != open || trimmed.back() != close) {
    return absl::InvalidArgumentError(open == '{' ? "expected a JSON object"
                                                  : "expected a JSON array");
  }
  return TrimJson(trimmed.substr(1, trimmed.size() - 2));
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

}  // namespace

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
  NF_ASSIGN_OR_RETURN(std::string_view rest, Inside(text, '{', '}'));
  std::vector<JsonMember> members;
  while (!rest.empty()) {
    const size_t colon = SeparatorAt(rest, 0);
    if (colon >= rest.size()) return absl::InvalidArgumentError("expected a JSON object");
    const size_t end = SeparatorAt(rest, colon + 1);
    std::optional<std::string> key = JsonString(rest.substr(0, colon));
    if (!key) return absl::InvalidArgumentError("expected a JSON object");
    members.push_back({*std::move(key), TrimJson(rest.substr(colon + 1, end - colon - 1))});
    rest.remove_prefix(end == rest.size() ? end : end + 1);
  }
  return members;
}

absl::StatusOr<std::vector<std::string_view>> JsonElements(std::string_view text) {
  NF_ASSIGN_OR_RETURN(std::string_view rest, Inside(text, '[', ']'));
  std::vector<std::string_view> elements;
  while (!rest.empty()) {
    const size_t end = SeparatorAt(rest, 0);
    elements.push_back(TrimJson(rest.substr(0, end)));
    rest.remove_prefix(end == rest.size() ? end : end + 1);
  }
  return elements;
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
  std::string quoted = "\"";
  while (!bytes.empty()) {
    const size_t length = Utf8Length(bytes);
    const char c = bytes.front();
    if (length == 0) {
      quoted += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\u%04x", static_cast<unsigned>(c));
    } else {
      quoted.append(bytes.substr(0, length));
    }
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return quoted + "\"";
}

}  // namespace nearfield::client
