// Tests that the command-line client repeats a recorded check without a server, to the bit.
#include <cmath>
#include <cstring>
#include <sstream>

#include "client/cli/audit_record.h"
#include "client/cli/canonical_score.h"
#include "engine/oracle/oracle.h"
#include "tests/server/audit/audit_fixture.h"
#include "tests/testing/corpora.h"
#include "tests/testing/seed.h"

namespace nearfield::server {
namespace {

using client::ReplayVerdict;

TEST(CanonicalScoreTest, EqualsTheOracleToTheBit) {
  testing::Random random(testing::TestSeed());
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    for (const RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
      for (const testing::CorpusFamily family : testing::kCorpusFamilies) {
        const CollectionSpec spec = {.dim = static_cast<int32_t>(random.Between(1, 200)),
                                     .metric = metric,
                                     .row_type = type};
        const testing::Corpus corpus = testing::MakeCorpus(spec, family, 8, random.Bits());
        const std::vector<float> query =
            testing::MakeQuery(corpus, testing::QueryFamily::kBitPatterns, random);
        for (int64_t i = 0; i < corpus.rows_count(); ++i) {
          const float expected = oracle::Score(metric, type, query, corpus.row(i).data());
          const float score = client::CanonicalScore(static_cast<client::Metric>(metric), query,
                                                     testing::Decode(spec, corpus.row(i)));
          EXPECT_EQ(std::memcmp(&score, &expected, sizeof(score)), 0)
              << testing::Describe(spec) << " " << testing::Name(family) << ": " << score << ", "
              << expected;
        }
      }
    }
  }
}

class ReplayTest : public AuditFixture {
 protected:
  // Raises the alarm for `answer`, then replays its record.
  client::Replay RaiseAndReplay(const AuditedAnswer& answer) {
    const auto verdict = AskOracle(*fake_.engine, answer, nullptr);
    EXPECT_OK(verdict);
    alarm_.Raise(AnswerMismatch{.audited = answer, .verdict = *verdict});
    return ReplayLast();
  }
  client::Replay ReplayLast() {
    const auto record = ParseLast();
    EXPECT_OK(record);
    if (!record.ok()) return {};
    return client::ReplayOffline(*record);
  }
  absl::StatusOr<client::AuditRecord> ParseLast() {
    EXPECT_OK(raised().back().record);
    std::ifstream file(*raised().back().record);
    std::ostringstream text;
    text << file.rdbuf();
    return client::ParseAuditRecord(text.str());
  }
  // Returns an answer of the current epoch with these ids and scores.
  static AuditedAnswer AnswerOf(const std::shared_ptr<Collection>& collection, const Query& query,
                                const std::vector<uint64_t>& ids, std::vector<float> scores) {
    Neighbors neighbors;
    neighbors.ids = IdColumn::OfNumbers(ids);
    neighbors.scores = std::move(scores);
    return {.collection_name = "docs",
            .collection = collection,
            .at = collection->PinEpoch(),
            .query = OwnedQuery(query),
            .answer = std::move(neighbors)};
  }

