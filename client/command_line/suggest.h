// Suggestions for misspelled commands, options and settings.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace nearfield {

// Returns the known word that `given` most likely means: the one with the fewest letters added,
// removed, replaced or exchanged with their neighbor, at most a third of them.
std::optional<std::string> Closest(std::string_view given, const std::vector<std::string>& known);

// Returns "; did you mean WORD?" if a known word is close; else "".
std::string DidYouMean(std::string_view given, const std::vector<std::string>& known);

// Returns what is wrong with the first argument that the parser could not place, with a suggestion;
// nullopt if it placed all. Requires: app.parse threw an error.
std::optional<std::string> UnknownArgument(const CLI::App& app);

}  // namespace nearfield
