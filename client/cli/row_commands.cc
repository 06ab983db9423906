// nearfield fetch | delete | count
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>

#include "client/cli/attribute_columns.h"
#include "client/cli/command.h"
#include "client/cli/filter_option.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/payload_columns.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

constexpr size_t kVectorWidthMax = 60;

struct RowOptions {
  std::string collection;
  IdArguments ids;
  bool with_vectors = false;
  bool without_payload = false;
  std::vector<std::string> fields;
  std::vector<std::string> attributes;  // fetch
  std::optional<uint64_t> min_epoch;
  std::optional<uint64_t> at_epoch;
  std::optional<Filter> filter;  // delete
};

struct CountArguments {
  std::string collection;
  CountOptions options;
};

void PrintRowsAsJson(const RowOptions& options, const FetchAnswer& answer) {
  const size_t count = Count(answer.ids);
  const std::vector<std::string> attributes = ToJson(answer.attributes, count);
  for (size_t i = 0; i < count; ++i) {
    JsonObject json;
    json.Add("id", At(answer.ids, i)).Add("epoch", answer.epoch);
    if (!options.without_payload) {
      json.AddPayload(answer.payloads.empty() ? "" : answer.payloads[i]);
    }
    if (options.with_vectors) json.AddJson("vector", VectorJson(answer.vectors, i, count));
    if (!answer.attributes.empty()) json.AddJson("attributes", attributes[i]);
    Print(json);
  }
}

void PrintRowsAsTable(const RowOptions& options, const FetchAnswer& answer) {
  const size_t count = Count(answer.ids);
  std::vector<Table::Column> columns = {"id"};
  if (!options.without_payload) {
    for (const std::string& name : PayloadColumnNames(options.fields)) columns.emplace_back(name);
  }
  const AttributeColumns attributes(answer.attributes, count);
  attributes.AddNames(&columns);
  if (options.with_vectors) columns.emplace_back("vector");
  Table table(columns);
  for (size_t i = 0; i < count; ++i) {
    std::vector<std::string> cells = {ToString(At(answer.ids, i))};
    if (!options.without_payload) {
      const std::string payload = answer.payloads.empty() ? "" : answer.payloads[i];
      for (std::string& cell : PayloadCells(payload, options.fields)) {
        cells.push_back(std::move(cell));
      }
    }
    attributes.AddCells(i, &cells);
    if (options.with_vectors) {
      cells.push_back(Shortened(VectorJson(answer.vectors, i, count), kVectorWidthMax));
    }
    table.Add(cells);
  }
  Print(table.ToString());
}

void PrintRows(const GlobalOptions& global, const RowOptions& options, const FetchAnswer& answer) {
  return global.json ? PrintRowsAsJson(options, answer) : PrintRowsAsTable(options, answer);
}

absl::StatusOr<int> Fetch(const GlobalOptions& global, const RowOptions& options) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const IdColumn ids, ResolveIds(client, options.collection, options.ids));
  NF_ASSIGN_OR_RETURN(const auto limits, client.GetLimits());
  const size_t step = std::max<size_t>(limits.fetch_ids_max, 1);
  int exit_code = kExitOk;
  for (size_t begin = 0; begin < Count(ids); begin += step) {
    NF_ASSIGN_OR_RETURN(
        const auto answer,
        client.Fetch(options.collection, Slice(ids, begin, std::min(begin + step, Count(ids))),
                     {.with_payload = !options.without_payload,
                      .with_vectors = options.with_vectors,
                      .attributes = options.attributes,
                      .min_epoch = options.min_epoch,
                      .at_epoch = options.at_epoch}));
    if (Count(answer.ids) > 0) PrintRows(global, options, answer);
    for (size_t i = 0; i < Count(answer.missing); ++i) {
      PrintError(Cat("no row with id ", ToString(At(answer.missing, i))));
      exit_code = kExitNegative;
    }
  }
  return exit_code;
}

void PrintDeleted(const GlobalOptions& global, const DeleteAnswer& answer, std::string_view of) {
  if (global.json) {
    Print(JsonObject().Add("rows_deleted", answer.rows_deleted).Add("epoch", answer.epoch));
  } else {
    Print(Cat("deleted ", Grouped(answer.rows_deleted), of, "; epoch ", answer.epoch, "\n"));
  }
}

absl::StatusOr<int> DeleteByFilter(const GlobalOptions& global, const RowOptions& options,
                                   Client& client) {
  if (options.ids.given()) {
    return absl::InvalidArgumentError("give either ids or --filter");
  }
  NF_ASSIGN_OR_RETURN(const auto answer, client.Delete(options.collection, *options.filter));
  PrintDeleted(global, answer, " rows that pass");
  return kExitOk;
}

