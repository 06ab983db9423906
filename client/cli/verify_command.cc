// nearfield verify
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <random>
#include <string>

#include "client/cli/checked_search.h"
#include "client/cli/command.h"
#include "client/cli/filter_option.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/replay.h"
#include "client/cli/search_output.h"
#include "client/cli/term_option.h"
#include "client/cli/text_output.h"
#include "client/cli/verify_replies.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/query_set.h"

namespace nearfield::client {
namespace {

// Each sampled row is one of this many rows nearest to a random direction.
constexpr uint32_t kDrawDepth = 1000;
// Maximum number of repetitions if a sample is a zero row.
constexpr int kDrawTriesMax = 100;

struct VerifyArguments {
  std::string collection;
  std::string replies;  // a log of replies, instead of a collection
  std::string replay;   // an audit record, instead of a collection
  QueryFileOptions file;
  uint32_t sample = 20;
  uint64_t seed = 1;
  SearchOptions options;
};

struct Tally {
  uint64_t checked = 0;
  uint64_t mismatches = 0;
  uint64_t rows_checked = 0;
  uint64_t epoch = 0;
};

// Returns the id of a stored row: one of those nearest to a random direction, because no call lists
// ids.
absl::StatusOr<Id> DrawRow(Client& client, const CollectionInfo& info, uint32_t depth,
                           std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> direction(info.spec.dim);
  for (float& value : direction) value = normal(random);
  NF_ASSIGN_OR_RETURN(
      const SearchAnswer answer,
      client.Search(info.spec.name, std::span<const float>(direction), {.k = depth}));
  const size_t count = Count(answer.results[0].ids);
  if (count == 0) return absl::NotFoundError("the collection has become empty");
  return At(answer.results[0].ids, random() % count);
}

// Returns the stored vector of a sampled row that can be a query. With cosine, a zero row cannot.
absl::StatusOr<std::pair<Id, EncodedVectors>> DrawQuery(Client& client, const CollectionInfo& info,
                                                        uint32_t depth, std::mt19937_64& random) {
  for (int tries = 0; tries < kDrawTriesMax; ++tries) {
    NF_ASSIGN_OR_RETURN(const Id id, DrawRow(client, info, depth, random));
    IdColumn ids = EmptyIds(TypeOf(id));
    Append(id, &ids);
    NF_ASSIGN_OR_RETURN(FetchAnswer row,
                        client.Fetch(info.spec.name, ids, {.with_payload = false}));
    const std::vector<float> values = Widen(row.vectors.dtype, row.vectors.bytes);
    const bool usable = std::any_of(values.begin(), values.end(), [](float v) { return v != 0; });
    if (usable) return std::pair<Id, EncodedVectors>(id, std::move(row.vectors));
  }
  return absl::NotFoundError("no row found that is not zero");
}

class Verifier {
 public:
  Verifier(const GlobalOptions& global, const VerifyArguments& arguments, Client& client)
      : global_(global), arguments_(arguments), client_(client) {}

  absl::Status Check(const std::string& label, const Query& query) {
    NF_ASSIGN_OR_RETURN(SearchAnswer found,
                        client_.Search(arguments_.collection, std::span<const Query>(&query, 1),
                                       arguments_.options));
    QueryAnswer answer{.epoch = found.epoch, .neighbors = std::move(found.results[0])};
    NF_ASSIGN_OR_RETURN(const VerifyAnswer check, CheckAnswer(client_, arguments_.collection, query,
                                                              arguments_.options, &answer));
    ++tally_.checked;
    tally_.rows_checked += check.rows_checked;
    tally_.epoch = check.epoch;
    if (check.equal) return absl::OkStatus();
    ++tally_.mismatches;
    if (global_.json) {
      JsonObject json;
      json.Add("query", label).Add("epoch", check.epoch).Append(ToJson(check));
      Print(json);
    } else {
      Print(Cat(Printable(label), ": ", Verdict(check), "\n"));
    }
    return absl::OkStatus();
  }

  int Summary() const {
    if (global_.json) {
      Print(JsonObject()
                .Add("collection", arguments_.collection)
                .Add("answers_checked", tally_.checked)
                .Add("mismatches", tally_.mismatches)
                .Add("rows_checked", tally_.rows_checked)
                .Add("epoch", tally_.epoch));
    } else if (tally_.checked == 0) {
      Print(Cat(Printable(arguments_.collection), " is empty: nothing to verify\n"));
    } else {
      Print(Cat(tally_.mismatches == 0 ? "verified: " : "MISMATCH: ",
                Grouped(tally_.checked - tally_.mismatches), " of ", Grouped(tally_.checked),
                " answers equal the oracle's, ids and score bits; ", Grouped(tally_.rows_checked),
                " rows scored, k = ", arguments_.options.k, ", epoch ", tally_.epoch, "\n"));
    }
    return tally_.mismatches == 0 ? kExitOk : kExitNegative;
  }

