// nearfield update
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/filter_option.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/attribute_reader.h"
#include "client/formats/update_file.h"

namespace nearfield::client {
namespace {

struct UpdateArguments {
  std::string collection;
  IdArguments ids;
  std::optional<Filter> filter;
  std::string file;
  std::vector<std::string> set;    // NAME=VALUE
  std::vector<std::string> unset;  // names
  std::optional<std::string> payload;
  bool without_payload = false;
  std::optional<Filter> if_filter;
  std::optional<uint64_t> if_epoch;
  std::string token;
};

absl::Status CheckArguments(const UpdateArguments& arguments) {
  const bool by_file = !arguments.file.empty();
  if (arguments.ids.given() + arguments.filter.has_value() + by_file != 1) {
    return absl::InvalidArgumentError(
        "choose rows in one way: ids after the collection or in a file with --ids, --filter, or "
        "--file");
  }
  const bool changes = !arguments.set.empty() || !arguments.unset.empty() || arguments.payload ||
                       arguments.without_payload;
  if (by_file && changes) {
    return absl::InvalidArgumentError(
        "the lines of --file say what changes: leave out --set, --unset, --payload and "
        "--no-payload");
  }
  if (!by_file && !changes) {
    return absl::InvalidArgumentError(
        "nothing to change: give --set, --unset, --payload or --no-payload");
  }
  if (arguments.filter && arguments.if_filter) {
    return absl::InvalidArgumentError("--if is for ids: add its condition to --filter, with and");
  }
  return absl::OkStatus();
}

// The change that the options name, for any number of rows.
class OneChange {
 public:
  // Errors: InvalidArgument (an attribute that is not declared, or given twice; --set without '=').
  static absl::StatusOr<OneChange> Create(const UpdateArguments& arguments,
                                          const CollectionSpec& spec) {
    OneChange change(spec.attributes);
    for (const std::string& text : arguments.set) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos) {
        return absl::InvalidArgumentError(Cat("--set: ", text, ", must be NAME=VALUE"));
      }
      NF_RETURN_IF_ERROR(change.Add("--set", text.substr(0, equals), spec,
                                    {.text = text.substr(equals + 1), .quoted = true}));
    }
    for (const std::string& name : arguments.unset) {
      NF_RETURN_IF_ERROR(change.Add("--unset", name, spec, {}));
    }
    if (arguments.without_payload) change.payload_ = "";
    if (arguments.payload) change.payload_ = arguments.payload;
    return change;
  }

  // Errors: InvalidArgument (a value that is not of its attribute's type).
  absl::StatusOr<RowUpdate> For(size_t rows_count) const {
    AttributeReader reader(specs_);
    for (size_t row = 0; row < rows_count; ++row) {
      NF_RETURN_IF_ERROR(reader.AddRow(cells_, columns_));
    }
    RowUpdate update{.attributes = reader.TakeUpdates()};
    if (payload_) update.payloads.assign(rows_count, *payload_);
    return update;
  }

  // Returns the bytes of the values as text.
  uint64_t bytes() const {
    uint64_t bytes = payload_ ? payload_->size() : 0;
    for (const CsvCell& cell : cells_) bytes += cell.text.size();
    return bytes;
  }

 private:
  explicit OneChange(const std::vector<AttributeSpec>& specs)
      : specs_(specs), columns_(specs.size(), AttributeReader::kNoColumn) {}

  absl::Status Add(std::string_view option, const std::string& name, const CollectionSpec& spec,
                   CsvCell cell) {
    for (size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i].name != name) continue;
      if (columns_[i] != AttributeReader::kNoColumn) {
        return absl::InvalidArgumentError(Cat(option, ": the attribute ", name, " twice"));
      }
      columns_[i] = cells_.size();
      cells_.push_back(std::move(cell));
      return absl::OkStatus();
    }
    const std::string declared =
        Joined(specs_, ", ", [](const AttributeSpec& each) { return ToString(each); });
    return absl::InvalidArgumentError(Cat(option, ": ", spec.name, " declares no attribute ",
                                          QuoteJson(name), "; it declares ",
                                          declared.empty() ? "none" : declared));
  }

  std::vector<AttributeSpec> specs_;
  std::vector<CsvCell> cells_;
  std::vector<size_t> columns_;  // the cell of each attribute, or kNoColumn
  std::optional<std::string> payload_;
};

// The answers of all calls.
struct UpdateTotal {
  uint64_t epoch = 0;
  uint64_t rows_updated = 0;
  std::vector<Id> missing;
  std::vector<Id> refused;

