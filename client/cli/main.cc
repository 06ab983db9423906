// Main program of the command `nearfield`.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/options.h"
#include "client/command_line/command_tree.h"
#include "client/command_line/suggest.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr char kDescription[] =
    "nearfield: upload vectors to a nearfield server, search them exactly, and prove the answers.";

constexpr char kFooter[] =
    "First steps:\n"
    "  nearfield health                                    is the server ready?\n"
    "  nearfield demo                                      a corpus, and searches to try\n"
    "  nearfield upload docs docs.npy --create --metric cosine --payloads docs.jsonl\n"
    "  nearfield search docs --queries q.npy --row 0 -k 5 --fields title --verify\n"
    "  nearfield COMMAND --help                            more about one command\n"
    "\n"
    "Exit codes:\n"
    "  0  done\n"
    "  1  a negative answer: unhealthy, an answer that differs from the oracle's, or something "
    "that is not there\n"
    "  2  wrong usage, or a bad input file\n"
    "  3  the server refused; its status is printed\n"
    "  4  no server could be reached\n";

// Adds an entry "NAME=VALUE". Throws for another form.
void AddMetadata(const std::vector<std::string>& entries, ClientOptions* options) {
  for (const std::string& entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) throw CLI::ValidationError("--metadata", entry + ": no '='");
    options->metadata.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
}

void AddIdentityOptions(CLI::App& app, ClientOptions* options) {
  app.add_option("--ca", options->ca_file,
                 "File with the authorities of the server's certificate, PEM, or system; turns TLS "
                 "on")
      ->envname("NEARFIELD_CA");
  app.add_option("--client-cert", options->client_cert_file,
                 "File with a certificate to show to the server, PEM")
      ->envname("NEARFIELD_CLIENT_CERT");
  app.add_option("--client-key", options->client_key_file, "File with its private key, PEM")
      ->envname("NEARFIELD_CLIENT_KEY");
  app.add_option("--token-file", options->token_file, "File with the API key to call with")
      ->envname("NEARFIELD_TOKEN_FILE");
  app.add_option_function<std::vector<std::string>>(
         "--metadata",
         [options](const std::vector<std::string>& entries) { AddMetadata(entries, options); },
         "Metadata to send with each call, as NAME=VALUE,NAME=VALUE")
      ->type_size(1)
      ->expected(1)
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->envname("NEARFIELD_METADATA");
}

void AddGlobalOptions(CLI::App& app, GlobalOptions* global) {
  app.add_option("-a,--address", global->address, "The server, as host:port")
      ->envname("NEARFIELD_ADDRESS")
      ->capture_default_str();
  app.add_option("--timeout", global->timeout_s,
                 "Seconds that a call may take with all its tries [30]; uploads, snapshots and "
                 "compactions have no limit unless given here")
      ->check(Seconds());
  app.add_option("--caller", global->caller,
                 "Who calls, for the server to share its device fairly [the address that calls "
                 "come from]")
      ->envname("NEARFIELD_CALLER");
  AddIdentityOptions(app, &global->identity);
  app.add_flag("--json", global->json, "Print JSON, one object a line, instead of text");
  app.set_version_flag("--version", std::string("nearfield ") + NEARFIELD_VERSION);
}

// Reports what is wrong with the command line, and what is right.
void ReportUsage(const CLI::App& app, const CLI::ParseError& error) {
  constexpr std::string_view kTwice = ": At Most 1 required but received ";
  const std::string problem = error.what();
  const std::optional<std::string> unknown = UnknownArgument(app);
  if (unknown) {
    const CommandNode node = NodeOnCommandLine(app);
    const bool asks = node.path == "search" && unknown->find(": an argument") != std::string::npos;
    PrintError(asks ? Cat(*unknown, "; to ask in words: nearfield text --collection ",
                          node.app->get_option("collection")->as<std::string>())
                    : *unknown);
  } else if (const size_t at = problem.find(kTwice); at != std::string::npos) {
    PrintError(Cat(problem.substr(0, at), ": given ", problem.substr(at + kTwice.size()),
                   " times, must be given once"));
  } else {
    app.exit(error);
  }
}

int Run(int argc, char** argv) {
  CLI::App app(kDescription, "nearfield");
  app.footer(kFooter);
  app.fallthrough();  // global options may follow the command
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  GlobalOptions global;
  Action action;
  AddGlobalOptions(app, &global);
  AddCollectionsCommand(app, global, &action);
  AddUploadCommand(app, global, &action);
  AddExportCommand(app, global, &action);
  AddUploadsCommand(app, global, &action);
  AddSearchCommand(app, global, &action);
  AddRowCommands(app, global, &action);
  AddFacetsCommand(app, global, &action);
  AddUpdateCommand(app, global, &action);
  AddVerifyCommand(app, global, &action);
  AddAdminCommands(app, global, &action);
  AddSnapshotCommand(app, global, &action);
  AddServerCommands(app, global, &action);
  AddKeysCommand(app, global, &action);
  AddCountersCommand(app, global, &action);
  AddPythonCommands(app, global, &action);
  AddDemoCommand(app, global, &action);
  AddCompletionCommand(app, &action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    ReportUsage(app, error);
    return kExitUsage;
  }
  const absl::StatusOr<int> done = action();
  const int exit_code = done.ok() ? *done : ReportError(global, done.status());
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    PrintError("cannot write to standard output");
    return exit_code == kExitOk ? kExitUsage : exit_code;
  }
  return exit_code;
}

}  // namespace
}  // namespace nearfield::client

int main(int argc, char** argv) {
  // gRPC's own lines repeat what the command reports. GRPC_VERBOSITY=ERROR shows them.
  setenv("GRPC_VERBOSITY", "NONE", /*replace=*/0);  // NOLINT(concurrency-mt-unsafe): one thread
  try {
    return nearfield::client::Run(argc, argv);
  } catch (const std::exception& error) {  // out of memory, or a bug in a command's declaration
    std::fprintf(stderr, "nearfield: %s\n", error.what());
    return nearfield::client::kExitUsage;
  }
}