absl::StatusOr<int> Delete(const GlobalOptions& global, const RowOptions& options) {
  if (!options.filter && !options.ids.given()) {
    return absl::InvalidArgumentError(
        "no id was given: write ids after the collection, name a file of them with --ids, or "
        "choose rows with --filter");
  }
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  if (options.filter) return DeleteByFilter(global, options, client);
  NF_ASSIGN_OR_RETURN(const IdColumn ids, ResolveIds(client, options.collection, options.ids));
  NF_ASSIGN_OR_RETURN(const auto limits, client.GetLimits());
  const size_t step = std::max<size_t>(limits.fetch_ids_max, 1);
  DeleteAnswer total;
  for (size_t begin = 0; begin < Count(ids); begin += step) {
    const auto answer =
        client.Delete(options.collection, Slice(ids, begin, std::min(begin + step, Count(ids))));
    if (!answer.ok()) {
      if (begin > 0) {
        PrintError(Cat(Grouped(total.rows_deleted), " rows had been deleted before this failed"));
      }
      return ReportError(global, answer.status());
    }
    total.epoch = answer->epoch;
    total.rows_deleted += answer->rows_deleted;
  }
  PrintDeleted(global, total, Cat(" of ", Grouped(Count(ids)), " rows asked for"));
  return kExitOk;
}

absl::StatusOr<int> CountRows(const GlobalOptions& global, const CountArguments& arguments) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto answer, client.Count(arguments.collection, arguments.options));
  if (global.json) {
    Print(JsonObject().Add("rows_count", answer.rows_count).Add("epoch", answer.epoch));
  } else {
    Print(Cat(answer.rows_count, "\n"));
  }
  return kExitOk;
}

}  // namespace

void AddRowCommands(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto fetched = std::make_shared<RowOptions>();
  CLI::App* fetch = app.add_subcommand("fetch", "Show stored rows by id");
  AddIdOptions(*fetch, &fetched->collection, &fetched->ids);
  fetch->add_flag("--vectors", fetched->with_vectors,
                  "Show the vectors, too; whole ones with --json");
  AddEpochOptions(*fetch, &fetched->min_epoch, &fetched->at_epoch);
  fetch->add_flag("--no-payload", fetched->without_payload, "Do not show the payloads");
  fetch
      ->add_option("--fields", fetched->fields,
                   "Members of JSON payloads to show, such as name,summary")
      ->delimiter(',');
  fetch->footer(
      "Exits with 1 where an id names no row.\n"
      "Examples:\n"
      "  nearfield fetch docs 17 42 --fields title\n"
      "  nearfield fetch docs 17 --vectors --json");
  AddWithAttributesOption(*fetch, &fetched->attributes);
  OnChosen(fetch, action, [&global, fetched] { return Fetch(global, *fetched); });

  auto deleted = std::make_shared<RowOptions>();
  CLI::App* remove = app.add_subcommand("delete", "Delete rows by id or by filter");
  AddIdOptions(*remove, &deleted->collection, &deleted->ids);
  AddFilterOption(*remove, &deleted->filter, "In place of ids: every row that passes, all at once");
  remove->footer(
      std::string("Ids that name no row are ignored. More ids than one request takes (nearfield "
                  "limits) are "
                  "deleted in several\n"
                  "steps, each with an epoch of its own; rows that pass a filter go in one.\n"
                  "\n") +
      std::string(kFilterHelp) +
      "\n"
      "Examples:\n"
      "  nearfield delete docs --ids old.txt\n"
      "  nearfield delete docs --filter 'made < \"2020-01-01\" and not exists(keep)'");
  OnChosen(remove, action, [&global, deleted] { return Delete(global, *deleted); });

  auto counted = std::make_shared<CountArguments>();
  CLI::App* count = app.add_subcommand("count", "Count the live rows of a collection");
  count->add_option("collection", counted->collection, "The collection")->required();
  AddFilterOption(*count, &counted->options.filter, "Only rows that pass, as written below");
  AddEpochOptions(*count, &counted->options.min_epoch, &counted->options.at_epoch);
  count->footer(std::string(kFilterHelp) +
                "\n"
                "Example:\n"
                "  nearfield count docs --filter 'year >= 2020'");
  OnChosen(count, action, [&global, counted] { return CountRows(global, *counted); });
}

}  // namespace nearfield::client
