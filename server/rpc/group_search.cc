#include "server/rpc/group_search.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/attributes/evaluate.h"
#include "server/attributes/filter.h"
#include "server/attributes/row_reader.h"
#include "server/convert/retrieval.h"

namespace nearfield::server {
namespace {

// Rows of the first scan for each row of the answer, and at least. A later scan returns four times
// as many as the one before, up to k_max: groups with many good rows soon come up in one scan.
// More at once do not pay: of a million rows on a CPU, 1,024 take 1.7 times as long as 30.
constexpr int64_t kRowsAhead = 4;
constexpr int64_t kFirstRowsMin = 64;
constexpr int64_t kRowsGrowth = 4;
// Queries of one search that fills groups. The engine caches the rows of as many filters.
constexpr int64_t kFillsMax = 16;

// Returns the rows of the attribute with one of these values. They may include rows that the
// caller's epoch does not show.
absl::StatusOr<OrdinalSet> RowsWith(const std::string& attribute, ValueColumn values,
                                    const AttributeSchema& schema,
                                    const AttributeSnapshot& columns) {
  const Filter filter(Leaf({.kind = ConditionKind::kIn,
                            .children = {},
                            .attribute = attribute,
                            .values = std::move(values)}),
                      schema);
  return Evaluate(filter, columns, {});
}

// Returns the rows of `bits` that are in `rows`.
RowFilter Common(const RowFilter& bits, const OrdinalSet& rows) {
  RowFilter common;
  if (rows.empty()) return common;
  common.chosen.resize(std::min<size_t>(bits.chosen.size(), rows.last() / 64 + 1));
  rows.CopyWords(0, absl::MakeSpan(common.chosen));
  for (size_t i = 0; i < common.chosen.size(); ++i) common.chosen[i] &= bits.chosen[i];
  return common;
}

// Returns the rows of `bits` that are not in `rows`.
RowFilter Without(const RowFilter& bits, const OrdinalSet& rows) {
  RowFilter rest;
  rest.chosen.resize(bits.chosen.size());
  rows.CopyWords(0, absl::MakeSpan(rest.chosen));
  for (size_t i = 0; i < rest.chosen.size(); ++i) rest.chosen[i] = bits.chosen[i] & ~rest.chosen[i];
  return rest;
}

void AddCost(const SearchReply& round, SearchReply* sum) {
  sum->timing.queue_us += round.timing.queue_us;
  sum->timing.batch_size = std::max(sum->timing.batch_size, round.timing.batch_size);
  SearchCost cost = round.result.cost;
  const SearchCost& before = sum->result.cost;
  cost.device_us += before.device_us;
  cost.total_us += before.total_us;
  cost.candidates += before.candidates;
  cost.bytes_read += before.bytes_read;
  cost.escalations.tighter += before.escalations.tighter;
  cost.escalations.canonical += before.escalations.canonical;
  sum->result.cost = cost;
}

// One call. Its steps run one after the other, each on the thread that answers the search before
// it.
class Run : public std::enable_shared_from_this<Run> {
 public:
  using Done = std::function<void(absl::StatusOr<GroupedReply>)>;

  Run(GroupSearch search, Done done)
      : task_(std::move(search)),
        done_(std::move(done)),
        schema_(task_.named->attributes->SchemaAt(task_.search.at->epoch())),
        columns_(task_.named->attributes->ColumnsOf(*task_.search.at)),
        attribute_(schema_->Find(task_.grouping.attribute)) {
    CHECK(attribute_.has_value());
    int64_t groups_max = 0;
    for (const Query& query : task_.search.queries) {
      const FoundGroups::Wanted wanted = {.skip = query.skip,
                                          .k = query.k,
                                          .rows_max = task_.grouping.rows_max,
                                          .tell_more = query.tell_more};
      queries_.push_back({.filter = query.filter,
                          .found = FoundGroups(schema_->at(*attribute_).type,
                                               task_.search.collection->spec().id_type, wanted)});
      groups_max = std::max(groups_max, wanted.groups_max());
    }
    scan_rows_ = std::clamp(kRowsAhead * groups_max * task_.grouping.rows_max,
                            std::min(kFirstRowsMin, task_.limits.k_max), task_.limits.k_max);
    answer_.reply.result.epoch = task_.search.at->epoch();
    answer_.reply.at = task_.search.at;
    held_before_ = task_.hold->bytes();
  }

  // Scans for the groups that are not found yet, or continues if there are none.
  void Find() {
    std::vector<size_t> places;
    SearchRequest scan = Round();
    scan.few_rows = task_.search.few_rows;
    for (size_t i = 0; i < queries_.size(); ++i) {
      if (queries_[i].found.complete()) continue;
      places.push_back(i);
      AddQuery(i, queries_[i].filter, scan_rows_, &scan);
    }
    if (places.empty()) return BeginFill();
    const absl::Status reserved = Reserve(ReplyBytesExpected(scan, task_.limits));
    if (!reserved.ok()) return done_(reserved);
    Start(
        std::move(scan),
        [places](Run* run, const SearchReply& reply) { return run->OnFound(places, reply); },
        &Run::Find);
  }

