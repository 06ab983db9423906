#include "client/cli/command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "client/cli/json_output.h"
#include "client/cli/text_output.h"
#include "client/command_line/suggest.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/id_file.h"

namespace nearfield::client {
namespace {

constexpr std::chrono::hours kLongWork{24};

// Returns the reason for a connection that was not made, from gRPC's message, or empty. gRPC has
// one status code for all of them, and for a connection that was lost.
std::string_view WhyUnreachable(std::string_view message, bool tls) {
  if (message.find("failed to connect to all addresses") != 0) return "";
  struct Reason {
    std::string_view part;
    bool tls;
    std::string_view text;
  };
  for (const Reason& reason : {
           Reason{"wrong version number", true,
                  "this port does not use TLS: leave out --ca and NEARFIELD_CA"},
           Reason{"is not in peer certificate", true,
                  "the certificate of the server is not for this name: use a name that it has"},
           Reason{"certificate verify failed", true,
                  "the certificate of the server is not accepted: the authorities in --ca did not "
                  "sign it, or it is not valid today"},
           Reason{"http1.x", false,
                  "this port speaks HTTP/1, as the operations port (9464) does: name the one of "
                  "the server's --listen (50051)"},
           Reason{"Socket closed", false,
                  "the server ended the connection at once: if it uses TLS, give --ca"},
           Reason{"Socket closed", true,
                  "the server ended the connection at once: it may require --client-cert and "
                  "--client-key"},
       }) {
    if (reason.tls == tls && message.find(reason.part) != std::string_view::npos) {
      return reason.text;
    }
  }
  return "";
}

// Returns an error of the library with the names that the command gives to its options.
absl::Status WithOptionNames(const absl::Status& status) {
  const std::string message(status.message());
  const size_t end = std::min(message.find(": "), message.size());  // a file's name may follow
  const std::string field =
      absl::StrReplaceAll(message.substr(0, end), {{"ca_file", "--ca"},
                                                   {"client_cert_file", "--client-cert"},
                                                   {"client_key_file", "--client-key"},
                                                   {"token_file", "--token-file"}});
  return {status.code(),
          Cat(field, absl::StrReplaceAll(message.substr(end),
                                         {{": without ca_file the key", ": without --ca the key"},
                                          {": needs ca_file, because", ": needs --ca, because"}}))};
}

// Returns "; did you mean "NAME"?" for an error about a collection that does not exist, if one with
// a similar name or alias does; else "".
std::string SimilarCollection(const GlobalOptions& global, const absl::Status& status) {
  constexpr std::string_view kBefore = "no collection \"";
  const std::string_view message(status.message().data(), status.message().size());
  const size_t found = message.find(kBefore);
  if (!absl::IsNotFound(status) || found == std::string_view::npos) return "";
  const std::string_view rest = message.substr(found + kBefore.size());
  const std::string_view given = rest.substr(0, rest.find('"'));
  absl::StatusOr<Client> client = ConnectTo(global);
  if (!client.ok()) return "";
  const auto collections = client->ListCollections();
  if (!collections.ok()) return "";  // perhaps not permitted
  std::vector<std::string> names;
  for (const CollectionInfo& info : *collections) {
    names.push_back(info.spec.name);
    names.insert(names.end(), info.aliases.begin(), info.aliases.end());
  }
  std::erase(names, given);  // an alias where only a name is right
  const std::optional<std::string> closest = Closest(given, names);
  return closest ? Cat("; did you mean \"", *closest, "\"?") : "";
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
  absl::StatusOr<Client> client = Client::Connect(options);
  if (!client.ok()) return WithOptionNames(client.status());
  return client;
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

bool Confirmed(std::string_view what, const std::string& name) {
  if (isatty(STDIN_FILENO) == 0) {
    PrintError(Cat("drop deletes ", what, ": say --yes"));
    return false;
  }
  std::cerr << "This deletes " << Printable(what) << ". Type " << Printable(name) << " to go on: ";
  std::string typed;
  std::getline(std::cin, typed);
  if (typed == name) return true;
  PrintError("not dropped");
  return false;
}

absl::Status AsBadInput(const absl::Status& status) {
  return status.ok() ? status : absl::InvalidArgumentError(status.message());
}

int ReportError(const GlobalOptions& global, const absl::Status& status) {
  const std::string reason = Cat(absl::StatusCodeToString(status.code()), ": ", status.message(),
                                 SimilarCollection(global, status));
  if (IsUnreachable(status)) {
    const std::string message(status.message());
    const std::string_view why = WhyUnreachable(message, !global.identity.ca_file.empty());
    const std::string start =
        Cat("is nearfield-server running? Start it with: nearfield-server --listen ",
            global.address, "; or name another server with --address or NEARFIELD_ADDRESS");
    PrintError(
        Cat("cannot reach ", global.address, ": ", why.empty() ? start : why, " (", reason, ")"));
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

void AddIdOptions(CLI::App& app, std::string* collection, IdArguments* arguments) {
  app.add_option("collection", *collection, "The collection")->required();
  app.add_option("ids", arguments->ids, "Ids of rows");
  app.add_option("--ids", arguments->path,
                 "More ids: one a line, a JSON value a line (.jsonl), or uint64 (.npy)");
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
  if (Count(ids) == 0) {
    return absl::InvalidArgumentError(
        "no id was given: write ids after the collection, or name a file of them with --ids");
  }
  return ids;
}

}  // namespace nearfield::client
