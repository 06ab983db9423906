// Tests of a collection's columns: versions, merged and dropped chunks, concurrent use.
#include "server/attributes/columns.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/attributes/row_reader.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using testing::Random;

const std::vector<AttributeSpec>& Specs() {
  static const auto* const specs = new std::vector<AttributeSpec>{
      {.name = "x"}, {.name = "ks", .type = AttributeType::kKeyword, .is_list = true}};
  return *specs;
}

// Returns the chunks of `rows`; the first row has the ordinal `first`.
std::vector<std::shared_ptr<const AttributeChunk>> ChunksOf(const AttributeSchema& schema,
                                                            absl::Span<const PlainRow> rows,
                                                            uint32_t first) {
  AttributeChunkBuilder builder(std::make_shared<const AttributeSchema>(schema));
  EXPECT_OK(builder.Append(BlockOf(schema, rows)));
  EXPECT_EQ(builder.rows_count(), static_cast<int64_t>(rows.size()));
  auto chunks = builder.Build(first);
  EXPECT_OK(chunks);
  EXPECT_EQ(builder.rows_count(), 0);
  return *std::move(chunks);
}

// Returns rows whose x is their index.
std::vector<PlainRow> Numbered(int64_t rows_count) {
  std::vector<PlainRow> rows;
  for (int64_t i = 0; i < rows_count; ++i)
    rows.push_back({.attributes = {std::vector<PlainValue>{i}, std::vector<PlainValue>{}}});
  return rows;
}

std::vector<uint32_t> Evaluated(const FilterTree& tree, const AttributeColumns& columns) {
  return Evaluate(Filter(tree, *columns.Snapshot()->schema), *columns.Snapshot(),
                  IdsAreOrdinals(1 << 20))
      ->ToVector();
}

// Returns the ordinals that are in a chunk.
OrdinalSet InChunks(const AttributeColumns& columns) {
  OrdinalSet rows;
  for (const auto& chunk : columns.Snapshot()->chunks) rows.UniteWith(chunk->rows());
  return rows;
}

// Checks that a reader finds the row of each ordinal.
void ExpectFound(const AttributeColumns& columns, const std::vector<bool>& is_live) {
  std::vector<uint32_t> live;
  for (size_t row = 0; row < is_live.size(); ++row) {
    if (is_live[row]) live.push_back(static_cast<uint32_t>(row));
  }
  ASSERT_OK(RowReader::Find(columns.Snapshot(), live));
}

// Random uploads in random order, with gaps between the ordinals of some, and with some rows
// dropped.
TEST(AttributeColumnsLaws, MergingAndDroppingChangeNoLiveRow) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 40; ++round) {
    const std::vector<PlainRow> rows = RandomRows(random, Specs(), random.Between(1, 500));
    AttributeColumns columns(*AttributeSchema::Create(Specs(), {}));
    std::vector<std::pair<size_t, size_t>> uploads;
    for (size_t begin = 0; begin < rows.size();) {
      const auto size = static_cast<size_t>(random.Between(1, random.OneIn(3) ? 200 : 5));
      const size_t end = std::min(rows.size(), begin + size);
      if (!random.OneIn(10)) uploads.emplace_back(begin, end);
      begin = end;
    }
    if (random.OneIn(2)) random.Shuffle(uploads);
    std::vector<bool> is_live(rows.size(), false);
    OrdinalSet dropped;
    OrdinalSet freed;
    // A dropped row stays in a chunk, or TakeFreed returns its ordinal once.
    const auto expect_freed_once = [&] {
      const OrdinalSet taken = columns.TakeFreed();
      EXPECT_EQ(taken.IntersectionSize(freed), 0);
      freed.UniteWith(taken);
      EXPECT_EQ(freed, OrdinalSet::Difference(dropped, InChunks(columns)));
    };
    for (const auto& [begin, end] : uploads) {
      ASSERT_OK(columns.Add(ChunksOf(*columns.Snapshot()->schema,
                                     absl::MakeConstSpan(rows).subspan(begin, end - begin),
                                     static_cast<uint32_t>(begin))));
      for (size_t row = begin; row < end; ++row) is_live[row] = true;
      if (random.OneIn(2)) columns.MergeSmall();
      OrdinalSet dead;
      for (size_t row = 0; row < rows.size(); ++row) {
        if (is_live[row] && random.OneIn(random.OneIn(5) ? 2 : 40))
          dead.Add(static_cast<uint32_t>(row));
      }
      if (!random.OneIn(3)) continue;
      columns.Drop(dead);
      dropped.UniteWith(dead);
      for (const uint32_t row : dead.ToVector()) is_live[row] = false;
      if (random.OneIn(2)) columns.MergeStep();
      ExpectFound(columns, is_live);
      if (random.OneIn(2)) expect_freed_once();
    }
    const auto expect_right = [&] {
      for (int i = 0; i < 5; ++i) {
        const FilterTree filter = RandomFilter(random, Specs(), 4, rows.size());
        std::vector<uint32_t> passing;
        for (const uint32_t row : Evaluated(filter, columns)) {
          if (is_live[row]) passing.push_back(row);
        }
        std::vector<uint32_t> expected = PassingRows(filter, Specs(), rows);
        expected.erase(std::remove_if(expected.begin(), expected.end(),
                                      [&](uint32_t row) { return !is_live[row]; }),
                       expected.end());
        ASSERT_EQ(passing, expected);
      }
      ExpectFound(columns, is_live);
    };
    expect_right();
    const uint64_t version = columns.Snapshot()->version;
    while (columns.MergeStep()) {
    }
    EXPECT_EQ(columns.Snapshot()->version, version);
    expect_right();
    expect_freed_once();
  }
}

