// nearfield completion | man-page
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "client/command_line/completion.h"
#include "client/command_line/man_page.h"

namespace nearfield::client {

void AddCompletionCommand(CLI::App& app, Action* action) {
  auto shell = std::make_shared<std::string>();
  CLI::App* completion = app.add_subcommand("completion", "Print the completion script of a shell");
  completion->add_option("shell", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(kShells.begin(), kShells.end())));
  completion->footer(
      "Examples:\n"
      "  eval \"$(nearfield completion bash)\"      in ~/.bashrc\n"
      "  nearfield completion zsh > DIRECTORY/_nearfield      a directory of fpath\n"
      "  nearfield completion fish > ~/.config/fish/completions/nearfield.fish");
  OnChosen(completion, action, [&app, shell] {
    Print(CompletionScript(app, *shell));
    return kExitOk;
  });
  // For the build: the page is installed.
  CLI::App* page = app.add_subcommand("man-page", "Print the manual page")->group("");
  OnChosen(page, action, [&app] {
    Print(ManPage(app,
                  {.section = 1, .version = NEARFIELD_VERSION, .see_also = "nearfield-server(8)"}));
    return kExitOk;
  });
}

}  // namespace nearfield::client
