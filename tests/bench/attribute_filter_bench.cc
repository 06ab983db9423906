// Measures filters over the attributes of many rows, on one core: the time for each kind of
// condition, the time to read the attributes of rows, the time to build and merge the indexes, and
// the memory that these take. Compares each answer with the slow filter or with the uploaded rows,
// on a sample of blocks, before it times it.
//   attribute_filter_bench [--tiny] [--rows=N] [--case=PART]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/attributes/chunk.h"
#include "server/attributes/columns.h"
#include "server/attributes/evaluate.h"
#include "server/attributes/filter_cache.h"
#include "server/attributes/row_encoding.h"
#include "server/attributes/row_reader.h"
#include "tests/bench/fail.h"
#include "tests/bench/options.h"
#include "tests/bench/timing.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/testing/random.h"

namespace nearfield::bench {
namespace {

using server::AttributeType;
using server::Comparison;
using server::ConditionKind;
using server::FilterTree;

std::vector<server::AttributeSpec> Specs() {
  return {{.name = "year"},
          {.name = "price", .type = AttributeType::kDouble},
          {.name = "updated", .type = AttributeType::kTimestamp},
          {.name = "in_stock", .type = AttributeType::kBool},
          {.name = "language", .type = AttributeType::kKeyword},
          {.name = "user", .type = AttributeType::kKeyword},
          {.name = "tags", .type = AttributeType::kKeyword, .is_list = true}};
}

std::string Language(int64_t number) { return absl::StrCat("lang-", number); }
std::string User(int64_t number) { return absl::StrCat("user-", number); }
std::string Tag(int64_t number) { return absl::StrCat("tag-", number); }

// Draws one row: one of 60 years; a price, almost always unique; an ascending time, as rows arrive;
// one of 32 languages, one of which half the rows have; one user per ten rows; up to five of 1000
// tags, low ones more often. One row in ten has no price.
server::PlainRow DrawRow(testing::Random& random, int64_t row, int64_t rows_count) {
  using Values = std::vector<server::PlainValue>;
  server::PlainRow drawn;
  drawn.attributes = {Values{random.Between(1966, 2026)},
                      Values{1000 * random.Unit()},
                      Values{row * 1000 + random.Between(0, 1000)},
                      Values{random.OneIn(2)},
                      Values{Language(random.OneIn(2) ? 0 : random.Between(0, 32))},
                      Values{User(random.Between(0, rows_count / 10 + 1))},
                      Values{}};
  if (random.OneIn(10)) drawn.attributes[1] = std::nullopt;
  for (int64_t tags = random.Between(0, 6); tags > 0; --tags)
    drawn.attributes[6]->emplace_back(Tag(random.Between(0, random.Between(1, 1000))));
  return drawn;
}

struct Case {
  std::string name;
  FilterTree filter;
  std::vector<uint32_t> expected;  // among the rows that are checked
};

FilterTree Greater(const std::string& attribute, server::ValueColumn value) {
  return server::Compare(attribute, Comparison::kGreater, std::move(value));
}
FilterTree Equal(const std::string& attribute, server::ValueColumn value) {
  return server::Compare(attribute, Comparison::kEqual, std::move(value));
}

// Returns a filter with the maximum number of conditions, each over values that are all different.
FilterTree ManyRanges() {
  std::vector<FilterTree> ranges;
  for (int i = 0; i < 255; ++i)
    ranges.push_back(Greater("price", server::Doubles({900 + i * 0.1})));
  return server::Or(std::move(ranges));
}

std::vector<Case> Cases(int64_t rows_count) {
  testing::Random random(2);
  server::ValueColumn prices(AttributeType::kDouble);
  server::ValueColumn users(AttributeType::kKeyword);
  for (int i = 0; i < 4096; ++i) {
    prices.AppendDouble(1000 * random.Unit());
    users.AppendKeyword(User(random.Between(0, rows_count / 10 + 1)));
  }
  std::vector<std::string> languages;
  for (int i = 0; i < 20; ++i) languages.push_back(Language(i));
  const int64_t middle = rows_count * 500;
  using server::Doubles;
  using server::Integers;
  using server::Keywords;
  return {
      {"keyword == (1/2 of the rows)", Equal("language", Keywords({Language(0)}))},
      {"keyword == (1/64)", Equal("language", Keywords({Language(5)}))},
      {"keyword == (10 rows)", Equal("user", Keywords({User(5)}))},
      {"keyword != (1/2)",
       server::Compare("language", Comparison::kNotEqual, Keywords({Language(0)}))},
      {"keyword < (1/2)", server::Compare("user", Comparison::kLess, Keywords({"user-5"}))},
      {"keyword in 20", server::OfValues(ConditionKind::kIn, "language", Keywords(languages))},
      {"keyword in 4096", server::OfValues(ConditionKind::kIn, "user", users)},
      {"bool ==", Equal("in_stock", server::Bools({true}))},
      {"int64 == (1/60)", Equal("year", Integers({2000}))},
      {"int64 > (1/2)", Greater("year", Integers({1995}))},
      {"double > (0.1%)", Greater("price", Doubles({999}))},
      {"double > (10%)", Greater("price", Doubles({900}))},
      {"double > (15%)", Greater("price", Doubles({850}))},
      {"double > (50%)", Greater("price", Doubles({500}))},
      {"double > (99%)", Greater("price", Doubles({10}))},
      {"double != ", server::Compare("price", Comparison::kNotEqual, Doubles({10}))},
      {"double in 4096 (none there)", server::OfValues(ConditionKind::kIn, "price", prices)},
      {"timestamp > (50%)", Greater("updated", Integers({middle}, AttributeType::kTimestamp))},
      {"list_any 1", server::OfValues(ConditionKind::kListAny, "tags", Keywords({Tag(3)}))},
      {"list_any 3",
       server::OfValues(ConditionKind::kListAny, "tags", Keywords({Tag(0), Tag(9), Tag(300)}))},
      {"list_all 2", server::OfValues(ConditionKind::kListAll, "tags", Keywords({Tag(0), Tag(1)}))},
      {"exists (90%)", server::Exists("price")},
      {"not of keyword ==", server::Not(Equal("language", Keywords({Language(0)})))},
      {"and of 3",
       server::And({Equal("language", Keywords({Language(0)})), Greater("price", Doubles({500})),
                    Equal("in_stock", server::Bools({true}))})},
      {"or of 3",
       server::Or({Equal("language", Keywords({Language(5)})), Greater("price", Doubles({900})),
                   Greater("year", Integers({2020}))})},
      {"or of 255 ranges", ManyRanges()},
  };
}

struct Options {
  int64_t rows_count = 1'000'000;
  Repeats repeats;
  std::string case_part;
};

constexpr int64_t kBlockRows = 10'000;

class Corpus {
 public:
  explicit Corpus(const Options& options)
      : options_(options),
        schema_(OrFail(server::AttributeSchema::Create(Specs(), {}))),
        cases_(Cases(options.rows_count)) {}

