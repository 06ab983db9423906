// Parts shared by all commands: the global options, the connection, and the output of results and
// errors.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/client.h"

namespace CLI {
class App;
}

namespace nearfield::client {

class JsonObject;

// Exit codes, as documented by --help.
enum ExitCode : int {
  kExitOk = 0,
  kExitNegative = 1,     // unhealthy, a mismatch, or the requested object does not exist
  kExitUsage = 2,        // wrong usage or a bad input file
  kExitRefused = 3,      // the server refused
  kExitUnreachable = 4,  // no server was reached
};

struct GlobalOptions {
  std::string address = ClientOptions().address;
  ClientOptions identity;           // its certificates, key and metadata; the rest is not used
  std::optional<double> timeout_s;  // absent: the library's default
  bool json = false;
  bool quiet = false;  // an upload that is a part of another command prints no result
  std::string caller;  // empty: the server uses the address

  std::optional<std::chrono::milliseconds> timeout() const {
    if (!timeout_s) return std::nullopt;
    return std::chrono::milliseconds(static_cast<int64_t>(*timeout_s * 1000));
  }
};

// The work of the chosen command: returns the exit code, or the error that main() reports. The
// command's parser stores it; main() runs it after the whole command line is parsed.
using Action = std::function<absl::StatusOr<int>()>;

// Makes `work` the action if the command line names `command`.
void OnChosen(CLI::App* command, Action* action, Action work);

// Each function adds its commands to the app.
void AddCollectionsCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddUploadCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddExportCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddUploadsCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddSearchCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddFacetsCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddRowCommands(CLI::App& app, const GlobalOptions& global,
                    Action* action);  // fetch, delete, count
void AddUpdateCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddVerifyCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddAdminCommands(CLI::App& app, const GlobalOptions& global,
                      Action* action);  // attribute, alias, compact
void AddSnapshotCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddPythonCommands(CLI::App& app, const GlobalOptions& global,
                       Action* action);  // text, import
void AddDemoCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddCountersCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddServerCommands(CLI::App& app, const GlobalOptions& global,
                       Action* action);  // health, limits, capacity
void AddKeysCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddCompletionCommand(CLI::App& app, Action* action);

// Returns a client of the server at the global address. Errors: InvalidArgument (a bad address).
absl::StatusOr<Client> ConnectTo(const GlobalOptions& global);

// Returns the options of a call whose work grows with the rows: without --timeout, it may take a
// day.
CallOptions LongWork(const GlobalOptions& global);

// Returns the path of the running program.
std::string ThisProgram();

void Print(std::string_view text);       // to standard output
void Print(const JsonObject& json);      // to standard output, as one line
void PrintError(std::string_view text);  // to standard error, as "nearfield: TEXT"

// Asks on a terminal whether to delete `what`, which this program cannot restore; elsewhere --yes
// is required. Returns true if the answer is `name`.
bool Confirmed(std::string_view what, const std::string& name);

// Returns the result with any error as InvalidArgument, which ReportError treats as bad input: a
// file that does not exist is not an object that the server lacks.
absl::Status AsBadInput(const absl::Status& status);
template <typename T>
absl::StatusOr<T> AsBadInput(absl::StatusOr<T> result) {
  if (result.ok()) return result;
  return AsBadInput(result.status());
}
// Reports an error and what to do about it; returns kExitUsage (InvalidArgument that no server
// sent), kExitNegative (NOT_FOUND), kExitRefused or kExitUnreachable.
int ReportError(const GlobalOptions& global, const absl::Status& status);

// Ids from the command line or a file, of the collection's type (requested from the server).
struct IdArguments {
  std::vector<std::string> ids;
  std::string path;

  bool given() const { return !ids.empty() || !path.empty(); }
};
// Adds the collection and its ids as arguments, and --ids.
void AddIdOptions(CLI::App& app, std::string* collection, IdArguments* arguments);
absl::StatusOr<IdColumn> ResolveIds(Client& client, std::string_view collection,
                                    const IdArguments& arguments);

}  // namespace nearfield::client
