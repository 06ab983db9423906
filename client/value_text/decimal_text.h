// Decimals as text.
#pragma once

#include <optional>
#include <string_view>

namespace nearfield {

// Returns the double that the whole text spells, "inf" and "-inf" included: rounded once, to
// nearest even. Returns nullopt for any other text, for NaN, and for a number beyond the range of a
// double.
std::optional<double> ParseDecimal(std::string_view text);

}  // namespace nearfield