  // Uploads all rows at once and records the expected matches in the blocks that are checked.
  void Build() {
    testing::Random random(1);
    server::AttributeChunkBuilder builder(std::make_shared<const server::AttributeSchema>(schema_));
    double append_s = 0;
    double encode_s = 0;
    int64_t encoded_bytes = 0;
    for (int64_t begin = 0; begin < options_.rows_count; begin += kBlockRows) {
      std::vector<server::PlainRow> rows;
      const int64_t end = std::min(begin + kBlockRows, options_.rows_count);
      for (int64_t row = begin; row < end; ++row)
        rows.push_back(DrawRow(random, row, options_.rows_count));
      if (IsChecked(begin)) Expect(rows, begin);
      const server::AttributeBlock block = server::BlockOf(schema_, rows);
      if (IsChecked(begin)) checked_.emplace_back(begin, Encoded(block));
      auto start = std::chrono::steady_clock::now();
      if (!builder.Append(block).ok()) Fail("append");
      append_s += SecondsSince(start);
      start = std::chrono::steady_clock::now();
      encoded_bytes += OrFail(server::EncodeRowAttributes(schema_, block, {})).value_bytes();
      encode_s += SecondsSince(start);
    }
    const int64_t raw_bytes = builder.bytes();
    const auto start = std::chrono::steady_clock::now();
    if (!columns_.Add(OrFail(builder.Build(0))).ok()) Fail("add");
    const auto rows = static_cast<double>(options_.rows_count);
    std::printf("%lld rows, %d attributes: append %.0f ms, build %.0f ms, encode %.0f ms\n",
                static_cast<long long>(options_.rows_count), schema_.size(), 1e3 * append_s,
                1e3 * SecondsSince(start), 1e3 * encode_s);
    std::printf("bytes a row: %.1f gathered, %.1f indexed, %.1f encoded\n",
                static_cast<double>(raw_bytes) / rows, static_cast<double>(columns_.bytes()) / rows,
                static_cast<double>(encoded_bytes) / rows);
    const auto snapshot = columns_.Snapshot();
    for (int32_t i = 0; i < schema_.size(); ++i) {
      int64_t bytes = 0;
      for (const auto& chunk : snapshot->chunks) bytes += chunk->index(i).bytes();
      std::printf("  %-10s %6.1f bytes a row\n", schema_.at(i).name.c_str(),
                  static_cast<double>(bytes) / rows);
    }
  }

