// nearfield facets
#include <CLI/CLI.hpp>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/filter_option.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/term_option.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/attribute_text.h"
#include "nearfield/client/facets.h"

namespace nearfield::client {
namespace {

struct FacetsArguments {
  std::string collection;
  std::vector<std::string> attributes;
  std::optional<std::string> id;
  FacetsOptions options;
};

AttributeColumn ColumnOf(const Facet& facet) {
  return {.attribute = facet.attribute, .values = facet.values, .presence = {}, .list_sizes = {}};
}

std::string FacetJson(const Facet& facet) {
  const std::vector<std::string> values = AttributeJson(ColumnOf(facet), facet.rows_counts.size());
  std::string list = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) list += ',';
    list += JsonObject().AddJson("value", values[i]).Add("rows", facet.rows_counts[i]).ToString();
  }
  return JsonObject()
      .Add("attribute", facet.attribute)
      .AddJson("values", list + "]")
      .Add("values_count", facet.values_count)
      .Add("rows_missing", facet.rows_missing)
      .ToString();
}

void PrintFacet(const Facet& facet) {
  Table table({Table::Column(Printable(facet.attribute)), Table::Right("rows")});
  const std::vector<std::string> cells = AttributeCells(ColumnOf(facet), facet.rows_counts.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    table.Add({cells[i], Grouped(facet.rows_counts[i])});
  }
  const uint64_t more = facet.values_count - facet.rows_counts.size();
  Print(Cat(table.ToString(), more > 0 ? Cat(Grouped(more), " more values\n") : "",
            Grouped(facet.rows_missing), " rows without a value\n\n"));
}

absl::StatusOr<int> RunFacets(const GlobalOptions& global, FacetsArguments& arguments) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  if (arguments.id) {
    NF_ASSIGN_OR_RETURN(const IdColumn ids,
                        ResolveIds(client, arguments.collection, {.ids = {*arguments.id}}));
    arguments.options.query = At(ids, 0);
  }
  NF_ASSIGN_OR_RETURN(const FacetsAnswer answer,
                      client.Facets(arguments.collection, arguments.attributes, arguments.options));
  if (!global.json) {
    for (const Facet& facet : answer.facets) PrintFacet(facet);
    return kExitOk;
  }
  std::string facets = "[";
  for (const Facet& facet : answer.facets) {
    if (facets.size() > 1) facets += ',';
    facets += FacetJson(facet);
  }
  Print(JsonObject()
            .Add("rows_count", answer.rows_count)
            .Add("epoch", answer.epoch)
            .AddJson("facets", facets + "]"));
  return kExitOk;
}

}  // namespace

void AddFacetsCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<FacetsArguments>();
  CLI::App* facets =
      app.add_subcommand("facets", "Count the live rows for each value of attributes");
  facets->add_option("collection", arguments->collection, "The collection")->required();
  facets->add_option("attributes", arguments->attributes, "Names of attributes, or * for all")
      ->required();
  facets
      ->add_option("--values", arguments->options.values_max,
                   "Values of each attribute to show: those that most rows have [100]")
      ->check(WholeNumber(1, std::numeric_limits<uint32_t>::max()));
  AddFilterOption(*facets, &arguments->options.filter, "Only rows that pass, as written below");
  facets->add_option("--id", arguments->id,
                     "With --score-threshold: only rows near this stored row, without the row");
  AddScoreThresholdOption(*facets, &arguments->options.score_threshold);
  AddTermOptions(*facets, &arguments->options.terms);
  AddEpochOptions(*facets, &arguments->options.min_epoch, &arguments->options.at_epoch);
  facets->footer(std::string(kFilterHelp) + "\n" + kTermHelp +
                 "\n"
                 "Examples:\n"
                 "  nearfield facets docs language year --filter 'year >= 2020'\n"
                 "  nearfield facets docs tags --id 42 --score-threshold 0.8");
  OnChosen(facets, action, [&global, arguments] { return RunFacets(global, *arguments); });
}

}  // namespace nearfield::client
