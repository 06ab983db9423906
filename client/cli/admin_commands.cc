// nearfield alias set | drop, nearfield compact
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/text_output.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

absl::StatusOr<int> SetAlias(const GlobalOptions& global, const std::string& alias,
                             const std::string& collection) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto set, client.SetAlias(alias, collection));
  const std::string& now = set.collection.spec.name;
  if (global.json) {
    Print(JsonObject()
              .Add("alias", alias)
              .Add("collection", now)
              .Add("collection_before", set.collection_before));
    return kExitOk;
  }
  const std::string before = set.collection_before.empty() || set.collection_before == now
                                 ? ""
                                 : Cat(", no longer ", Printable(set.collection_before));
  Print(Cat(Printable(alias), " is ", Printable(now), before, "\n"));
  return kExitOk;
}

absl::StatusOr<int> DropAlias(const GlobalOptions& global, const std::string& alias) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto collection, client.DropAlias(alias));
  if (global.json) {
    Print(JsonObject().Add("alias", alias).Add("collection", collection));
  } else {
    Print(Cat("dropped the alias ", Printable(alias), " of ", Printable(collection), "\n"));
  }
  return kExitOk;
}

absl::StatusOr<int> Compact(const GlobalOptions& global, const std::string& collection) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto given, client.Compact(collection, LongWork(global)));
  if (global.json) {
    Print(ToJson(given));
    return kExitOk;
  }
  const auto bytes = [](uint64_t count) { return HumanBytes(static_cast<double>(count)); };
  Print(Cat("memory  ", Grouped(given.rows_given_back), " deleted rows, ",
            bytes(given.device_bytes_given_back), " of the device and ",
            bytes(given.host_bytes_given_back), " of the host given back\n",  //
            "disk    ", Grouped(given.stored_rows_given_back), " deleted rows, ",
            bytes(given.stored_bytes_given_back), " given back\n"));
  return kExitOk;
}

void AddAliasCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* group = app.add_subcommand("alias", "Give collections other names, and move them");
  group->require_subcommand(1);
  group->footer(
      "Every command takes an alias in place of a collection's name, except collections drop. A "
      "move is atomic: who\n"
      "searches meanwhile finds the one collection or the other. nearfield collections list shows "
      "them.\n"
      "Example, a rebuilt collection goes live:\n"
      "  nearfield upload docs-2 docs.npy --create --metric cosine\n"
      "  nearfield alias set docs docs-2");
  auto alias = std::make_shared<std::string>();
  auto collection = std::make_shared<std::string>();
  CLI::App* set = group->add_subcommand("set", "Make an alias name a collection, or move it there");
  set->add_option("alias", *alias, "The alias: letters, digits, '_', '.' and '-'")->required();
  set->add_option("collection", *collection, "The collection")->required();
  OnChosen(set, action,
           [&global, alias, collection] { return SetAlias(global, *alias, *collection); });
  CLI::App* drop = group->add_subcommand("drop", "Drop an alias; its collection stays");
  drop->add_option("alias", *alias, "The alias")->required();
  OnChosen(drop, action, [&global, alias] { return DropAlias(global, *alias); });
}

void AddCompactCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto collection = std::make_shared<std::string>();
  CLI::App* compact = app.add_subcommand(
      "compact",
      "Give back the memory and disk space of deleted rows now; no time limit of its own");
  compact->add_option("collection", *collection, "The collection")->required();
  compact->footer(
      "The server does so automatically once a fifth of a part is deleted. No answer changes.\n"
      "Example:\n"
      "  nearfield compact docs");
  OnChosen(compact, action, [&global, collection] { return Compact(global, *collection); });
}

}  // namespace

void AddAdminCommands(CLI::App& app, const GlobalOptions& global, Action* action) {
  AddAliasCommand(app, global, action);
  AddCompactCommand(app, global, action);
}

}  // namespace nearfield::client