  Alarm alarm_{AlarmOptions(place_ / "audit")};
};

TEST_F(ReplayTest, EveryKindOfWrongAnswerIsReproduced) {
  testing::Random random(testing::TestSeed());
  int number = 0;
  for (const Metric metric : {Metric::kDot, Metric::kCosine, Metric::kL2}) {
    for (const RowType type : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
      const IdType ids = ++number % 2 == 0 ? IdType::kUint64 : IdType::kString;
      const CollectionSpec spec = {.dim = 37, .metric = metric, .row_type = type, .id_type = ids};
      const testing::Corpus corpus =
          testing::MakeCorpus(spec, testing::CorpusFamily::kGaussian, 50, random.Bits());
      const std::shared_ptr<Collection> collection = *fake_.engine->CreateCollection(spec);
      ASSERT_OK(UploadAll(*collection, corpus));
      const std::vector<float> query =
          testing::MakeQuery(corpus, testing::QueryFamily::kGaussian, random);
      const AuditedAnswer right = Answer(collection, query, 10);
      SCOPED_TRACE(testing::Describe(spec));

      AuditedAnswer flipped = right;
      flipped.answer.scores.Mutable()[4] = std::nextafterf(flipped.answer.scores[4], -INFINITY);
      EXPECT_EQ(RaiseAndReplay(flipped).verdict, ReplayVerdict::kReproduced);

      AuditedAnswer missing = right;  // without the third neighbor, with the eleventh
      const AuditedAnswer more = Answer(collection, query, 11);
      missing.answer.ids = IdColumn(ids);
      missing.answer.scores.Mutable().clear();
      for (int64_t i = 0; i < 11; ++i) {
        if (i == 2) continue;
        missing.answer.ids.AppendFrom(more.answer.ids, i);
        missing.answer.scores.push_back(more.answer.scores[static_cast<size_t>(i)]);
      }
      const client::Replay replay = RaiseAndReplay(missing);
      EXPECT_EQ(replay.verdict, ReplayVerdict::kReproduced);
      EXPECT_THAT(replay.findings, Contains(HasSubstr("belongs before")));

      AuditedAnswer too_short = right;
      too_short.answer = WithoutParts(Answer(collection, query, 9).answer);
      EXPECT_EQ(RaiseAndReplay(too_short).verdict, ReplayVerdict::kReproduced);

      EXPECT_EQ(RaiseAndReplay(right).verdict, ReplayVerdict::kNotReproduced);
    }
  }
}

TEST_F(ReplayTest, AQueryByIdTakesItsVectorFromTheRecord) {
  const std::shared_ptr<Collection> collection = CollectionOf({10, 11, 12}, {4, 3, 2});
  const AuditedAnswer answer = AnswerOf(collection, {.row_id = Id(uint64_t{12}), .k = 2}, {11, 10},
                                        {7, 9});  // 2 * 3 + 1, 2 * 4 + 1
  EXPECT_EQ(RaiseAndReplay(answer).verdict, ReplayVerdict::kReproduced);
}

// Seven rows whose score is their id. Ordinals start at 0.
class NarrowedReplayTest : public ReplayTest {
 protected:
  void SetUp() override {
    collection_ = CollectionOf({1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5, 6, 7});
    auto odd = std::make_shared<RowFilter>();
    odd->chosen = {0b1010101};
    odd_ = odd;
  }
  client::ReplayVerdict Verdict(Query query, const std::vector<uint64_t>& ids) {
    const std::vector<float> vector = {1, 0};
    query.vector = vector;
    query.k = 2;
    AuditedAnswer answer = AnswerOf(collection_, query, ids, {ids.begin(), ids.end()});
    if (query.filter != nullptr) answer.filter = sent_;
    last_ = RaiseAndReplay(answer);
    return last_.verdict;
  }
  std::shared_ptr<Collection> collection_;
  std::shared_ptr<const RowFilter> odd_;
  SentFilter sent_ = {.text = "", .arguments = {}};  // of a filtered answer
  client::Replay last_;
};

TEST_F(NarrowedReplayTest, AFilteredAnswer) {
  EXPECT_EQ(Verdict({.filter = odd_}, {7, 5}), ReplayVerdict::kNotReproduced);
  EXPECT_EQ(Verdict({.filter = odd_}, {7, 6}), ReplayVerdict::kReproduced);
  EXPECT_THAT(last_.findings, Contains(HasSubstr("id 6 score 6 (0x40c00000) does not pass")));
  EXPECT_EQ(Verdict({.filter = odd_}, {7, 3}), ReplayVerdict::kReproduced);
  EXPECT_THAT(last_.findings, Contains(HasSubstr("belongs before")));
}

TEST_F(NarrowedReplayTest, AnAnswerWithAThreshold) {
  EXPECT_EQ(Verdict({.score_threshold = 6.5f}, {7}), ReplayVerdict::kNotReproduced);
  EXPECT_EQ(Verdict({.score_threshold = 6.5f}, {7, 6}), ReplayVerdict::kReproduced);
  EXPECT_THAT(last_.findings, Contains(HasSubstr("below the threshold")));
  EXPECT_EQ(Verdict({.score_threshold = 6.5f}, {}), ReplayVerdict::kReproduced);
}

TEST_F(NarrowedReplayTest, APage) {
  EXPECT_EQ(Verdict({.skip = 3}, {4, 3}), ReplayVerdict::kNotReproduced);
  EXPECT_EQ(Verdict({.skip = 3}, {3, 2}), ReplayVerdict::kReproduced);
  EXPECT_EQ(Verdict({.skip = 6}, {1}), ReplayVerdict::kNotReproduced);
}

// Final scores are recomputed from the sums of the terms: of rows 1 to 7, the score is 20 - 2 id.
TEST_F(NarrowedReplayTest, AnAnswerWithTerms) {
  RowTerms terms = {.score_weight = 2, .terms = {}};
  const std::vector<double> numbers = {1, 2, 3, 4, 5, 6, 7};
  terms.terms = {{.parameters = {.weight = -4, .origin = 5},
                  .numbers = std::make_shared<RowNumbers>(numbers),
                  .filter = nullptr}};
  const std::vector<float> vector = {1, 0};
  const Query query = {.vector = vector, .k = 2, .terms = std::make_shared<const RowTerms>(terms)};
  const auto replayed = [&](const std::vector<uint64_t>& ids, const std::vector<float>& scores) {
    AuditedAnswer answer = AnswerOf(collection_, query, ids, scores);
    answer.terms = "message";
    last_ = RaiseAndReplay(answer);
    return last_.verdict;
  };
  EXPECT_EQ(replayed({1, 2}, {18, 16}), ReplayVerdict::kNotReproduced);
  EXPECT_EQ(replayed({1, 2}, {18, 15}), ReplayVerdict::kReproduced);
  EXPECT_EQ(replayed({1, 3}, {18, 14}), ReplayVerdict::kReproduced);
  EXPECT_THAT(last_.findings, Contains(HasSubstr("belongs before")));
  EXPECT_EQ(replayed({7, 6}, {7, 6}), ReplayVerdict::kReproduced);  // without the terms
  ASSERT_OK_AND_ASSIGN(const auto record, ParseLast());
  EXPECT_EQ(record.terms, "message");
  EXPECT_EQ(record.score_weight, 2);
  EXPECT_EQ(record.term_sums.at(Id(uint64_t{2})), 12);
}

// A check that needs the server sends it the original request.
TEST_F(NarrowedReplayTest, TheRecordHoldsWhatWasAsked) {
  Verdict({.filter = odd_, .score_threshold = 1.5f, .skip = 1}, {5, 3});
  ASSERT_OK_AND_ASSIGN(const auto record, ParseLast());
  EXPECT_EQ(record.skip, 1u);
  EXPECT_EQ(record.answer.score_threshold, 1.5f);
  EXPECT_TRUE(record.filtered);
  EXPECT_EQ(record.filter_text, "");
  EXPECT_THAT(record.filter_args, IsEmpty());

  sent_ = {.text = "name == \"\u00e9\\n\" and year in $1", .arguments = {"bytes", ""}};
  Verdict({.filter = odd_}, {5, 3});
  ASSERT_OK_AND_ASSIGN(const auto with_text, ParseLast());
  EXPECT_TRUE(with_text.filtered);
  EXPECT_EQ(with_text.filter_text, sent_.text);
  EXPECT_EQ(with_text.filter_args, sent_.arguments);
}

TEST_F(ReplayTest, WithoutRowsTheRecordSaysSo) {
  const std::shared_ptr<Collection> collection = CollectionOf({10, 11}, {4, 3});
  AuditedAnswer answer = Answer(collection, {1, 0}, 2);
  answer.answer.scores.Mutable()[0] = 77;
  ASSERT_OK(collection->Delete(testing::Ids({11})));
  EXPECT_EQ(RaiseAndReplay(answer).verdict, ReplayVerdict::kUnknown);
}

TEST_F(ReplayTest, AResidentRowIsComparedBitByBit) {
  RowMismatch row;
  row.collection_name = "docs";
  row.spec = testing::kPlainSpec;
  row.file = "0000000000000001.seg";
  row.id = Id(uint64_t{5});
  row.stored = {0, 0, 0x80, 0x3f, 0, 0, 0, 0};
  row.resident = row.stored;
  row.resident->at(2) = 0x83;
  alarm_.Raise(row);
  client::Replay replay = ReplayLast();
  EXPECT_EQ(replay.verdict, ReplayVerdict::kReproduced);
  EXPECT_THAT(replay.findings, Contains("first at byte 2: stored 80, in memory 83"));
  EXPECT_THAT(replay.findings, Contains("2 bits differ"));
  row.resident.reset();
  alarm_.Raise(row);
  EXPECT_THAT(ReplayLast().findings, Contains("the row was not in memory"));
}

TEST(AuditRecordTest, WhatIsNoRecordIsNamed) {
  const auto parsed = [](const std::string& text) {
    return client::ParseAuditRecord(text).status();
  };
  const auto invalid = [](const std::string& text) { return FailsWith(kInvalidArgument, text); };
  EXPECT_THAT(parsed("{"), invalid("column"));
  EXPECT_THAT(parsed("{}"), invalid("\"format\": absent"));
  EXPECT_THAT(parsed(R"({"format":"nearfield audit record 2"})"), invalid("record 2"));
  EXPECT_THAT(parsed(R"({"format":"nearfield audit record 1","kind":"row"})"),
              invalid("\"server_version\": absent"));
}

}  // namespace
}  // namespace nearfield::server
