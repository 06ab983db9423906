// nearfield collections list | create | drop | show
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

std::string AttributesText(std::span<const AttributeSpec> attributes) {
  return Joined(attributes, ", ", [](const AttributeSpec& spec) { return ToString(spec); });
}

// Returns the requested choice, and the server's decision if the request left it open.
std::string ScanText(const CollectionInfo& info) {
  const std::string asked(Name(info.spec.scan));
  const bool chosen =
      info.spec.scan == ScanChoice::kAuto && info.scan_precision != ScanPrecision::kUnknown;
  return chosen ? Cat(asked, ": ", Name(info.scan_precision)) : asked;
}

void PrintCollections(const GlobalOptions& global, std::span<const CollectionInfo> collections) {
  if (global.json) {
    for (const CollectionInfo& info : collections) Print(ToJson(info));
    return;
  }
  Table table({"name", Table::Right("rows"), Table::Right("dim"), "metric", "dtype", "ids", "scan",
               "rows in", "durable", Table::Right("epoch"), Table::Right("generations"),
               Table::Right("device"), Table::Right("host"), "attributes", "model", "aliases"});
  for (const CollectionInfo& info : collections) {
    table.Add(
        {info.spec.name, Grouped(info.rows_count), std::to_string(info.spec.dim),
         std::string(Name(info.spec.metric)), std::string(Name(info.spec.dtype)),
         std::string(Name(info.spec.id_type)), ScanText(info), std::string(Name(info.spec.rows)),
         info.durable ? "yes" : "no", std::to_string(info.epoch),
         std::to_string(info.generations_count), HumanBytes(static_cast<double>(info.device_bytes)),
         HumanBytes(static_cast<double>(info.host_bytes)), AttributesText(info.spec.attributes),
         info.spec.embedding_model, Joined(info.aliases, ", ", std::identity())});
  }
  Print(table.ToString());
  for (const CollectionInfo& info : collections) {
    const std::string name = Printable(info.spec.name);
    if (!info.error.empty()) Print(Cat(name, " is not served: ", Printable(info.error), "\n"));
    if (info.read_failures_count > 0) {
      Print(Cat(name, " may not load again: its stored rows could not be read (",
                Grouped(info.read_failures_count), " times)\n"));
    }
  }
}

absl::StatusOr<int> List(const GlobalOptions& global) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto collections, client.ListCollections());
  PrintCollections(global, collections);
  return kExitOk;
}

absl::StatusOr<int> Show(const GlobalOptions& global, const std::string& name) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto info, client.GetCollection(name));
  PrintCollections(global, std::span(&info, 1));
  return kExitOk;
}

absl::StatusOr<int> Create(const GlobalOptions& global, const CollectionSpec& spec) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto info, client.CreateCollection(spec));
  PrintCollections(global, std::span(&info, 1));
  return kExitOk;
}

struct PinArguments {
  std::string collection;
  PinOptions options;
};

absl::StatusOr<int> Pin(const GlobalOptions& global, const PinArguments& arguments) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto pinned, client.PinEpoch(arguments.collection, arguments.options));
  if (global.json) {
    Print(JsonObject()
              .Add("name", arguments.collection)
              .Add("epoch", pinned.epoch)
              .Add("incarnation", pinned.incarnation)
              .Add("rows_count", pinned.rows_count)
              .Add("kept_ms", static_cast<uint64_t>(pinned.kept.count())));
  } else {
    Print(Cat("epoch ", pinned.epoch, " of ", Printable(arguments.collection), ", ",
              Grouped(pinned.rows_count), " rows, is kept for ", pinned.kept.count() / 1000,
              " s after the last read with --at-epoch ", pinned.epoch, "\n"));
  }
  return kExitOk;
}