TEST(AttributeColumnsTest, ManySmallUploadsBecomeFewChunks) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  const std::vector<PlainRow> rows = Numbered(20'000);
  for (uint32_t row = 0; row < rows.size(); row += 10) {
    ASSERT_OK(columns.Add(ChunksOf(schema, absl::MakeConstSpan(rows).subspan(row, 10), row)));
    columns.MergeSmall();
    // MergeSmall leaves at most as many chunks as a binary counter of up to kInlineRowsMax rows.
    ASSERT_LE(columns.Snapshot()->chunks.size(), 20'000u / 8192 * 2 + 14);
  }
  while (columns.MergeStep()) {
  }
  const auto snapshot = columns.Snapshot();
  // Each chunk is more than twice as large as all after it.
  EXPECT_LE(snapshot->chunks.size(), 11u);
  int64_t rows_count = 0;
  for (const auto& chunk : snapshot->chunks) rows_count += chunk->rows_count();
  EXPECT_EQ(rows_count, 20'000);
  const std::vector<uint32_t> found =
      Evaluated(Compare("x", Comparison::kGreaterEqual, Integers({19'998})), columns);
  EXPECT_THAT(found, ElementsAre(19'998, 19'999));
}

// Concurrent uploads may finish out of order. The rows of one then lie between rows that are merged
// already.
TEST(AttributeColumnsTest, RowsThatComeBetweenMergedOnesAreMergedInTheirPlace) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  constexpr uint32_t kRows = 20'000;
  std::vector<PlainRow> rows(3 * kRows);
  for (size_t row = 0; row < rows.size(); ++row) {
    // Half of the rows have the value 25.
    const auto value = static_cast<int64_t>(row % 2 == 0 ? 25 : row % 50);
    rows[row].attributes = {std::vector<PlainValue>{value}, std::nullopt};
  }
  for (const uint32_t first : {0u, 2 * kRows, kRows}) {
    ASSERT_OK(
        columns.Add(ChunksOf(schema, absl::MakeConstSpan(rows).subspan(first, kRows), first)));
    while (columns.MergeStep()) {
    }
    ASSERT_EQ(columns.Snapshot()->chunks.size(), 1u);
  }
  for (const int64_t value : {1, 24, 25, 26, 49}) {
    const FilterTree filter = Compare("x", Comparison::kEqual, Integers({value}));
    EXPECT_EQ(Evaluated(filter, columns), PassingRows(filter, Specs(), rows));
  }
}

// Rows with reused ordinals come before and between other rows. Each of them made a new copy of the
// large chunk after it.
TEST(AttributeColumnsTest, SmallUploadsBeforeALargeChunkDoNotCopyIt) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  constexpr uint32_t kFirst = 10'000;
  ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(8000), kFirst)));
  const auto large = columns.Snapshot()->chunks.front();
  for (uint32_t upload = 1; upload <= 1000; ++upload) {
    ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(1), kFirst - upload)));
    columns.MergeSmall();
    while (columns.MergeStep()) {
    }
    ASSERT_EQ(columns.Snapshot()->chunks.back(), large);
    ASSERT_LE(columns.Snapshot()->chunks.size(), 12u);
  }
  ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(3000), 0)));
  while (columns.MergeStep()) {
  }
  EXPECT_EQ(columns.Snapshot()->chunks.size(), 1u) << "together they are half as large";
}