 private:
  const GlobalOptions& global_;
  const VerifyArguments& arguments_;
  Client& client_;
  Tally tally_;
};

absl::Status VerifySample(Client& client, const VerifyArguments& arguments, Verifier* verifier) {
  NF_ASSIGN_OR_RETURN(const CollectionInfo info, client.GetCollection(arguments.collection));
  if (info.rows_count == 0) {
    // rows_count is also 0 if the rows could not be loaded: then Count fails and reports the
    // reason. It also refuses a bad filter.
    NF_ASSIGN_OR_RETURN(const CountAnswer counted,
                        client.Count(arguments.collection, {.filter = arguments.options.filter}));
    if (counted.rows_count == 0) return absl::OkStatus();
  }
  NF_ASSIGN_OR_RETURN(const Limits limits, client.GetLimits());
  const uint32_t depth = std::max<uint32_t>(std::min(kDrawDepth, limits.k_max), 1);
  std::mt19937_64 random(arguments.seed);
  for (uint32_t i = 0; i < arguments.sample; ++i) {
    NF_ASSIGN_OR_RETURN(const auto drawn, DrawQuery(client, info, depth, random));
    const std::string label = Cat("row ", ToString(drawn.first));
    // Alternates between the vector, whose answer must contain the row, and the id, whose answer
    // must not.
    const Query query =
        i % 2 == 0 ? Query(EncodedQuery{.dtype = drawn.second.dtype, .bytes = drawn.second.bytes})
                   : Query(drawn.first);
    NF_RETURN_IF_ERROR(verifier->Check(label, query));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> RunVerify(const GlobalOptions& global, VerifyArguments& arguments) {
  const int given = (arguments.collection.empty() ? 0 : 1) + (arguments.replies.empty() ? 0 : 1) +
                    (arguments.replay.empty() ? 0 : 1);
  if (given != 1) {
    return absl::InvalidArgumentError("give one of a collection, --replies FILE and --replay FILE");
  }
  if (!arguments.replies.empty()) return VerifyReplies(global, arguments.replies);
  if (!arguments.replay.empty()) return ReplayRecord(global, arguments.replay);
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  Verifier verifier(global, arguments, client);
  if (arguments.file.path.empty()) {
    NF_RETURN_IF_ERROR(VerifySample(client, arguments, &verifier));
    return verifier.Summary();
  }
  NF_ASSIGN_OR_RETURN(const auto set, AsBadInput(ReadQueries(arguments.file)));
  for (size_t i = 0; i < set.vectors.size(); ++i) {
    const Query query = EncodedQuery{.dtype = set.dtype, .bytes = set.vectors[i]};
    NF_RETURN_IF_ERROR(verifier.Check(Cat("query ", set.first_row + i), query));
  }
  return verifier.Summary();
}

}  // namespace

void AddVerifyCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App* command =
      app.add_subcommand("verify", "Prove that a collection's answers are exact, by sampling");
  command->add_option("collection", arguments->collection, "The collection");
  command->add_option("--replies", arguments->replies,
                      "Check the answers of this log instead, which search --record wrote");
  command->add_option("--replay", arguments->replay,
                      "Repeat the check of this audit record of a server instead");
  AddCountOption(*command, "--sample", &arguments->sample, "Stored rows to draw as queries")
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "Random seed for the sampled queries")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()))
      ->capture_default_str();
  command->add_option("-q,--queries", arguments->file.path,
                      "Queries of a vector file instead: .npy, .fbin, .fvecs or .jsonl");
  AddRowOption(*command, &arguments->file.row);
  AddFormatOption(*command, &arguments->file.format);
  AddDataTypeOption(*command, &arguments->file.dtype,
                    "Type of the file's elements: needed for bfloat16");
  AddKOption(*command, &arguments->options.k, "Neighbors of each answer");
  AddFilterOption(*command, &arguments->options.filter,
                  "Only rows that pass are in the answers (nearfield search --help)");
  AddTermOptions(*command, &arguments->options.terms);
  AddScoreThresholdOption(*command, &arguments->options.score_threshold);
  command->footer(
      "Each query is searched as usual; then the server's oracle scores every row again on one "
      "core, sorts them\n"
      "all, and compares ids and score bits. Slow by design. Exits with 1 on any difference.\n"
      "A draw takes one of the 1000 rows nearest to a random direction; drawn rows are searched by "
      "turns as vectors\n"
      "and as ids.\n"
      "A log of replies is checked line by line, each answer at its own epoch; where the "
      "collection "
      "has moved on, an\n"
      "answer is not checkable, and counts as neither right nor wrong. An audit record is repeated "
      "from its own rows,\n"
      "without a server; without rows the server is asked. Exits with 1 where the record proves "
      "right.\n"
      "Examples:\n"
      "  nearfield verify docs --sample 100 --seed 7\n"
      "  nearfield search docs --queries q.npy --record replies.jsonl; nearfield verify --replies "
      "replies.jsonl\n"
      "  nearfield verify --replay /var/lib/nearfield/audit/audit-1700000000-1.json");
  OnChosen(command, action, [&global, arguments] { return RunVerify(global, *arguments); });
}

}  // namespace nearfield::client
