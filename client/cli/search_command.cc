// nearfield search
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "client/cli/checked_search.h"
#include "client/cli/command.h"
#include "client/cli/options.h"
#include "client/cli/search_output.h"
#include "client/formats/query_set.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

// Left for what a request holds besides its queries' bytes.
constexpr uint64_t kRequestSpareBytes = 4096;
constexpr uint64_t kQueryOverheadBytes = 32;

struct SearchArguments {
  std::string collection;
  QueryFileOptions file;
  IdArguments ids;
  SearchOptions options;
  SearchOutputOptions output;
  bool verify = false;
  uint32_t batch = 0;  // queries in one request; 0: as many as the server takes
};

// All queries of a run. Views in `queries` point into `set`.
struct QueryList {
  QuerySet set;
  std::vector<Query> queries;
  std::vector<std::string> labels;
};

absl::StatusOr<QuerySet> ReadVectors(const SearchArguments& arguments) {
  if (!arguments.file.path.empty() && arguments.file.path != "-") {
    return ReadQueries(arguments.file);
  }
  if (isatty(STDIN_FILENO) != 0) {
    PrintError("reading queries as JSON from the terminal; end them with Ctrl-D");
  }
  const std::string text((std::istreambuf_iterator<char>(std::cin)),
                         std::istreambuf_iterator<char>());
  return ParseQueries({.name = "standard input", .bytes = text});
}

std::optional<QueryList> Queries(Client& client, const GlobalOptions& global,
                                 const SearchArguments& arguments, int* exit_code) {
  QueryList list;
  if (!arguments.ids.ids.empty()) {
    const auto ids = ResolveIds(client, global, arguments.collection, arguments.ids, exit_code);
    if (!ids) return std::nullopt;
    for (size_t i = 0; i < Count(*ids); ++i) {
      list.queries.emplace_back(At(*ids, i));
      list.labels.push_back(Cat("id ", ToString(At(*ids, i))));
    }
    return list;
  }
  absl::StatusOr<QuerySet> set = ReadVectors(arguments);
  if (!set.ok()) {
    *exit_code = BadInput(set.status());
    return std::nullopt;
  }
  list.set = *std::move(set);
  for (size_t i = 0; i < list.set.vectors.size(); ++i) {
    list.queries.emplace_back(EncodedQuery{.dtype = list.set.dtype, .bytes = list.set.vectors[i]});
    list.labels.push_back(Cat("query ", list.set.first_row + i));
  }
  return list;
}

// The end of the queries, from `begin` on, that one request takes.
size_t BatchEnd(const QueryList& list, size_t begin, const SearchArguments& arguments,
                const Limits& limits) {
  const size_t count_max = std::max<size_t>(
      arguments.batch == 0 ? limits.queries_max : std::min(arguments.batch, limits.queries_max), 1);
  uint64_t bytes = kRequestSpareBytes;
  size_t end = begin;
  while (end < list.queries.size() && end - begin < count_max) {
    bytes += kQueryOverheadBytes + (list.set.vectors.empty() ? 0 : list.set.vectors[end].size());
    if (end > begin && bytes > limits.request_bytes_max) break;
    ++end;
  }
  return end;
}

// Prints the answers of one request. Sets *exit_code where the oracle disagrees.
absl::Status SearchBatch(Client& client, const SearchArguments& arguments, const QueryList& list,
                         std::pair<size_t, size_t> range, int* exit_code) {
  const std::span<const Query> queries(list.queries.data() + range.first,
                                       range.second - range.first);
  NF_ASSIGN_OR_RETURN(SearchAnswer answer,
                      client.Search(arguments.collection, queries, arguments.options));
  for (size_t i = 0; i < queries.size(); ++i) {
    QueryAnswer one{.epoch = answer.epoch, .neighbors = std::move(answer.results[i])};
    SearchReport report{.query_number = list.set.first_row + range.first + i,
                        .label = list.labels[range.first + i],
                        .cost = &answer.cost};
    std::optional<VerifyAnswer> check;
    if (arguments.verify) {
      NF_ASSIGN_OR_RETURN(
          check, CheckAnswer(client, arguments.collection, queries[i], arguments.options, &one));
      if (!check->equal) *exit_code = kExitNegative;
    }
    report.answer = &one;
    report.check = check ? &*check : nullptr;
    Print(FormatReport(report, arguments.output));
  }
  return absl::OkStatus();
}