// An upload that failed before its rows were added has taken ordinals, too.
TEST(AttributeColumnsTest, AnUploadThatIsGivenUpFreesItsOrdinals) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  columns.Release(OrdinalSet::FromRange({.begin = 3, .end = 7}));
  EXPECT_THAT(columns.TakeFreed().ToVector(), ElementsAre(3, 4, 5, 6));
  EXPECT_TRUE(columns.TakeFreed().empty());
  ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(1), 0)));
  ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(2), 1)));
  while (columns.MergeStep()) {
  }
  columns.Release(OrdinalSet::FromRange({.begin = 0, .end = 1}));
  EXPECT_TRUE(columns.TakeFreed().empty()) << "in a chunk with others";
  columns.Release(OrdinalSet::FromRange({.begin = 1, .end = 3}));
  EXPECT_THAT(columns.TakeFreed().ToVector(), ElementsAre(0, 1, 2));
}

// One bit for each ordinal between the rows would take most of a gigabyte.
TEST(AttributeColumnsTest, RowsFarApartStayApart) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(2), 0)));
  ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(2), 4'000'000'000u)));
  EXPECT_FALSE(columns.MergeStep());
  EXPECT_EQ(columns.Snapshot()->chunks.size(), 2u);
  EXPECT_THAT(Evaluated(Compare("x", Comparison::kEqual, Integers({1})), columns),
              ElementsAre(1, 4'000'000'001u));
}

// Ordinals that are used again lie between those of a chunk.
TEST(AttributeColumnsTest, AChunkThatLosesItsFirstRowsMovesToItsPlace) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  std::vector<bool> is_live(110, false);
  const auto add = [&](uint32_t first, uint32_t rows_count) {
    ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(rows_count), first)));
    for (uint32_t row = first; row < first + rows_count; ++row) is_live[row] = true;
  };
  add(10, 20);
  add(100, 10);
  ASSERT_TRUE(columns.MergeStep());  // one chunk: 10 to 29 and 100 to 109
  add(0, 7);
  add(40, 3);
  columns.Drop(OrdinalSet::FromRange({.begin = 10, .end = 30}));
  std::fill(is_live.begin() + 10, is_live.begin() + 30, false);
  ASSERT_TRUE(columns.MergeStep());
  EXPECT_EQ(columns.Snapshot()->chunks.back()->first(), 100u);
  ExpectFound(columns, is_live);
}

TEST(AttributeColumnsTest, AChunkGoesWithTheLastOfItsRows) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  ASSERT_OK(columns.Add(ChunksOf(schema, Numbered(5), 0)));
  columns.Drop(OrdinalSet::FromRange({.begin = 0, .end = 2}));
  EXPECT_EQ(columns.Snapshot()->chunks.size(), 1u);
  columns.Drop(OrdinalSet::FromRange({.begin = 2, .end = 9}));
  EXPECT_TRUE(columns.Snapshot()->chunks.empty());
}

TEST(AttributeIndexTest, AValueTwiceInAListIsOneRow) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  const std::string word = "w";
  const std::vector<PlainRow> rows = {
      {.attributes = {std::nullopt, std::vector<PlainValue>{word, word}}}};
  const auto chunks = ChunksOf(schema, rows, 0);
  EXPECT_EQ(chunks[0]->index(1).rows().codes_count(), 1u);
  EXPECT_EQ(chunks[0]->index(1).rows().entries_count({0, 1}), 1);
}

TEST(AttributeColumnsTest, AnUploadOfMoreRowsThanAChunkIsCut) {
  const AttributeSchema schema = *AttributeSchema::Create({{.name = "x"}}, {});
  AttributeBlock block = EmptyBlock(schema);
  block.rows_count = AttributeChunk::kRowsMax + 1;
  for (int64_t row = 0; row < block.rows_count; ++row) {
    block.columns[0].present.push_back(row % 2 == 0);
    if (row % 2 == 0) block.columns[0].values.AppendInteger(row);
  }
  AttributeChunkBuilder builder(std::make_shared<const AttributeSchema>(schema));
  ASSERT_OK(builder.Append(block));
  EXPECT_GT(builder.bytes(), 8 * block.rows_count / 2);
  const auto chunks = builder.Build(7);
  ASSERT_OK(chunks);
  ASSERT_EQ(chunks->size(), 2u);
  EXPECT_EQ((*chunks)[0]->rows_count(), AttributeChunk::kRowsMax);
  EXPECT_EQ((*chunks)[1]->rows_count(), 1);
  EXPECT_EQ((*chunks)[1]->first(), 7u + AttributeChunk::kRowsMax);
  EXPECT_TRUE((*chunks)[1]->index(0).present().Contains(7u + AttributeChunk::kRowsMax));
}

