// nearfield attribute add | drop, nearfield alias set | drop, nearfield compact
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

struct AttributeArguments {
  std::string collection;
  std::string attribute;  // to add: NAME:TYPE
  bool yes = false;
};

void PrintDeclared(const GlobalOptions& global, std::string_view done,
                   const AttributeArguments& arguments, const AttributeAnswer& answer) {
  if (global.json) {
    Print(JsonObject()
              .Add("collection", arguments.collection)
              .Add("attribute", arguments.attribute)
              .Add("epoch", answer.epoch)
              .Add("incarnation", answer.incarnation));
  } else {
    Print(Cat(done, Printable(arguments.collection), ": ", Printable(arguments.attribute),
              "; epoch ", answer.epoch, "\n"));
  }
}

absl::StatusOr<int> AddAttribute(const GlobalOptions& global, const AttributeArguments& arguments) {
  NF_ASSIGN_OR_RETURN(const AttributeSpec spec, ParseAttributeSpec(arguments.attribute));
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto added, client.AddAttribute(arguments.collection, spec));
  PrintDeclared(global, "added to ", arguments, added);
  return kExitOk;
}

absl::StatusOr<int> DropAttribute(const GlobalOptions& global,
                                  const AttributeArguments& arguments) {
  const std::string& name = arguments.attribute;
  const std::string what = Cat("every value of ", name, " in ", arguments.collection);
  if (!arguments.yes && !Confirmed(what, name)) return kExitUsage;
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto dropped, client.DropAttribute(arguments.collection, name));
  PrintDeclared(global, "dropped from ", arguments, dropped);
  return kExitOk;
}

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

void AddAttributeCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* group = app.add_subcommand("attribute", "Add and drop attributes of a collection");
  group->require_subcommand(1);
  group->footer(
      "Each is an epoch of its own. No row has a value of an attribute that was just added: "
      "nearfield update gives it\n"
      "one. nearfield collections show lists the attributes.\n"
      "Examples:\n"
      "  nearfield attribute add books year:int64\n"
      "  nearfield attribute add news until:timestamp:expires\n"
      "  nearfield attribute drop books year --yes");
  auto arguments = std::make_shared<AttributeArguments>();
  CLI::App* add = group->add_subcommand("add", "Declare one more attribute");
  add->add_option("collection", arguments->collection, "The collection")->required();
  add->add_option("attribute", arguments->attribute,
                  "The attribute, as NAME:TYPE: int64, double, bool, keyword, timestamp, or a list "
                  "of them: keyword[]; NAME:timestamp:expires deletes a row after that time")
      ->required();
  OnChosen(add, action, [&global, arguments] { return AddAttribute(global, *arguments); });
  CLI::App* drop = group->add_subcommand("drop", "Drop an attribute and all its values");
  drop->add_option("collection", arguments->collection, "The collection")->required();
  drop->add_option("attribute", arguments->attribute, "Its name")->required();
  drop->add_flag("--yes", arguments->yes, "Do not ask");
  OnChosen(drop, action, [&global, arguments] { return DropAttribute(global, *arguments); });
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
  AddAttributeCommand(app, global, action);
  AddAliasCommand(app, global, action);
  AddCompactCommand(app, global, action);
}

}  // namespace nearfield::client