absl::StatusOr<int> Drop(const GlobalOptions& global, const std::string& name, bool yes) {
  if (!yes && !Confirmed(Cat("every row of ", name), name)) return kExitUsage;
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  // If the rows could not be loaded, their number is unknown.
  const auto info = client.GetCollection(name);
  const bool counted = !info.ok() || info->error.empty();
  NF_ASSIGN_OR_RETURN(const auto rows_count, client.DropCollection(name));
  if (global.json) {
    JsonObject json;
    json.Add("name", name).AddJson("rows_count", counted ? std::to_string(rows_count) : "null");
    Print(json);
  } else if (counted) {
    Print(Cat("dropped ", Printable(name), " and its ", Grouped(rows_count), " rows\n"));
  } else {
    Print(Cat("dropped ", Printable(name), "; its rows could not be loaded, nor counted\n"));
  }
  return kExitOk;
}

}  // namespace

void AddCollectionsCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* group = app.add_subcommand("collections", "Make, show and drop collections");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n"
      "  nearfield collections create docs --dim 384 --metric cosine --dtype float16 --id-type "
      "string\n"
      "  nearfield collections create huge --dim 1024 --metric dot --scan int8\n"
      "  nearfield collections list --json\n"
      "  nearfield collections drop docs --yes");

  CLI::App* list = group->add_subcommand("list", "All collections, ordered by name");
  OnChosen(list, action, [&global] { return List(global); });

  auto shown = std::make_shared<std::string>();
  CLI::App* show = group->add_subcommand("show", "One collection");
  show->add_option("collection", *shown, "Its name")->required();
  OnChosen(show, action, [&global, shown] { return Show(global, *shown); });

  auto spec = std::make_shared<CollectionSpec>();
  CLI::App* create = group->add_subcommand("create", "Make an empty collection");
  create->add_option("collection", spec->name, "Its name: letters, digits, '_', '.' and '-'")
      ->required();
  AddCountOption(*create, "--dim", &spec->dim, "Dimension of its rows")->required();
  AddMetricOption(*create, &spec->metric)->required();
  AddDataTypeOption(*create, &spec->dtype, "Element type of its rows [float32]");
  AddIdTypeOption(*create, &spec->id_type, "Type of its ids [uint64]");
  AddScanOption(
      *create, &spec->scan,
      "Data that a scan reads: int8 codes stored next to the rows, the rows themselves, or the "
      "fastest of these on the server's device [auto]");
  AddRowPlacementOption(
      *create, &spec->rows,
      "Where the rows lie [device]; on the host only where the server runs on the CPU");
  AddCountOption(*create, "--devices", &spec->devices,
                 "How many devices of the server share the rows [the server chooses]");
  AddAttributeOption(*create, &spec->attributes);
  AddEmbeddingModelOption(*create, &spec->embedding_model);
  create->footer(
      "--scan and --rows are a choice of speed and memory alone: ids and score bits are the same "
      "for each. Codes take\n"
      "about dim + 16 bytes a row; nearfield search --explain shows what a search read.\n"
      "\n"
      "Examples:\n"
      "  nearfield collections create docs --dim 384 --metric cosine --dtype float16 --id-type "
      "string\n"
      "  nearfield collections create huge --dim 1024 --metric dot --scan int8\n"
      "  nearfield collections create books --dim 384 --metric dot --attribute year:int64 "
      "--attribute tags:keyword[]\n"
      "  nearfield collections create news --dim 384 --metric dot --attribute "
      "until:timestamp:expires");
  OnChosen(create, action, [&global, spec] { return Create(global, *spec); });

  auto pin = std::make_shared<PinArguments>();
  CLI::App* pinned = group->add_subcommand("pin", "Keep an epoch, for reads with --at-epoch");
  pinned->add_option("collection", pin->collection, "Its name")->required();
  AddEpochOptions(*pinned, &pin->options.min_epoch, &pin->options.at_epoch);
  OnChosen(pinned, action, [&global, pin] { return Pin(global, *pin); });

  auto dropped = std::make_shared<std::string>();
  auto yes = std::make_shared<bool>(false);
  CLI::App* drop = group->add_subcommand("drop", "Delete a collection and all its rows");
  drop->add_option("collection", *dropped, "Its name")->required();
  drop->add_flag("--yes", *yes, "Do not ask");
  OnChosen(drop, action, [&global, dropped, yes] { return Drop(global, *dropped, *yes); });
}

}  // namespace nearfield::client
