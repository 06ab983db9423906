// Completion scripts for shells, written from the declarations of a program.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace nearfield {

inline constexpr std::array<std::string_view, 3> kShells = {"bash", "zsh", "fish"};

// Returns a script that completes the commands, options and values of the program.
//   bash  eval "$(PROGRAM ...)", or a file of bash-completion
//   zsh   a file _PROGRAM in a directory of fpath
//   fish  a file PROGRAM.fish in a directory of fish_complete_path
// Requires: one of kShells.
std::string CompletionScript(const CLI::App& program, std::string_view shell);

}  // namespace nearfield