  void RunCases() {
    std::printf("%-30s %12s %10s %10s\n", "condition", "rows", "us", "p99 us");
    for (const Case& each : cases_) {
      if (!absl::StrContains(each.name, options_.case_part)) continue;
      const server::Filter filter(each.filter, schema_);
      const auto snapshot = columns_.Snapshot();
      const server::OrdinalSet rows = OrFail(server::Evaluate(filter, *snapshot, {}));
      Check(each, rows);
      const Timing timing = MedianOf(options_.repeats, [&](int) {
        if (OrFail(server::Evaluate(filter, *snapshot, {})).size() != rows.size()) Fail(each.name);
      });
      Print(each.name, rows.size(), timing);
    }
  }

  // Times the reading of all attributes of a few rows, and of many.
  void RunReading() {
    CheckValues(columns_);
    const auto snapshot = columns_.Snapshot();
    testing::Random random(4);
    for (const int64_t count : {10, 1000}) {
      std::vector<uint32_t> ordinals;
      for (int64_t i = 0; i < count; ++i) {
        ordinals.push_back(static_cast<uint32_t>(random.Between(0, options_.rows_count)));
      }
      int64_t values = 0;
      const Timing timing = MedianOf(options_.repeats, [&](int) {
        const server::RowReader rows = OrFail(server::RowReader::Find(snapshot, ordinals));
        values = 0;
        for (int32_t attribute = 0; attribute < schema_.size(); ++attribute) {
          values += rows.Read(attribute, count).values.size();
        }
      });
      if (values < count) Fail("read");
      Print(absl::StrCat("all attributes of ", count), count, timing);
    }
  }

  // Times the alternative for a range: reading a whole column in row order.
  void RunScan() {
    testing::Random random(3);
    std::vector<double> prices(static_cast<size_t>(options_.rows_count));
    for (double& price : prices) price = 1000 * random.Unit();
    std::vector<uint64_t> words(prices.size() / 64 + 1);
    int64_t found = 0;
    const Timing timing = MedianOf(options_.repeats, [&](int) {
      for (size_t word = 0; word < words.size(); ++word) {
        uint64_t bits = 0;
        const size_t end = std::min(prices.size(), 64 * word + 64);
        for (size_t i = 64 * word; i < end; ++i) bits |= uint64_t{prices[i] > 500} << (i % 64);
        words[word] = bits;
      }
      found = server::OrdinalSet::FromWords(0, words).size();
    });
    Print("peer: scan of a double column", found, timing);
  }

  // Times the steps that serving adds: a cached answer, and its bits for the engine.
  void RunServing() {
    const server::Filter filter(cases_[0].filter, schema_);
    const auto snapshot = columns_.Snapshot();
    server::FilterCache cache(64 << 20);
    const auto rows = OrFail(cache.Evaluate(filter, *snapshot, {}, 0));
    const server::OrdinalSet passing = OrFail(server::Evaluate(filter, *snapshot, {}));
    Print("cached", passing.size(), MedianOf(options_.repeats, [&](int) {
            if (OrFail(cache.Evaluate(filter, *snapshot, {}, 0)) != rows) Fail("cache");
          }));
    std::vector<uint64_t> words(static_cast<size_t>(options_.rows_count / 64 + 1));
    Print("as bits", passing.size(),
          MedianOf(options_.repeats, [&](int) { passing.CopyWords(0, absl::MakeSpan(words)); }));
  }

