// The commands and options of a program, read from its CLI11 declarations.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace nearfield {

struct OptionNode {
  std::vector<std::string> names;    // "-k", "--metric"
  std::string value;                 // name of its value: "TEXT"; empty: a flag
  std::vector<std::string> choices;  // its allowed values, if they are a fixed list
  std::string description;
  std::string environment;  // the variable that also sets it; may be empty
};

struct CommandNode {
  const CLI::App* app = nullptr;
  std::string path;                    // "collections create"; empty: the program
  std::vector<std::string> commands;   // names of its commands
  std::vector<OptionNode> options;     // also those that it inherits
  size_t options_own_count = 0;        // the first ones are not inherited
  std::vector<std::string> arguments;  // "collection", "[ids...]"
};

// Returns the program and all its commands, in the order of their declaration. Hidden commands and
// options (of the group "") are left out.
std::vector<CommandNode> CommandsOf(const CLI::App& program);

// Returns the innermost command that the last command line named.
CommandNode NodeOnCommandLine(const CLI::App& program);

}  // namespace nearfield