  void Add(const UpdateAnswer& answer) {
    epoch = answer.epoch;
    rows_updated += answer.rows_updated;
    for (size_t i = 0; i < Count(answer.missing); ++i) missing.push_back(At(answer.missing, i));
    for (size_t i = 0; i < Count(answer.refused); ++i) refused.push_back(At(answer.refused, i));
  }
};

// Prints the answers; returns the exit code. `of`: the rows that were chosen, as text.
int PrintUpdated(const GlobalOptions& global, const UpdateTotal& total, std::string_view of) {
  if (global.json) {
    const auto ids = [](const std::vector<Id>& list) {
      return JsonArray(list, [](const Id& id) { return ToJson(id); });
    };
    Print(JsonObject()
              .Add("rows_updated", total.rows_updated)
              .Add("epoch", total.epoch)
              .AddJson("missing", ids(total.missing))
              .AddJson("refused", ids(total.refused)));
  } else {
    Print(Cat("updated ", Grouped(total.rows_updated), of, "; epoch ", total.epoch, "\n"));
    for (const Id& id : total.missing) PrintError(Cat("no row with id ", ToString(id)));
    for (const Id& id : total.refused) {
      PrintError(Cat("the row with id ", ToString(id), " does not pass --if"));
    }
  }
  return total.missing.empty() && total.refused.empty() ? kExitOk : kExitNegative;
}

// Rows to change, one call after the other.
struct UpdateCalls {
  uint64_t rows_count = 0;
  std::function<absl::StatusOr<UpdateRows>()> next;
};

// Sets the conditions and the token of the call for rows [begin, end). Another division into calls
// has other tokens.
absl::Status AddConditions(const UpdateArguments& arguments, const CollectionInfo& info,
                           uint64_t rows_count, uint64_t begin, uint64_t end, RowUpdate* update) {
  const bool one_call = end - begin == rows_count;
  if (arguments.if_epoch && !one_call) {
    return absl::InvalidArgumentError(Cat("--if-epoch: ", Grouped(rows_count),
                                          " rows need several calls, each with an epoch of its "
                                          "own; one takes ",
                                          Grouped(end - begin), " of them"));
  }
  update->if_filter = arguments.if_filter;
  update->if_epoch = arguments.if_epoch;
  if (arguments.if_epoch) update->incarnation = info.incarnation;
  if (arguments.token.empty()) return absl::OkStatus();
  update->token = one_call ? arguments.token : Cat(arguments.token, "/", begin, "-", end);
  return absl::OkStatus();
}

absl::StatusOr<int> SendAll(const GlobalOptions& global, const UpdateArguments& arguments,
                            const CollectionInfo& info, Client& client, const UpdateCalls& calls) {
  UpdateTotal total;
  for (uint64_t begin = 0; begin < calls.rows_count;) {
    NF_ASSIGN_OR_RETURN(UpdateRows rows, calls.next());
    const uint64_t end = begin + Count(rows.ids);
    NF_RETURN_IF_ERROR(AddConditions(arguments, info, calls.rows_count, begin, end, &rows.update));
    const auto answer = client.Update(arguments.collection, rows.ids, rows.update);
    if (!answer.ok()) {
      if (begin > 0) {
        PrintError(Cat(Grouped(total.rows_updated), " rows of the first ", Grouped(begin),
                       " had been updated before this failed"));
      }
      return ReportError(global, answer.status());
    }
    total.Add(*answer);
    begin = end;
  }
  return PrintUpdated(global, total, Cat(" of ", Grouped(calls.rows_count), " rows asked for"));
}