 private:
  struct GroupedQuery {
    std::shared_ptr<const RowFilter> filter;  // the rows of the groups that are not found yet
    FoundGroups found;
    int64_t matched_rows = 0;
    bool shrunk = false;  // `filter` is not that of the request
  };
  struct GroupPlace {
    size_t query = 0;
    int64_t group = 0;
  };
  // Groups of a query whose rows one search brings.
  struct Fills {
    size_t query = 0;
    std::vector<int64_t> groups;
    OrdinalSet rows;
  };
  using Take = std::function<absl::Status(Run*, const SearchReply&)>;

  SearchRequest Round() const {
    SearchRequest round;
    round.collection = task_.search.collection;
    round.at = task_.search.at;
    round.parts = {.ordinals = true};
    return round;
  }

  // Adds a query of the request, for the best `k` rows of `filter`. Its vector stays in the values
  // of the request, which this object holds.
  void AddQuery(size_t place, std::shared_ptr<const RowFilter> filter, int64_t k,
                SearchRequest* round) const {
    Query query = task_.search.queries[place];
    query.k = static_cast<int32_t>(k);
    query.skip = 0;
    query.tell_more = false;
    query.filter = std::move(filter);
    round->queries.push_back(std::move(query));
  }

  // Returns the attribute's values of rows.
  absl::StatusOr<ValueColumn> Values(absl::Span<const uint32_t> ordinals) const {
    ABSL_ASSIGN_OR_RETURN(const RowReader reader, RowReader::Find(columns_, ordinals));
    return std::move(reader.Read(*attribute_, reader.rows_count()).values);
  }

  // Searches, passes the answer to `take`, and then runs the next step.
  void Start(SearchRequest round, Take take, void (Run::*next)()) {
    task_.rounds.Start(std::move(round), [self = shared_from_this(), take = std::move(take),
                                          next](absl::StatusOr<SearchReply> reply) {
      if (!reply.ok()) return self->done_(reply.status());
      AddCost(*reply, &self->answer_.reply);
      const absl::Status taken = CatchOutOfMemory([&] { return take(self.get(), *reply); });
      if (!taken.ok()) return self->done_(taken);
      (self.get()->*next)();
    });
  }

  // Reserves `bytes` in addition to what the groups take.
  absl::Status Reserve(int64_t bytes) {
    bytes += held_before_;
    for (const GroupedQuery& query : queries_) {
      bytes += query.found.bytes();
      if (query.shrunk) bytes += FilterBytes();
    }
    return task_.hold->Grow(std::max(bytes, task_.hold->bytes()));
  }
  int64_t FilterBytes() const {
    return static_cast<int64_t>(task_.search.queries.front().filter->chosen.size() *
                                sizeof(uint64_t));
  }

