// nearfield search
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "client/cli/checked_search.h"
#include "client/cli/command.h"
#include "client/cli/filter_option.h"
#include "client/cli/options.h"
#include "client/cli/recorder.h"
#include "client/cli/search_output.h"
#include "client/cli/term_option.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/query_set.h"

namespace nearfield::client {
namespace {

// Space in a request for everything except the bytes of its queries.
constexpr uint64_t kRequestSpareBytes = 4096;
constexpr uint64_t kQueryOverheadBytes = 32;

struct SearchArguments {
  std::string collection;
  QueryFileOptions file;
  IdArguments ids;
  SearchOptions options;
  SearchOutputOptions output;
  bool verify = false;
  std::string record;                 // file for the replies; empty: none
  std::string terms;                  // the message of options.terms; empty: none
  uint32_t batch = 0;                 // queries per request; 0: the server's maximum
  std::optional<std::string> cursor;  // as printed
  bool all = false;
  std::optional<uint64_t> results_max;
  bool k_given = false;
  std::optional<std::string> group_by;
  std::optional<uint32_t> group_rows;
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

absl::StatusOr<QueryList> Queries(Client& client, const SearchArguments& arguments) {
  QueryList list;
  if (!arguments.ids.ids.empty()) {
    NF_ASSIGN_OR_RETURN(const IdColumn ids,
                        ResolveIds(client, arguments.collection, arguments.ids));
    for (size_t i = 0; i < Count(ids); ++i) {
      list.queries.emplace_back(At(ids, i));
      list.labels.push_back(Cat("id ", ToString(At(ids, i))));
    }
    return list;
  }
  NF_ASSIGN_OR_RETURN(list.set, AsBadInput(ReadVectors(arguments)));
  for (size_t i = 0; i < list.set.vectors.size(); ++i) {
    list.queries.emplace_back(EncodedQuery{.dtype = list.set.dtype, .bytes = list.set.vectors[i]});
    list.labels.push_back(Cat("query ", list.set.first_row + i));
  }
  return list;
}

std::string FilterText(const SearchArguments& arguments) {
  return arguments.options.filter ? arguments.options.filter->text() : "";
}

// Returns the end of the run of queries, from `begin`, that fits into one request.
size_t BatchEnd(const QueryList& list, size_t begin, const SearchArguments& arguments,
                const Limits& limits) {
  const size_t count_max = std::max<size_t>(
      arguments.batch == 0 ? limits.queries_max : std::min(arguments.batch, limits.queries_max), 1);
  uint64_t bytes = kRequestSpareBytes + FilterText(arguments).size() + arguments.terms.size();
  size_t end = begin;
  while (end < list.queries.size() && end - begin < count_max) {
    bytes += kQueryOverheadBytes + (list.set.vectors.empty() ? 0 : list.set.vectors[end].size());
    if (end > begin && bytes > limits.request_bytes_max) break;
    ++end;
  }
  return end;
}

// The results of a run other than its output.
struct Outcome {
  Recorder recorder;
  int exit_code = kExitOk;
};

// Prints the answers of one request. Records whether the oracle disagrees.
absl::Status SearchBatch(Client& client, const SearchArguments& arguments, const QueryList& list,
                         std::pair<size_t, size_t> range, Outcome* outcome) {
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
      if (!check->equal) outcome->exit_code = kExitNegative;
    }
    if (outcome->recorder.recording()) {
      NF_RETURN_IF_ERROR(outcome->recorder.Add(
          arguments.record, {.collection = arguments.collection,
                             .epoch = one.epoch,
                             .k = arguments.options.k,
                             .query = Own(queries[i]),
                             .filter = FilterText(arguments),
                             .terms = arguments.terms,
                             .score_threshold = arguments.options.score_threshold,
                             .neighbors = one.neighbors}));
    }
    if (one.neighbors.cut) outcome->exit_code = kExitNegative;
    report.answer = &one;
    report.check = check ? &*check : nullptr;
    Print(FormatReport(report, arguments.output));
  }
  return absl::OkStatus();
}

absl::Status CheckPaging(const SearchArguments& arguments) {
  if (arguments.results_max && !arguments.all) {
    return absl::InvalidArgumentError("--results-max needs --all");
  }
  if (arguments.all && (arguments.batch > 0 || arguments.options.with_cursor)) {
    return absl::InvalidArgumentError("--all goes without --batch and --with-cursor");
  }
  // The cursor of an answer that no row follows: a loop over pages must end here.
  if (arguments.cursor && arguments.cursor->empty()) {
    return absl::InvalidArgumentError(
        "--cursor: empty, must be the next_cursor of an answer; without one no row follows");
  }
  const bool part = arguments.all || arguments.cursor;
  if (part && (arguments.verify || !arguments.record.empty())) {
    return absl::InvalidArgumentError(
        "--verify and --record take whole answers, no pages: give neither --all nor --cursor");
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(SearchArguments& arguments) {
  if (!arguments.group_by) {
    if (!arguments.group_rows) return absl::OkStatus();
    return absl::InvalidArgumentError("--group-rows needs --group-by");
  }
  if (arguments.group_by->empty()) {
    return absl::InvalidArgumentError("--group-by: empty, must be the name of an attribute");
  }
  arguments.options.group_by = *arguments.group_by;
  arguments.options.group_rows = arguments.group_rows.value_or(1);
  if (arguments.all || !arguments.record.empty()) {
    return absl::InvalidArgumentError(
        "--group-by goes without --all and --record: read groups page by page with --cursor");
  }
  // The call Verify checks rows only, so the server checks groups before it sends them.
  arguments.options.verify = std::exchange(arguments.verify, false);
  return absl::OkStatus();
}

// Resolves the options for pages into arguments of the calls.
absl::Status ResolvePaging(SearchArguments& arguments) {
  if (arguments.cursor) {
    NF_ASSIGN_OR_RETURN(arguments.options.cursor, ParseCursor(*arguments.cursor));
  }
  arguments.output.with_cursor =
      !arguments.all && (arguments.options.with_cursor || arguments.cursor);
  return absl::OkStatus();
}

struct SearchAllJob {
  std::string_view collection;
  Query query;
  SearchAllOptions options;
  uint64_t query_number = 0;
  std::string label;  // "query 3"
};

// Prints the pages of one search as they arrive. Reports a failure, and how to continue after it.
// Returns the exit code.
absl::StatusOr<int> PrintAllPages(Client& client, const GlobalOptions& global,
                                  const SearchAllJob& job, const SearchOutputOptions& output) {
  NF_ASSIGN_OR_RETURN(SearchPages pages, client.SearchAll(job.collection, job.query, job.options));
  std::string cursor;  // continues after the printed rows
  uint64_t rows_count = 0;
  for (uint64_t page = 1;; ++page) {
    absl::StatusOr<std::optional<SearchAnswer>> answer = pages.Next();
    if (!answer.ok()) {
      const int exit_code = ReportError(global, answer.status());
      if (!cursor.empty()) {
        PrintError(Cat("to continue after the rows above: --cursor ", CursorText(cursor)));
      }
      return exit_code;
    }
    if (!answer->has_value()) {
      if (!cursor.empty()) PrintError(Cat("rows follow: --cursor ", CursorText(cursor)));
      return kExitOk;
    }
    SearchAnswer& found = **answer;
    QueryAnswer one{.epoch = found.epoch, .neighbors = std::move(found.results[0])};
    cursor = one.neighbors.next_cursor;
    if (page > 1 && Count(one.neighbors.ids) == 0) continue;  // sent by earlier servers
    const SearchReport report{.query_number = job.query_number,
                              .label = page == 1 ? job.label : Cat(job.label, ", page ", page),
                              .answer = &one,
                              .cost = &found.cost,
                              .first_place = rows_count};
    Print(FormatReport(report, output));
    std::fflush(stdout);  // a reader may use each page before the next one
    rows_count += Count(one.neighbors.ids);
  }
}

absl::StatusOr<int> SearchAllQueries(Client& client, const GlobalOptions& global,
                                     const SearchArguments& arguments, const QueryList& list) {
  SearchOptions options = arguments.options;
  if (!arguments.k_given) options.k = 0;  // pages as large as the server allows
  for (size_t i = 0; i < list.queries.size(); ++i) {
    const SearchAllJob job = {.collection = arguments.collection,
                              .query = list.queries[i],
                              .options = {.search = options, .results_max = arguments.results_max},
                              .query_number = list.set.first_row + i,
                              .label = list.labels[i]};
    NF_ASSIGN_OR_RETURN(const int exit_code, PrintAllPages(client, global, job, arguments.output));
    if (exit_code != kExitOk) return exit_code;
  }
  return kExitOk;
}

absl::StatusOr<int> RunSearch(const GlobalOptions& global, SearchArguments& arguments) {
  NF_RETURN_IF_ERROR(CheckPaging(arguments));
  NF_RETURN_IF_ERROR(CheckGroups(arguments));
  if (arguments.file.row && (arguments.file.path.empty() || arguments.file.path == "-")) {
    return absl::InvalidArgumentError("--row needs --queries FILE");
  }
  if (!arguments.ids.ids.empty() && !arguments.file.path.empty()) {
    return absl::InvalidArgumentError("give either --queries or --id");
  }
  if (arguments.options.terms) {
    NF_ASSIGN_OR_RETURN(arguments.terms, SerializeTerms(*arguments.options.terms));
  }
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  arguments.output.json = global.json;
  arguments.options.with_payload |= !arguments.output.fields.empty();
  arguments.output.with_payload = arguments.options.with_payload;
  arguments.output.with_vectors = arguments.options.with_vectors;
  Outcome outcome;
  NF_RETURN_IF_ERROR(outcome.recorder.Open(arguments.record));
  arguments.options.with_digest = outcome.recorder.recording();
  NF_ASSIGN_OR_RETURN(const QueryList list, Queries(client, arguments));
  if (arguments.cursor && list.queries.size() != 1) {
    return absl::InvalidArgumentError(
        Cat("--cursor goes with its own query alone, not with ", list.queries.size()));
  }
  NF_RETURN_IF_ERROR(ResolvePaging(arguments));
  if (arguments.all) return SearchAllQueries(client, global, arguments, list);
  Limits limits{.queries_max = 1};
  if (list.queries.size() > 1) {
    NF_ASSIGN_OR_RETURN(limits, client.GetLimits());
  }
  for (size_t begin = 0; begin < list.queries.size();) {
    const size_t end = BatchEnd(list, begin, arguments, limits);
    const absl::Status status = SearchBatch(client, arguments, list, {begin, end}, &outcome);
    if (!status.ok()) {
      const int failed = ReportError(global, status);
      if (end - begin > 1 && status.code() == absl::StatusCode::kResourceExhausted) {
        PrintError("fewer queries a request make a smaller reply: try --batch 1");
      }
      return failed;
    }
    begin = end;
  }
  return outcome.exit_code;
}

// Adds the options that choose the rows, the epoch, and the number of rows.
void AddChoiceOptions(CLI::App& command, SearchArguments* arguments) {
  AddFilterOption(command, &arguments->options.filter, "Only rows that pass, as written below");
  AddScoreThresholdOption(command, &arguments->options.score_threshold);
  AddTermOptions(command, &arguments->options.terms);
  command.add_flag("--parts", arguments->options.with_parts,
                   "Show the score of the vectors and the sum of the terms");
  command.add_option("--group-by", arguments->group_by,
                     "The -k best groups in place of rows: rows with one value of this attribute");
  command
      .add_option("--group-rows", arguments->group_rows,
                  "With --group-by: at most this many rows of each group [1]")
      ->check(WholeNumber(1, std::numeric_limits<uint32_t>::max()));
  AddEpochOptions(command, &arguments->options.min_epoch, &arguments->options.at_epoch);
  AddNamedOption<SearchPriority>(
      command, "--priority", &arguments->options.priority,
      "batch: work in bulk, which waits for interactive searches [interactive]",
      {{"interactive", SearchPriority::kInteractive}, {"batch", SearchPriority::kBatch}});
  command.add_flag("--all", arguments->all,
                   "Every row, page by page, of one epoch; pages of -k rows where it is given");
  command
      .add_option("--results-max", arguments->results_max,
                  "With --all: stop after this many rows [all]")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()));
  command.add_flag("--with-cursor", arguments->options.with_cursor,
                   "Show the cursor of the next page");
  command.add_option("--cursor", arguments->cursor,
                     "Continue after an earlier page: the same query, filter, terms and threshold");
}

}  // namespace

void AddSearchCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<SearchArguments>();
  CLI::App* command = app.add_subcommand("search", "Find the rows nearest to a query, exactly");
  command->add_option("collection", arguments->collection, "The collection")->required();
  command->add_option("-q,--queries", arguments->file.path,
                      "Query vectors: .npy, .fbin, .fvecs or .jsonl [JSON from standard input]");
  AddRowOption(*command, &arguments->file.row);
  AddFormatOption(*command, &arguments->file.format);
  AddDataTypeOption(*command, &arguments->file.dtype,
                    "Type of the file's elements: needed for bfloat16");
  command->add_option("--id", arguments->ids.ids,
                      "Search with stored rows, by id; the row itself is left out of its answer");
  CLI::Option* k = AddKOption(*command, &arguments->options.k, "Neighbors wanted");
  AddChoiceOptions(*command, arguments.get());
  command->add_flag("--payload", arguments->options.with_payload, "Show the payloads");
  command
      ->add_option("--fields", arguments->output.fields,
                   "Members of JSON payloads to show, such as name,summary; implies --payload")
      ->delimiter(',');
  command->add_flag("--vectors", arguments->options.with_vectors,
                    "Return the vectors; whole ones with --json");
  AddWithAttributesOption(*command, &arguments->options.attributes);
  command->add_flag("--verify", arguments->verify,
                    "Have the server's oracle check every answer; exit with 1 on a difference");
  command->add_option("--record", arguments->record,
                      "Append every answer to this file, with its query, epoch and digest, for "
                      "verify --replies");
  command->add_flag("--explain", arguments->output.explain,
                    "Show epoch, path taken, candidates, escalations, bytes read, times and the "
                    "share of the device's read limit");
  command->add_option("--batch", arguments->batch, "Queries in one request [what the server takes]")
      ->check(WholeNumber(0, std::numeric_limits<uint32_t>::max()));
  command->footer(
      "From standard input: a JSON array of numbers, an array of such arrays, or one {\"vector\": "
      "[...]} or array a line.\n"
      "Scores are printed so that they name every bit of the float32 score (%.9g).\n"
      "\n" +
      std::string(kFilterHelp) + "\n" + kTermHelp +
      "\n"
      "Examples:\n"
      "  nearfield search docs --id 42 --filter 'language == \"de\" and year >= 2020'\n"
      "  nearfield search memory --id 42 --parts --term '0.3 * half_life(written, half_life=30d, "
      "origin=now)'\n"
      "  nearfield search docs --id 42 --group-by author --group-rows 3 -k 5\n"
      "  nearfield search docs --id 42 --all --score-threshold 0.8 --json\n"
      "  nearfield search docs --queries q.npy --row 3 -k 5 --fields title,year\n"
      "  echo '[0.1, 0.7, -0.2]' | nearfield search docs --json\n"
      "  nearfield search docs --id 42 --verify --explain");
  command->callback([&global, action, arguments, k] {
    arguments->k_given = k->count() > 0;
    *action = [&global, arguments] { return RunSearch(global, *arguments); };
  });
}

}  // namespace nearfield::client