absl::StatusOr<int> Update(const GlobalOptions& global, const UpdateArguments& arguments) {
  // A value takes up to four times the bytes of its text in a message.
  constexpr uint64_t kMessageShare = 8;
  NF_RETURN_IF_ERROR(CheckArguments(arguments));
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const CollectionInfo info, client.GetCollection(arguments.collection));
  NF_ASSIGN_OR_RETURN(const Limits limits, client.GetLimits());
  const size_t rows_max = std::max<size_t>(limits.fetch_ids_max, 1);
  const uint64_t bytes_max = std::max<uint64_t>(limits.request_bytes_max / kMessageShare, 1);
  if (!arguments.file.empty()) {
    NF_ASSIGN_OR_RETURN(
        UpdateFile file,
        AsBadInput(UpdateFile::Open(arguments.file, info.spec.id_type, info.spec.attributes)));
    return SendAll(global, arguments, info, client,
                   {.rows_count = file.rows_count(),
                    .next = [&] { return AsBadInput(file.Next(rows_max, bytes_max)); }});
  }
  NF_ASSIGN_OR_RETURN(const OneChange change, OneChange::Create(arguments, info.spec));
  if (arguments.filter) {
    NF_ASSIGN_OR_RETURN(RowUpdate update, change.For(1));
    NF_RETURN_IF_ERROR(AddConditions(arguments, info, 1, 0, 1, &update));
    NF_ASSIGN_OR_RETURN(const auto answer,
                        client.Update(arguments.collection, *arguments.filter, update));
    UpdateTotal total;
    total.Add(answer);
    return PrintUpdated(global, total, " rows that pass");
  }
  NF_ASSIGN_OR_RETURN(const IdColumn ids, ResolveIds(client, arguments.collection, arguments.ids));
  const size_t step = std::clamp<uint64_t>(bytes_max / (change.bytes() + 1), 1, rows_max);
  size_t begin = 0;
  return SendAll(global, arguments, info, client,
                 {.rows_count = Count(ids), .next = [&]() -> absl::StatusOr<UpdateRows> {
                    const size_t end = std::min(begin + step, Count(ids));
                    NF_ASSIGN_OR_RETURN(RowUpdate update, change.For(end - begin));
                    UpdateRows rows{.ids = Slice(ids, begin, end), .update = std::move(update)};
                    begin = end;
                    return rows;
                  }});
}

constexpr char kUpdateFooter[] =
    "Rows stay where they are: vectors, scores and the answers of searches without filters do not "
    "change. Attributes that\n"
    "are not named keep their values. More rows than one request takes (nearfield limits) are "
    "changed in several calls,\n"
    "each with an epoch of its own; rows that pass a filter change in one.\n"
    "\n"
    "A line of --file has the id and what changes; null removes a value or the payload:\n"
    "  {\"id\": 7, \"year\": 2020, \"tags\": [\"a\"], \"price\": null, \"payload\": {\"title\": "
    "\"...\"}}\n"
    "Exits with 1 where an id names no row, or --if refuses a row.\n"
    "\n";

constexpr char kUpdateExamples[] =
    "\n"
    "Examples:\n"
    "  nearfield update books 7 8 --set year=2020 --set 'tags=[\"a\", \"b\"]' --unset price\n"
    "  nearfield update books 7 --set version=8 --if 'version == 7'\n"
    "  nearfield update books --filter 'year < 1990' --set old=true\n"
    "  zcat changes.jsonl.gz | nearfield update books --file - --token monday";

void AddChangeOptions(CLI::App& command, UpdateArguments* arguments) {
  Repeated(command.add_option("--set", arguments->set,
                              "A new value, as NAME=VALUE, of the type that the collection "
                              "declares; a list is a JSON array; may be repeated"));
  Repeated(command.add_option("--unset", arguments->unset,
                              "An attribute that the rows then have no value of; may be repeated"));
  CLI::Option* payload =
      command.add_option("--payload", arguments->payload, "A new payload, stored as this text")
          ->check(CLI::Validator(
              [](const std::string& given) {
                return given.empty() ? std::string("empty; to remove the payload: --no-payload")
                                     : std::string();
              },
              ""));
  command.add_flag("--no-payload", arguments->without_payload, "Remove the payload")
      ->excludes(payload);
}

}  // namespace

void AddUpdateCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<UpdateArguments>();
  CLI::App* command =
      app.add_subcommand("update", "Change attributes and payloads of rows by id or by filter");
  AddIdOptions(*command, &arguments->collection, &arguments->ids);
  AddFilterOption(*command, &arguments->filter,
                  "In place of ids: every row that passes, all at once");
  command->add_option("--file", arguments->file,
                      "In place of ids: .jsonl with one changed row a line; - for standard input");
  AddChangeOptions(*command, arguments.get());
  AddFilterOption(*command, &arguments->if_filter,
                  "Change a row only if it passes this filter; the others are named", "--if");
  command
      ->add_option("--if-epoch", arguments->if_epoch,
                   "Change rows only if this is the current epoch of the collection")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()));
  AddTokenOption(*command, &arguments->token,
                 "A name for this update: it is tried again after a lost connection, and when the "
                 "same command is repeated, no row changes again");
  command->footer(std::string(kUpdateFooter) + kFilterHelp + kUpdateExamples);
  OnChosen(command, action, [&global, arguments] { return Update(global, *arguments); });
}

}  // namespace nearfield::client
