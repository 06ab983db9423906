// nearfield text and nearfield import: they run nearfield-text and nearfield-import, programs of
// the Python package.
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

// Passes on the credentials: the programs take them from the environment, as every Python client.
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

// Replaces this process by a program, whose name is the first word: the one in the folder of this
// program, which is that of the same Python environment, else the one on PATH. Returns only if
// there is none. extra: of the Python package, with what it needs.
int RunProgram(std::vector<std::string> words, const char* extra) {
  const std::string program = words.front();
  std::fflush(stdout);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const std::string neighbor =
      (std::filesystem::path(ThisProgram()).parent_path() / program).string();
  ::execv(neighbor.c_str(), arguments.data());
  ::execvp(program.c_str(), arguments.data());
  if (errno != ENOENT) {
    PrintError(Cat(absl::ErrnoToStatus(errno, Cat("cannot run ", program)).message()));
    return kExitUsage;
  }
  PrintError(Cat(program, " is not installed: it is part of the Python package. Install it ",
                 "from a checkout, with: pip install './client/python", extra, "'"));
  return kExitUsage;
}

// Adds a command that runs a program with all words after its name, --help included.
void AddProgram(CLI::App* command, const GlobalOptions& global, Action* action, const char* extra) {
  command->set_help_flag();
  command->fallthrough(false);
  command->prefix_command();
  OnChosen(command, action, [&global, command, extra] {
    std::vector<std::string> words = {Cat("nearfield-", command->get_name()), "--address",
                                      global.address};
    if (global.timeout_s) words.insert(words.end(), {"--timeout", Cat(*global.timeout_s)});
    if (!global.caller.empty()) words.insert(words.end(), {"--caller", global.caller});
    if (global.json) words.emplace_back("--json");
    const std::vector<std::string> rest = command->remaining();
    words.insert(words.end(), rest.begin(), rest.end());
    ExportIdentity(global.identity);
    return RunProgram(std::move(words), extra);
  });
}

}  // namespace

void AddPythonCommands(CLI::App& app, const GlobalOptions& global, Action* action) {
  AddProgram(app.add_subcommand("text",
                                "Index a folder of texts, and answer questions about it; "
                                "needs the Python package"),
             global, action, "[text]");
  AddProgram(app.add_subcommand("import",
                                "Import from Qdrant, Chroma, LanceDB, FAISS or a file of "
                                "vectors; needs the Python package"),
             global, action, "");
}

}  // namespace nearfield::client
