// Options --term and --score-weight: row terms as texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nearfield/client/terms.h"

namespace CLI {
class App;
}  // namespace CLI

namespace nearfield::client {

// Syntax of a term, for the help of commands that accept one.
extern const char kTermHelp[];

// Parses "0.3 * half_life(written, half_life=30d, origin=now)". `now`: the microseconds since 1970
// that the word now stands for. Errors: InvalidArgument (says what is wrong).
absl::StatusOr<RowTerm> ParseTerm(std::string_view text, double now);

void AddTermOptions(CLI::App& app, std::optional<RowTerms>* terms);

}  // namespace nearfield::client