TEST(AttributeColumnsTest, OrdinalsEndAt32Bits) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeChunkBuilder builder(std::make_shared<const AttributeSchema>(schema));
  ASSERT_OK(builder.Append(BlockOf(schema, Numbered(2))));
  EXPECT_THAT(builder.Build(0xffffffffu), StatusIs(kResourceExhausted));
  const auto chunks = builder.Build(0xfffffffeu);
  ASSERT_OK(chunks);
  EXPECT_EQ(chunks->front()->last(), 0xffffffffu);
  AttributeColumns columns(schema);
  ASSERT_OK(columns.Add(*chunks));
  EXPECT_THAT(Evaluated(Not(Compare("x", Comparison::kEqual, Integers({0}))), columns),
              ElementsAre(0xffffffffu));
}

TEST(AttributeColumnsTest, VersionsNameWhatIsThere) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  const AttributeColumns others(schema);
  const std::vector<PlainRow> rows = Numbered(4);
  const auto empty = columns.Snapshot();
  EXPECT_NE(empty->version, others.Snapshot()->version);
  ASSERT_OK(columns.Add({}));
  EXPECT_EQ(columns.Snapshot(), empty);
  ASSERT_OK(columns.Add(ChunksOf(schema, rows, 10)));
  const auto first = columns.Snapshot();
  EXPECT_GT(first->version, empty->version);
  EXPECT_TRUE(empty->chunks.empty());
  EXPECT_THAT(columns.Add(ChunksOf(schema, rows, 13)),
              FailsWith(kInvalidArgument, "1 ordinals, 13 the first"));
  EXPECT_EQ(columns.Snapshot(), first);

  // The half-dropped chunk shrinks in the next merge. The completely dropped chunk is removed
  // immediately, in a new version.
  const int64_t bytes = columns.bytes();
  columns.Drop(OrdinalSet::FromRange({.begin = 0, .end = 13}));
  EXPECT_EQ(columns.Snapshot()->version, first->version);
  EXPECT_TRUE(columns.MergeStep());
  EXPECT_FALSE(columns.MergeStep());
  EXPECT_EQ(columns.Snapshot()->version, first->version);
  EXPECT_EQ(columns.Snapshot()->chunks[0]->rows_count(), 1);
  EXPECT_LT(columns.bytes(), bytes);
  columns.Drop(OrdinalSet::FromRange({.begin = 13, .end = 14}));
  EXPECT_GT(columns.Snapshot()->version, first->version);
  EXPECT_TRUE(columns.Snapshot()->chunks.empty());
  EXPECT_EQ(first->chunks[0]->rows_count(), 4);
}

// Readers see only complete uploads while rows are added, merged and dropped.
TEST(AttributeColumnsTest, ReadersSeeWholeUploads) {
  const AttributeSchema schema = *AttributeSchema::Create(Specs(), {});
  AttributeColumns columns(schema);
  constexpr uint32_t kUploads = 300;
  constexpr uint32_t kRows = 64;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    while (!done.load()) columns.MergeStep();
  });
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      const Filter filter(Exists("x"), schema);
      int64_t seen = 0;
      do {
        const auto rows = Evaluate(filter, *columns.Snapshot(), {});
        ASSERT_OK(rows);
        ASSERT_EQ(rows->size() % kRows, 0);
        seen = std::max(seen, rows->size());
      } while (!done.load());
      EXPECT_LE(seen, kUploads * kRows);
    });
  }
  const std::vector<PlainRow> rows = Numbered(kRows);
  for (uint32_t upload = 0; upload < kUploads; ++upload) {
    EXPECT_OK(columns.Add(ChunksOf(schema, rows, upload * kRows)));
    columns.MergeSmall();
    // Drops a complete upload. If it was merged with others, its rows are removed in their next
    // merge.
    if (upload % 10 == 9) {
      columns.Drop(
          OrdinalSet::FromRange({.begin = (upload - 9) * kRows, .end = (upload - 8) * kRows}));
    }
  }
  done.store(true);
  for (std::thread& thread : threads) thread.join();
  OrdinalSet dropped;
  for (uint32_t upload = 0; upload < kUploads; upload += 10)
    dropped.UniteWith(
        OrdinalSet::FromRange({.begin = upload * kRows, .end = (upload + 1) * kRows}));
  OrdinalSet left = OrdinalSet::FromSorted(Evaluated(Exists("x"), columns));
  left.Subtract(dropped);
  EXPECT_EQ(left.size(), int64_t{kUploads - kUploads / 10} * kRows);
}

}  // namespace
}  // namespace nearfield::server
