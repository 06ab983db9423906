// nearfield alias set | drop, nearfield snapshot create | list, nearfield compact
#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <span>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/text_output.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

// Deadline of calls whose work grows with the rows, without --timeout: one day.
constexpr std::chrono::hours kLongWork{24};

CallOptions LongWork(const GlobalOptions& global) {
  return {.deadline = global.timeout().value_or(kLongWork)};
}

int SetAlias(const GlobalOptions& global, const std::string& alias, const std::string& collection) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto set = client->SetAlias(alias, collection);
  if (!set.ok()) return CallFailed(global, set.status());
  const std::string& now = set->collection.spec.name;
  if (global.json) {
    Print(Cat(JsonObject()
                  .Add("alias", std::string_view(alias))
                  .Add("collection", std::string_view(now))
                  .Add("collection_before", std::string_view(set->collection_before))
                  .ToString(),
              "\n"));
    return kExitOk;
  }
  const std::string before = set->collection_before.empty() || set->collection_before == now
                                 ? ""
                                 : Cat(", no longer ", Printable(set->collection_before));
  Print(Cat(Printable(alias), " is ", Printable(now), before, "\n"));
  return kExitOk;
}

int DropAlias(const GlobalOptions& global, const std::string& alias) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto collection = client->DropAlias(alias);
  if (!collection.ok()) return CallFailed(global, collection.status());
  if (global.json) {
    Print(Cat(JsonObject()
                  .Add("alias", std::string_view(alias))
                  .Add("collection", std::string_view(*collection))
                  .ToString(),
              "\n"));
  } else {
    Print(Cat("dropped the alias ", Printable(alias), " of ", Printable(*collection), "\n"));
  }
  return kExitOk;
}

void PrintSnapshots(const GlobalOptions& global, std::span<const SnapshotInfo> snapshots) {
  if (global.json) {
    for (const SnapshotInfo& info : snapshots) Print(Cat(ToJson(info).ToString(), "\n"));
    return;
  }
  Table table(
      {{"name"}, {"created (UTC)"}, {"files", Align::kRight}, {"bytes", Align::kRight}, {"error"}});
  for (const SnapshotInfo& info : snapshots) {
    table.Add({info.name, TimeText(info.created_unix_s), Grouped(info.files_count),
               HumanBytes(static_cast<double>(info.bytes)), info.error});
  }
  Print(table.ToString());
}

int CreateSnapshot(const GlobalOptions& global, const std::string& name) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto info = client->CreateSnapshot(name, LongWork(global));
  if (!info.ok()) return CallFailed(global, info.status());
  PrintSnapshots(global, std::span(&*info, 1));
  return kExitOk;
}

int ListSnapshots(const GlobalOptions& global) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto snapshots = client->ListSnapshots();
  if (!snapshots.ok()) return CallFailed(global, snapshots.status());
  PrintSnapshots(global, *snapshots);
  return kExitOk;
}

int Compact(const GlobalOptions& global, const std::string& collection) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto given = client->Compact(collection, LongWork(global));
  if (!given.ok()) return CallFailed(global, given.status());
  if (global.json) {
    Print(Cat(ToJson(*given).ToString(), "\n"));
    return kExitOk;
  }
  const auto bytes = [](uint64_t count) { return HumanBytes(static_cast<double>(count)); };
  Print(Cat("memory  ", Grouped(given->rows_given_back), " deleted rows, ",
            bytes(given->device_bytes_given_back), " of the device and ",
            bytes(given->host_bytes_given_back), " of the host given back\n",  //
            "disk    ", Grouped(given->stored_rows_given_back), " deleted rows, ",
            bytes(given->stored_bytes_given_back), " given back\n"));
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
  set->callback([&global, action, alias, collection] {
    *action = [&global, alias, collection] { return SetAlias(global, *alias, *collection); };
  });
  CLI::App* drop = group->add_subcommand("drop", "Drop an alias; its collection stays");
  drop->add_option("alias", *alias, "The alias")->required();
  drop->callback([&global, action, alias] {
    *action = [&global, alias] { return DropAlias(global, *alias); };
  });
}

void AddSnapshotCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* group = app.add_subcommand("snapshot", "Copy all collections as they are, online");
  group->require_subcommand(1);
  group->footer(
      "A snapshot lies on the server's machine, where its operator keeps them (setting "
      "snapshot_dir), and is restored there:\n"
      "  nearfield-server --restore-from SNAPSHOT --data-dir NEW\n"
      "Example:\n"
      "  nearfield snapshot create monday");
  auto name = std::make_shared<std::string>();
  CLI::App* create = group->add_subcommand("create", "Make a snapshot; no time limit of its own");
  create->add_option("name", *name, "Its name: letters, digits, '_', '.' and '-'")->required();
  create->callback([&global, action, name] {
    *action = [&global, name] { return CreateSnapshot(global, *name); };
  });
  CLI::App* list = group->add_subcommand("list", "All snapshots, ordered by name");
  list->callback([&global, action] { *action = [&global] { return ListSnapshots(global); }; });
}

void AddCompactCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto collection = std::make_shared<std::string>();
  CLI::App* compact = app.add_subcommand(
      "compact",
      "Give back the memory and disk space of deleted rows now; no time limit of its own");
  compact->add_option("collection", *collection, "The collection")->required();
  compact->footer(
      "The server does so by itself once a fifth of a part is deleted. No answer changes.\n"
      "Example:\n"
      "  nearfield compact docs");
  compact->callback([&global, action, collection] {
    *action = [&global, collection] { return Compact(global, *collection); };
  });
}

}  // namespace

void AddAdminCommands(CLI::App& app, const GlobalOptions& global, Action* action) {
  AddAliasCommand(app, global, action);
  AddSnapshotCommand(app, global, action);
  AddCompactCommand(app, global, action);
}

}  // namespace nearfield::client
