#include "client/cli/command.h"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "client/cli/json_output.h"
#include "client/cli/text_output.h"
#include "client/formats/id_file.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

constexpr std::chrono::hours kLongWork{24};

// Returns what to do about a server that was not reached. gRPC reports a failed TLS handshake only
// in the text of the status.
std::string AdviceFor(const GlobalOptions& global, std::string_view reason) {
  const std::string& address = global.address;
  const std::string& ca = global.identity.ca_file;
  const auto says = [&](std::string_view words) {
    return reason.find(words) != std::string_view::npos;
  };
  if (!ca.empty() && says("is not in peer certificate")) {
    return Cat("the certificate of the server is for other names than ", address,
               ": use one of its names, or a certificate whose subjectAltName has this one");
  }
  if (!ca.empty() && says("certificate verify failed")) {
    return Cat("the certificate of ", address, " is not valid, or not of an authority in ", ca,
               ": name the right file with --ca or NEARFIELD_CA");
  }
  if (!ca.empty() && says("wrong version number")) {
    return Cat(address, " does not use TLS: leave --ca and NEARFIELD_CA out, or start the server ",
               "with --tls-cert and --tls-key");
  }
  if (ca.empty() && says("failed to connect") &&
      (says("Socket closed") || says("Connection reset"))) {
    return Cat(address, " closes connections without TLS: if it uses TLS, name the authority of ",
               "its certificate with --ca or NEARFIELD_CA");
  }
  return Cat("is nearfield-server running? Start it with: nearfield-server --listen ", address,
             "; or name another server with --address or NEARFIELD_ADDRESS");
}

}  // namespace

void OnChosen(CLI::App* command, Action* action, Action work) {
  command->callback([action, work = std::move(work)] { *action = work; });
}

absl::StatusOr<Client> ConnectTo(const GlobalOptions& global) {
  ClientOptions options = global.identity;
  options.address = global.address;
  options.caller = global.caller;
  options.deadline = global.timeout().value_or(options.deadline);
  return Client::Connect(options);
}

CallOptions LongWork(const GlobalOptions& global) {
  return {.deadline = global.timeout().value_or(kLongWork)};
}

std::string ThisProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void Print(const JsonObject& json) { Print(Cat(json.ToString(), "\n")); }

void PrintError(std::string_view text) {
  std::fflush(stdout);  // keeps earlier results before the error message
  const std::string line = Cat("nearfield: ", Printable(text), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

absl::Status AsBadInput(const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

int ReportError(const GlobalOptions& global, const absl::Status& status) {
  const std::string reason = Cat(absl::StatusCodeToString(status.code()), ": ", status.message());
  if (IsUnreachable(status)) {
    PrintError(
        Cat("cannot reach ", global.address, ": ", AdviceFor(global, reason), " (", reason, ")"));
    return kExitUnreachable;
  }
  if (absl::IsUnauthenticated(status) && global.identity.token_file.empty()) {
    PrintError(
        "this server wants an API key: name its file with --token-file or "
        "NEARFIELD_TOKEN_FILE");
  }
  const std::string id = RequestIdOf(status);
  // A bad input, or a call that the client library itself refused: nothing was sent.
  if (id.empty() && absl::IsInvalidArgument(status)) {
    PrintError(Cat(status.message()));
    return kExitUsage;
  }
  PrintError(id.empty() ? reason : Cat(reason, " (request ", id, ")"));
  switch (status.code()) {
    case absl::StatusCode::kNotFound: return kExitNegative;
    case absl::StatusCode::kDeadlineExceeded:
      PrintError("no answer within the time limit: give more with --timeout SECONDS");
      return kExitRefused;
    default: return kExitRefused;
  }
}

absl::StatusOr<IdColumn> ResolveIds(Client& client, std::string_view collection,
                                    const IdArguments& arguments) {
  NF_ASSIGN_OR_RETURN(const CollectionInfo info, client.GetCollection(collection));
  const IdType type = info.spec.id_type;
  IdColumn ids = EmptyIds(type);
  if (!arguments.path.empty()) {
    NF_ASSIGN_OR_RETURN(ids, AsBadInput(ReadIds(arguments.path, type)));
  }
  for (const std::string& text : arguments.ids) {
    NF_ASSIGN_OR_RETURN(const Id id, ParseId(text, type));
    Append(id, &ids);
  }
  if (Count(ids) == 0) return absl::InvalidArgumentError("no id was given");
  return ids;
}

}  // namespace nearfield::client
