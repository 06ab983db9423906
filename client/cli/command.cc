#include "client/cli/command.h"

#include <cstdio>

#include "client/cli/text_output.h"
#include "client/formats/id_file.h"
#include "client/formats/text.h"

namespace nearfield::client {

absl::StatusOr<Client> ConnectTo(const GlobalOptions& global) {
  ClientOptions options;
  options.address = global.address;
  options.caller = global.caller;
  options.deadline = global.timeout().value_or(options.deadline);
  return Client::Connect(options);
}

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void PrintError(std::string_view text) {
  std::fflush(stdout);  // keeps earlier results before the error message
  const std::string line = Cat("nearfield: ", Printable(text), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

int BadInput(const absl::Status& status) {
  PrintError(Cat(status.message()));
  return kExitUsage;
}

int CallFailed(const GlobalOptions& global, const absl::Status& status) {
  const std::string reason = Cat(absl::StatusCodeToString(status.code()), ": ", status.message());
  if (IsUnreachable(status)) {
    PrintError(Cat("cannot reach ", global.address,
                   ": is nearfield-server running? Start it with: nearfield-server --listen ",
                   global.address, "; or name another server with --address or NEARFIELD_ADDRESS (",
                   reason, ")"));
    return kExitUnreachable;
  }
  const std::string id = RequestIdOf(status);
  // The client library itself refused the call: nothing was sent.
  if (id.empty() && absl::IsInvalidArgument(status)) return BadInput(status);
  PrintError(id.empty() ? reason : Cat(reason, " (request ", id, ")"));
  switch (status.code()) {
    case absl::StatusCode::kNotFound: return kExitNegative;
    case absl::StatusCode::kDeadlineExceeded:
      PrintError("no answer within the time limit: give more with --timeout SECONDS");
      return kExitRefused;
    default: return kExitRefused;
  }
}

std::optional<IdColumn> ResolveIds(Client& client, const GlobalOptions& global,
                                   std::string_view collection, const IdArguments& arguments,
                                   int* exit_code) {
  const auto info = client.GetCollection(collection);
  if (!info.ok()) {
    *exit_code = CallFailed(global, info.status());
    return std::nullopt;
  }
  const IdType type = info->spec.id_type;
  IdColumn ids = EmptyIds(type);
  absl::Status status;
  if (!arguments.path.empty()) {
    absl::StatusOr<IdColumn> read = ReadIds(arguments.path, type);
    status = read.status();
    if (status.ok()) ids = *std::move(read);
  }
  for (size_t i = 0; status.ok() && i < arguments.ids.size(); ++i) {
    const absl::StatusOr<Id> id = ParseId(arguments.ids[i], type);
    if (id.ok()) Append(*id, &ids);
    status = id.status();
  }
  if (status.ok() && Count(ids) == 0) status = absl::InvalidArgumentError("no id was given");
  if (status.ok()) return ids;
  *exit_code = BadInput(status);
  return std::nullopt;
}

}  // namespace nearfield::client