  absl::Status OnFound(const std::vector<size_t>& places, const SearchReply& reply) {
    for (size_t i = 0; i < places.size(); ++i) {
      const Neighbors& rows = reply.result.queries[i];
      GroupedQuery& query = queries_[places[i]];
      if (!query.shrunk) query.matched_rows = rows.matched_rows;
      const auto values_of = [&](int64_t begin, int64_t end) {
        return Values(absl::MakeConstSpan(rows.ordinals)
                          .subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
      };
      ABSL_ASSIGN_OR_RETURN(ValueColumn found,
                            query.found.Add(rows, values_of, rows.ids.size() < scan_rows_));
      if (!query.found.complete()) ABSL_RETURN_IF_ERROR(LeaveOut(std::move(found), &query));
    }
    scan_rows_ = std::min(task_.limits.k_max, kRowsGrowth * scan_rows_);
    return Reserve(0);
  }

  // Leaves the rows with these values out of the next scan.
  absl::Status LeaveOut(ValueColumn values, GroupedQuery* query) {
    query->shrunk = true;
    ABSL_RETURN_IF_ERROR(Reserve(FilterBytes()));
    ABSL_ASSIGN_OR_RETURN(const OrdinalSet rows, RowsWith(task_.grouping.attribute,
                                                          std::move(values), *schema_, *columns_));
    query->filter = std::make_shared<RowFilter>(Without(*query->filter, rows));
    return absl::OkStatus();
  }

  void BeginFill() {
    for (size_t query = 0; query < queries_.size(); ++query) {
      for (const int64_t group : queries_[query].found.Unfilled()) {
        unfilled_.push_back({.query = query, .group = group});
      }
      queries_[query].filter = nullptr;
      queries_[query].shrunk = false;
    }
    Fill();
  }

  // Fills some of the groups that are left, or ends the call if there are none.
  void Fill() {
    if (filled_ == unfilled_.size()) return Finish();
    absl::StatusOr<SearchRequest> round = CatchOutOfMemory([&] { return RoundToFill(); });
    if (!round.ok()) return done_(round.status());
    Start(
        *std::move(round), [](Run* run, const SearchReply& reply) { return run->OnFilled(reply); },
        &Run::Fill);
  }

  // Returns the groups to fill next. Groups of few rows share a search, which brings all of these
  // rows.
  absl::StatusOr<std::vector<Fills>> NextFills() {
    std::vector<Fills> fills;
    std::vector<Fills> joint(queries_.size());  // of each query
    size_t joint_count = 0;
    const auto fills_max = static_cast<size_t>(std::min(kFillsMax, task_.limits.queries_max));
    for (; filled_ < unfilled_.size() && fills.size() + joint_count < fills_max; ++filled_) {
      const auto& [query, group] = unfilled_[filled_];
      ValueColumn value(schema_->at(*attribute_).type);
      value.AppendFrom(queries_[query].found.values(), group);
      ABSL_ASSIGN_OR_RETURN(OrdinalSet rows, RowsWith(task_.grouping.attribute, std::move(value),
                                                      *schema_, *columns_));
      Fills& shared = joint[query];
      if (shared.rows.size() + rows.size() > task_.limits.k_max) {
        fills.push_back({query, {group}, std::move(rows)});
        continue;
      }
      if (shared.groups.empty()) ++joint_count;
      shared.query = query;
      shared.groups.push_back(group);
      shared.rows.UniteWith(rows);
    }
    for (Fills& shared : joint) {
      if (!shared.groups.empty()) fills.push_back(std::move(shared));
    }
    return fills;
  }

  absl::StatusOr<SearchRequest> RoundToFill() {
    ABSL_ASSIGN_OR_RETURN(filling_, NextFills());
    const auto filters = static_cast<int64_t>(filling_.size());
    ABSL_RETURN_IF_ERROR(Reserve(filters * FilterBytes()));
    SearchRequest round = Round();
    int64_t rows_count = 0;
    for (auto& [query, groups, rows] : filling_) {
      rows_count += rows.size();
      auto filter = std::make_shared<RowFilter>(Common(*task_.search.queries[query].filter, rows));
      const int64_t k = groups.size() == 1 ? task_.grouping.rows_max : rows.size();
      AddQuery(query, std::move(filter), k, &round);
      rows = OrdinalSet();
    }
    round.few_rows = IsFewRows({.at = round.at, .rows = nullptr, .rows_count_max = rows_count});
    ABSL_RETURN_IF_ERROR(
        Reserve(filters * FilterBytes() + ReplyBytesExpected(round, task_.limits)));
    return round;
  }

  absl::Status OnFilled(const SearchReply& reply) {
    for (size_t i = 0; i < filling_.size(); ++i) {
      const Neighbors& rows = reply.result.queries[i];
      ABSL_ASSIGN_OR_RETURN(const ValueColumn values, Values(rows.ordinals));
      queries_[filling_[i].query].found.Fill(filling_[i].groups, rows, values);
    }
    return absl::OkStatus();
  }

  void Finish() {
    const absl::Status status = CatchOutOfMemory([&] { return TakeAnswer(); });
    if (!status.ok()) return done_(status);
    done_(std::move(answer_));
  }

  absl::Status TakeAnswer() {
    const RowParts& parts = task_.search.parts;
    int64_t bytes_left = parts.bytes_max;
    for (GroupedQuery& query : queries_) {
      Neighbors neighbors;
      neighbors.matched_rows = query.matched_rows;
      answer_.groups.push_back(query.found.Take(&neighbors));
      if (parts.vectors || parts.payloads) {
        ABSL_RETURN_IF_ERROR(ReadParts(bytes_left, &neighbors));
        bytes_left -=
            static_cast<int64_t>(neighbors.rows.size()) + neighbors.payloads.value_bytes();
        bytes_left = std::max<int64_t>(bytes_left, 1);  // 0 means no limit
      }
      answer_.reply.result.queries.push_back(std::move(neighbors));
    }
    return absl::OkStatus();
  }

  absl::Status ReadParts(int64_t bytes_max, Neighbors* neighbors) {
    RowParts parts = task_.search.parts;
    parts.ordinals = false;
    parts.bytes_max = bytes_max;
    ABSL_ASSIGN_OR_RETURN(FetchResult found, task_.search.collection->Fetch(task_.search.at.get(),
                                                                            neighbors->ids, parts));
    neighbors->rows = std::move(found.rows);
    neighbors->payloads = std::move(found.payloads);
    return absl::OkStatus();
  }

  const GroupSearch task_;
  const Done done_;
  const std::shared_ptr<const AttributeSchema> schema_;  // at the epoch of the search
  const std::shared_ptr<const AttributeSnapshot> columns_;
  const std::optional<int32_t> attribute_;
  std::vector<GroupedQuery> queries_;
  int64_t scan_rows_ = 0;    // of the next scan
  int64_t held_before_ = 0;  // bytes of task_.hold that this object does not manage
  std::vector<GroupPlace> unfilled_;
  size_t filled_ = 0;  // leading entries of unfilled_ that are filled, or in filling_
  std::vector<Fills> filling_;
  GroupedReply answer_;
};

}  // namespace

void StartGroupSearch(GroupSearch search, std::function<void(absl::StatusOr<GroupedReply>)> done) {
  std::make_shared<Run>(std::move(search), std::move(done))->Find();
}

}  // namespace nearfield::server