int RunSearch(const GlobalOptions& global, SearchArguments& arguments) {
  if (arguments.file.row && (arguments.file.path.empty() || arguments.file.path == "-")) {
    return BadInput(absl::InvalidArgumentError("--row needs --queries FILE"));
  }
  if (!arguments.ids.ids.empty() && !arguments.file.path.empty()) {
    return BadInput(absl::InvalidArgumentError("give either --queries or --id"));
  }
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  arguments.output.json = global.json;
  arguments.options.with_payload |= !arguments.output.fields.empty();
  arguments.output.with_payload = arguments.options.with_payload;
  arguments.output.with_vectors = arguments.options.with_vectors;
  int exit_code = kExitOk;
  const auto list = Queries(*client, global, arguments, &exit_code);
  if (!list) return exit_code;
  Limits limits{.queries_max = 1};
  if (list->queries.size() > 1) {
    const auto asked = client->GetLimits();
    if (!asked.ok()) return CallFailed(global, asked.status());
    limits = *asked;
  }
  for (size_t begin = 0; begin < list->queries.size();) {
    const size_t end = BatchEnd(*list, begin, arguments, limits);
    const absl::Status status = SearchBatch(*client, arguments, *list, {begin, end}, &exit_code);
    if (!status.ok()) {
      const int failed = CallFailed(global, status);
      if (end - begin > 1 && status.code() == absl::StatusCode::kResourceExhausted) {
        PrintError("fewer queries a request make a smaller reply: try --batch 1");
      }
      return failed;
    }
    begin = end;
  }
  return exit_code;
}

}  // namespace

void AddSearchCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<SearchArguments>();
  CLI::App* command = app.add_subcommand("search", "Find the rows nearest to a query, exactly");
  command->add_option("collection", arguments->collection, "The collection")->required();
  command->add_option("-q,--queries", arguments->file.path,
                      "Query vectors: .npy, .fbin, .fvecs or .jsonl [JSON from standard input]");
  command->add_option("--row", arguments->file.row, "Only this row of the file, counted from 0");
  AddFormatOption(*command, &arguments->file.format);
  AddDataTypeOption(*command, &arguments->file.dtype,
                    "What the file's elements are: needed for bfloat16");
  command->add_option("--id", arguments->ids.ids,
                      "Search with stored rows, by id; the row itself is left out of its answer");
  command->add_option("-k", arguments->options.k, "Neighbors wanted")->capture_default_str();
  command->add_flag("--payload", arguments->options.with_payload, "Show the payloads");
  command
      ->add_option("--fields", arguments->output.fields,
                   "Members of JSON payloads to show, such as name,summary; implies --payload")
      ->delimiter(',');
  command->add_flag("--vectors", arguments->options.with_vectors,
                    "Return the vectors; whole ones with --json");
  command->add_flag("--verify", arguments->verify,
                    "Have the server's oracle check every answer; exit with 1 on a difference");
  command->add_flag("--explain", arguments->output.explain,
                    "Show epoch, path taken, candidates, bytes read and times");
  command->add_option("--batch", arguments->batch,
                      "Queries in one request [what the server takes]");
  command->footer(
      "From standard input: a JSON array of numbers, an array of such arrays, or one {\"vector\": "
      "[...]} or array a line.\n"
      "Scores are printed so that they name every bit of the fp32 score (%.9g).\n"
      "\n"
      "Examples:\n"
      "  nearfield search docs --queries q.npy --row 3 -k 5 --fields title,year\n"
      "  echo '[0.1, 0.7, -0.2]' | nearfield search docs --json\n"
      "  nearfield search docs --id 42 --verify --explain");
  command->callback([&global, action, arguments] {
    *action = [&global, arguments] { return RunSearch(global, *arguments); };
  });
}

}  // namespace nearfield::client
