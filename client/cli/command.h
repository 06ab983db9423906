// What every command shares: the global options, the connection, and how results and errors reach
// the user.
#ifndef NEARFIELD_CLIENT_CLI_COMMAND_H_
#define NEARFIELD_CLIENT_CLI_COMMAND_H_

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

// The exit codes that --help documents.
enum ExitCode : int {
  kExitOk = 0,
  kExitNegative = 1,     // unhealthy, a mismatch, or what was asked for is not there
  kExitUsage = 2,        // wrong usage or a bad input file
  kExitRefused = 3,      // the server refused
  kExitUnreachable = 4,  // no server was reached
};

struct GlobalOptions {
  std::string address = ClientOptions().address;
  std::optional<double> timeout_s;  // absent: the library's default
  bool json = false;
  std::string caller;  // empty: the server goes by the address

  std::optional<std::chrono::milliseconds> timeout() const {
    if (!timeout_s) return std::nullopt;
    return std::chrono::milliseconds(static_cast<int64_t>(*timeout_s * 1000));
  }
};

// A command puts what it was asked to do here; main() runs it once the command line is fully
// parsed.
using Action = std::function<int()>;

// Each adds its commands to the app.
void AddCollectionsCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddUploadCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddUploadsCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddSearchCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddRowCommands(CLI::App& app, const GlobalOptions& global,
                    Action* action);  // fetch, delete, count
void AddVerifyCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddAdminCommands(CLI::App& app, const GlobalOptions& global,
                      Action* action);  // alias, snapshot, compact
void AddCountersCommand(CLI::App& app, const GlobalOptions& global, Action* action);
void AddServerCommands(CLI::App& app, const GlobalOptions& global,
                       Action* action);  // health, limits, capacity

// A client of the server at the global address, or the error of a bad address.
absl::StatusOr<Client> ConnectTo(const GlobalOptions& global);

void Print(std::string_view text);       // to standard output
void PrintError(std::string_view text);  // to standard error, as "nearfield: TEXT"

// Reports a bad input or wrong usage; returns kExitUsage.
int BadInput(const absl::Status& status);
// Reports a call that failed, with what to do; returns kExitNegative (NOT_FOUND), kExitRefused or
// kExitUnreachable.
int CallFailed(const GlobalOptions& global, const absl::Status& status);

// Ids given on the command line or in a file, of the collection's type (asked of the server).
struct IdArguments {
  std::vector<std::string> ids;
  std::string path;
};
// Returns nothing after having reported why; `exit_code` is then what to return.
std::optional<IdColumn> ResolveIds(Client& client, const GlobalOptions& global,
                                   std::string_view collection, const IdArguments& arguments,
                                   int* exit_code);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_COMMAND_H_
