#include "client/command_line/suggest.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "client/command_line/command_tree.h"

namespace nearfield {
namespace {

// Returns the number of edits between two words: optimal string alignment.
// Source: L. Boytsov, "Indexing methods for approximate dictionary searching", 2011.
size_t EditsBetween(std::string_view a, std::string_view b) {
  std::vector<size_t> two_above(b.size() + 1);
  std::vector<size_t> above(b.size() + 1);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_above, above);
    std::swap(above, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], two_above[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string Joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// Returns the last flag on the command line, or empty.
std::string LastFlag(const CLI::App& app) {
  std::string name;
  for (const CLI::Option* option : app.parse_order()) {
    if (option->count() > 0 && option->get_items_expected_max() == 0) name = option->get_name();
  }
  return name;
}

}  // namespace

std::optional<std::string> Closest(std::string_view given, const std::vector<std::string>& known) {
  std::optional<std::string> closest;
  size_t edits_max = std::max<size_t>(given.size() / 3, 1);
  for (const std::string& word : known) {
    const size_t edits = EditsBetween(given, word);
    if (edits > edits_max || (edits == edits_max && closest)) continue;
    closest = word;
    edits_max = edits;
  }
  return closest;
}

std::string DidYouMean(std::string_view given, const std::vector<std::string>& known) {
  const std::optional<std::string> closest = Closest(given, known);
  return closest ? "; did you mean " + *closest + "?" : "";
}

std::optional<std::string> UnknownArgument(const CLI::App& app) {
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  if (left.empty()) return std::nullopt;
  const CommandNode node = NodeOnCommandLine(app);
  const std::string given = left.front().substr(0, left.front().find('='));
  const std::string command = node.path.empty() ? app.get_name() : app.get_name() + " " + node.path;
  if (given.starts_with('-')) {
    std::vector<std::string> names;
    for (const OptionNode& option : node.options) {
      names.insert(names.end(), option.names.begin(), option.names.end());
    }
    const std::string suggestion = DidYouMean(given, names);
    return given + ": no such option" +
           (suggestion.empty() ? "; see " + command + " --help" : suggestion);
  }
  if (node.commands.empty()) {
    const std::string flag = node.arguments.empty() ? LastFlag(*node.app) : "";
    return given + ": an argument too many; " +
           (flag.empty() ? "see " + command + " --help"
                         : "a flag takes its value after '=', such as " + flag + "=false");
  }
  std::string suggestion = DidYouMean(given, node.commands);
  return given + ": no such command" + suggestion + (suggestion.empty() ? "; the" : " The") +
         " commands of " + command + ": " + Joined(node.commands);
}

}  // namespace nearfield