  // Uploads the same rows one block at a time: measures the total and the maximum time of merges.
  void RunMerges() {
    testing::Random random(1);
    server::AttributeColumns columns(schema_);
    double steps_s = 0;
    double step_s_max = 0;
    for (int64_t begin = 0; begin < options_.rows_count; begin += kBlockRows) {
      std::vector<server::PlainRow> rows;
      for (int64_t row = begin; row < std::min(begin + kBlockRows, options_.rows_count); ++row)
        rows.push_back(DrawRow(random, row, options_.rows_count));
      server::AttributeChunkBuilder builder(
          std::make_shared<const server::AttributeSchema>(schema_));
      if (!builder.Append(server::BlockOf(schema_, rows)).ok()) Fail("append");
      if (!columns.Add(OrFail(builder.Build(static_cast<uint32_t>(begin)))).ok()) Fail("add");
      for (bool more = true; more;) {
        const auto start = std::chrono::steady_clock::now();
        more = columns.MergeStep();
        steps_s += SecondsSince(start);
        step_s_max = std::max(step_s_max, SecondsSince(start));
      }
    }
    std::printf("uploads of %lld rows: merged to %d chunks in %.0f ms, the longest step %.0f ms\n",
                static_cast<long long>(kBlockRows),
                static_cast<int>(columns.Snapshot()->chunks.size()), 1e3 * steps_s,
                1e3 * step_s_max);
    for (const Case& each : cases_) {
      const server::Filter filter(each.filter, schema_);
      Check(each, OrFail(server::Evaluate(filter, *columns.Snapshot(), {})));
    }
    CheckValues(columns);
  }

 private:
  server::AttributeBlock ReadBlock(const server::AttributeColumns& columns, int64_t begin,
                                   int64_t count) const {
    std::vector<uint32_t> ordinals;
    for (int64_t row = begin; row < begin + count; ++row)
      ordinals.push_back(static_cast<uint32_t>(row));
    return server::ReadAll(OrFail(server::RowReader::Find(columns.Snapshot(), ordinals)));
  }
  BytesColumn Encoded(const server::AttributeBlock& block) const {
    return OrFail(server::EncodeRowAttributes(schema_, block, {}));
  }
  // Fails unless the rows of the checked blocks are those that were uploaded.
  void CheckValues(const server::AttributeColumns& columns) const {
    for (const auto& [begin, uploaded] : checked_) {
      const BytesColumn read = Encoded(ReadBlock(columns, begin, uploaded.size()));
      for (int64_t row = 0; row < uploaded.size(); ++row) {
        if (read.at(row) != uploaded.at(row)) Fail("a row is not the one that was uploaded");
      }
    }
  }

  static void Print(const std::string& name, int64_t rows, const Timing& timing) {
    std::printf("%-30s %12lld %10.1f %10.1f\n", name.c_str(), static_cast<long long>(rows),
                timing.median_us, timing.p99_us);
  }
  static bool IsChecked(int64_t begin) { return begin / kBlockRows % 25 == 0; }

  void Expect(const std::vector<server::PlainRow>& rows, int64_t begin) {
    for (Case& each : cases_) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto ordinal = static_cast<uint32_t>(begin) + static_cast<uint32_t>(i);
        if (server::Passes(each.filter, Specs(), rows[i], ordinal))
          each.expected.push_back(ordinal);
      }
    }
  }

  static void Check(const Case& each, const server::OrdinalSet& rows) {
    std::vector<uint32_t> checked;
    for (const uint32_t ordinal : rows.ToVector()) {
      if (IsChecked(ordinal)) checked.push_back(ordinal);
    }
    if (checked != each.expected) Fail(absl::StrCat(each.name, ": not the rows that pass"));
  }

  const Options options_;
  const server::AttributeSchema schema_;
  std::vector<Case> cases_;
  std::vector<std::pair<int64_t, BytesColumn>> checked_;  // first row and encoded rows of blocks
  server::AttributeColumns columns_{schema_};
};

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("attribute_filter_bench: filters over the attributes of many rows");
  nearfield::bench::Options options;
  nearfield::bench::AddTiny(app, [&] {
    options.rows_count = 20'000;
    options.repeats = {.warmups = 1, .runs = 3};
  });
  nearfield::bench::AddPositive(app, "--rows", options.rows_count);
  app.add_option("--case", options.case_part, "only cases whose name contains this");
  CLI11_PARSE(app, argc, argv);
  nearfield::bench::Corpus corpus(options);
  corpus.Build();
  corpus.RunCases();
  corpus.RunReading();
  corpus.RunScan();
  corpus.RunServing();
  corpus.RunMerges();
  return 0;
}
