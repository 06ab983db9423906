// nearfield snapshot create | delete | list
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/text_output.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

constexpr uint32_t kKeepMax = 100000;  // as the server's snapshots_max

struct CreateArguments {
  std::string name;
  std::optional<uint32_t> keep;  // absent: nothing is deleted
  std::string keep_prefix;
};

void PrintSnapshots(const GlobalOptions& global, std::span<const SnapshotInfo> snapshots) {
  if (global.json) {
    for (const SnapshotInfo& info : snapshots) Print(ToJson(info));
    return;
  }
  Table table({{"name"},
               {"created (UTC)"},
               Table::Right("files"),
               Table::Right("bytes"),
               {"owner"},
               {"error"}});
  for (const SnapshotInfo& info : snapshots) {
    table.Add({info.name, TimeText(info.created_unix_s), Grouped(info.files_count),
               HumanBytes(static_cast<double>(info.bytes)), Printable(info.owner), info.error});
  }
  Print(table.ToString());
}

void PrintDeleted(const GlobalOptions& global, const SnapshotInfo& info) {
  if (global.json) {
    Print(ToJson(info).Add("deleted", true));
  } else {
    Print(Cat("deleted ", Printable(info.name), ", created ", TimeText(info.created_unix_s), "\n"));
  }
}

// Returns the snapshots to delete so that `keep` of those with the prefix remain, oldest first. The
// snapshot just created is the newest, even if the server's clock was set back. A damaged snapshot
// neither counts nor is returned, so it never takes the place of a good one.
std::vector<SnapshotInfo> Surplus(std::vector<SnapshotInfo> snapshots,
                                  const CreateArguments& arguments) {
  std::erase_if(snapshots, [&arguments](const SnapshotInfo& info) {
    return info.name == arguments.name || !info.error.empty() ||
           !info.name.starts_with(arguments.keep_prefix);
  });
  std::sort(snapshots.begin(), snapshots.end(), [](const SnapshotInfo& a, const SnapshotInfo& b) {
    return std::tie(a.created_unix_s, a.name) < std::tie(b.created_unix_s, b.name);
  });
  const size_t others_kept = *arguments.keep - 1;
  snapshots.resize(snapshots.size() - std::min(snapshots.size(), others_kept));
  return snapshots;
}

// Refuses to delete while stored rows cannot be read: an older snapshot may be their last good
// copy.
absl::Status CheckReadable(Client& client) {
  NF_ASSIGN_OR_RETURN(const auto collections, client.ListCollections());
  for (const CollectionInfo& info : collections) {
    if (info.error.empty() && info.read_failures_count == 0) continue;
    return absl::FailedPreconditionError(
        Cat("--keep deleted no snapshot: stored rows of the collection \"", info.spec.name,
            "\" cannot be read, and an older snapshot may hold them"));
  }
  return absl::OkStatus();
}

// Deletes nothing unless the new snapshot is complete and durable.
absl::StatusOr<int> CreateSnapshot(const GlobalOptions& global, const CreateArguments& arguments) {
  if (!arguments.name.starts_with(arguments.keep_prefix)) {
    return absl::InvalidArgumentError(Cat("name = ", arguments.name, ", must begin with ",
                                          arguments.keep_prefix, " (--keep-prefix)"));
  }
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto info, client.CreateSnapshot(arguments.name, LongWork(global)));
  PrintSnapshots(global, std::span(&info, 1));
  if (!arguments.keep) return kExitOk;
  NF_RETURN_IF_ERROR(CheckReadable(client));
  NF_ASSIGN_OR_RETURN(const auto snapshots, client.ListSnapshots());
  for (const SnapshotInfo& surplus : Surplus(snapshots, arguments)) {
    const auto deleted = client.DeleteSnapshot(surplus.name, LongWork(global));
    if (absl::IsNotFound(deleted.status())) continue;  // another caller was faster
    if (!deleted.ok()) return deleted.status();
    PrintDeleted(global, *deleted);
  }
  return kExitOk;
}

absl::StatusOr<int> DeleteSnapshot(const GlobalOptions& global, const std::string& name) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto info, client.DeleteSnapshot(name, LongWork(global)));
  PrintDeleted(global, info);
  return kExitOk;
}

absl::StatusOr<int> ListSnapshots(const GlobalOptions& global) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto snapshots, client.ListSnapshots());
  PrintSnapshots(global, snapshots);
  return kExitOk;
}

}  // namespace

void AddSnapshotCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* group = app.add_subcommand("snapshot", "Copy all collections as they are, online");
  group->require_subcommand(1);
  group->footer(
      "A snapshot lies on the server's machine, where its operator keeps them (setting "
      "snapshot_dir), and is restored there:\n"
      "  nearfield-server --restore-from SNAPSHOT --data-dir NEW\n"
      "Examples:\n"
      "  nearfield snapshot create monday\n"
      "  nearfield snapshot create nightly-2024-05-17 --keep 7 --keep-prefix nightly-\n"
      "  nearfield snapshot delete monday");

  auto created = std::make_shared<CreateArguments>();
  CLI::App* create = group->add_subcommand("create", "Make a snapshot; no time limit of its own");
  create->add_option("name", created->name, "Its name: letters, digits, '_', '.' and '-'")
      ->required();
  CLI::Option* keep =
      create
          ->add_option("--keep", created->keep,
                       "Keep the newest N snapshots, and delete the older ones once the new one is "
                       "on the disk")
          ->check(WholeNumber(1, kKeepMax).description("N"));
  create
      ->add_option("--keep-prefix", created->keep_prefix,
                   "With --keep: count and delete only snapshots whose names begin with this")
      ->needs(keep);
  create->footer(
      "--keep counts the new snapshot, prints each one that it deletes, and deletes nothing if the "
      "new one failed or\n"
      "if stored rows of a collection cannot be read. It leaves damaged snapshots (see snapshot "
      "list) alone.\n"
      "Example, each night:\n"
      "  nearfield snapshot create nightly-$(date +%F) --keep 7 --keep-prefix nightly-");
  OnChosen(create, action, [&global, created] { return CreateSnapshot(global, *created); });

  auto deleted = std::make_shared<std::string>();
  CLI::App* remove = group->add_subcommand("delete", "Delete a snapshot and its files");
  remove->add_option("name", *deleted, "Its name")->required();
  OnChosen(remove, action, [&global, deleted] { return DeleteSnapshot(global, *deleted); });

  CLI::App* list = group->add_subcommand("list", "All snapshots, ordered by name");
  OnChosen(list, action, [&global] { return ListSnapshots(global); });
}

}  // namespace nearfield::client
