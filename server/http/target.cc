#include "server/http/target.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace nearfield::server {

std::optional<std::string> PercentDecoded(std::string_view text, bool is_query) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += is_query && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (text.size() - i < 3 || !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]))) {
      return std::nullopt;
    }
    decoded += absl::HexStringToBytes(absl::string_view(text.data() + i + 1, 2));
    i += 2;
  }
  return decoded;
}

std::vector<std::pair<std::string_view, std::string_view>> ParametersIn(std::string_view query) {
  std::vector<std::pair<std::string_view, std::string_view>> parameters;
  for (size_t begin = 0; begin < query.size();) {
    const size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view part = query.substr(begin, end - begin);
    const size_t equals = std::min(part.find('='), part.size());
    parameters.emplace_back(part.substr(0, equals), part.substr(std::min(equals + 1, part.size())));
    begin = end + 1;
  }
  return parameters;
}

std::optional<std::string> ParameterIn(std::string_view query, std::string_view name) {
  for (const auto& [each, value] : ParametersIn(query)) {
    if (each == name) return PercentDecoded(value, true);
  }
  return std::nullopt;
}

}  // namespace nearfield::server
