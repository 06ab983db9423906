#include "client/value_text/decimal_text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>

namespace nearfield {

std::optional<double> ParseDecimal(std::string_view text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  // from_chars would also accept words such as "nan".
  if (text.find_first_not_of("+-.0123456789eE") != std::string_view::npos) return std::nullopt;
  double number = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ptr != end || text.empty()) return std::nullopt;
  if (parsed.ec == std::errc()) return number;
  // Too large, or so small that it rounds to a denormal or to zero.
  const double wide = std::strtod(std::string(text).c_str(), nullptr);
  if (parsed.ec != std::errc::result_out_of_range || std::fabs(wide) > 1.0) return std::nullopt;
  return wide;
}

}  // namespace nearfield
