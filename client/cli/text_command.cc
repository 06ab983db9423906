// nearfield text: runs nearfield-text, a program of the Python package.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/command.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr char kTextProgram[] = "nearfield-text";

// Passes on the credentials: nearfield-text takes them from the environment, as every Python
// client.
void ExportIdentity(const ClientOptions& identity) {
  std::string metadata;
  for (const auto& [name, value] : identity.metadata) {
    metadata += Cat(metadata.empty() ? "" : ",", name, "=", value);
  }
  const std::pair<const char*, const std::string*> variables[] = {
      {"NEARFIELD_CA", &identity.ca_file},
      {"NEARFIELD_CLIENT_CERT", &identity.client_cert_file},
      {"NEARFIELD_CLIENT_KEY", &identity.client_key_file},
      {"NEARFIELD_TOKEN_FILE", &identity.token_file},
      {"NEARFIELD_METADATA", &metadata}};
  for (const auto& [name, value] : variables) {
    ::setenv(name, value->c_str(), 1);  // NOLINT(concurrency-mt-unsafe): there is one thread
  }
}

// Replaces this process by nearfield-text: the one in the folder of this program, which is that of
// the same Python environment, else the one on PATH. Returns only if there is none.
int RunTextProgram(std::vector<std::string> words) {
  std::fflush(stdout);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string neighbor =
      (std::filesystem::path(ThisProgram()).parent_path() / kTextProgram).string();
  ::execv(neighbor.c_str(), arguments.data());
  ::execvp(kTextProgram, arguments.data());
  if (errno != ENOENT) {
    PrintError(Cat(absl::ErrnoToStatus(errno, Cat("cannot run ", kTextProgram)).message()));
    return kExitUsage;
  }
  PrintError(Cat(kTextProgram, " is not installed: it is part of the Python package. Install it ",
                 "from a checkout, with: pip install './client/python[text]'"));
  return kExitUsage;
}

}  // namespace

void AddTextCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* command = app.add_subcommand(
      "text", "Index a folder of texts, and answer questions about it; needs the Python package");
  // All words after `text` are for the other program, --help included.
  command->set_help_flag();
  command->fallthrough(false);
  command->prefix_command();
  OnChosen(command, action, [&global, command] {
    std::vector<std::string> words = {kTextProgram, "--address", global.address};
    if (global.timeout_s) words.insert(words.end(), {"--timeout", Cat(*global.timeout_s)});
    if (!global.caller.empty()) words.insert(words.end(), {"--caller", global.caller});
    if (global.json) words.emplace_back("--json");
    const std::vector<std::string> rest = command->remaining();
    words.insert(words.end(), rest.begin(), rest.end());
    ExportIdentity(global.identity);
    return RunTextProgram(std::move(words));
  });
}

}  // namespace nearfield::client
