// Tests of the auditor: the mismatches it finds, the answers it drops, and its limit on CPU time.
#include "server/audit/auditor.h"

#include <filesystem>
#include <thread>

#include "tests/server/audit/audit_fixture.h"
#include "tests/testing/scripted_engine.h"

namespace nearfield::server {
namespace {

void IgnoreCounts(const AuditCounts& /*counts*/) {}

class AuditorTest : public AuditFixture {
 protected:
  void SetUp() override {
    ASSERT_OK(UploadAll(*collection_, testing::PlainRows({10, 11, 12, 13}, {4, 3, 3, 1})));
  }
  void AwaitAudited(const Auditor& auditor, int64_t count) {
    while (auditor.counts().answers_audited + auditor.counts().answers_failed < count) {
      std::this_thread::yield();
    }
  }

  std::shared_ptr<Collection> collection_ = *fake_.engine->CreateCollection(testing::kPlainSpec);
  Alarm alarm_{AlarmOptions(place_ / "audit")};
};

TEST_F(AuditorTest, ARightAnswerRaisesNothing) {
  Auditor auditor({.one_in = 1}, fake_.engine.get(), &clock_, &alarm_, IgnoreCounts);
  auditor.Submit(auditor.Reserve(), Answer(collection_, {1, 0}, 3));
  AwaitAudited(auditor, 1);
  EXPECT_EQ(auditor.counts().rows_checked, 4);
  EXPECT_EQ(auditor.counts().mismatches, 0);
  EXPECT_EQ(stops_, 0);
  EXPECT_THAT(raised(), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(place_ / "audit"));
}

TEST_F(AuditorTest, AFlippedScoreBitIsFoundAndCanBeReplayed) {
  Auditor auditor({.one_in = 1}, fake_.engine.get(), &clock_, &alarm_, IgnoreCounts);
  fake_.device->CorruptAnswers([](backend::RankedLists* best) {
    backend::RankedScore& score = best->Resize(0, 0, best->list(0, 0).size()).at(1);
    score.score = std::nextafterf(score.score, 9.0f);
  });
  auditor.Submit(auditor.Reserve(), Answer(collection_, {1, 0}, 3));
  AwaitAudited(auditor, 1);
  EXPECT_EQ(auditor.counts().mismatches, 1);
  EXPECT_EQ(stops_, 1);
  ASSERT_THAT(raised(), SizeIs(1));
  EXPECT_THAT(raised()[0].what, HasSubstr("collection docs, epoch 1, place 1: claimed id 11 score "
                                          "3.00000024 (0x40400001), oracle id 11 score 3"));
  const nlohmann::json record = ReadRecord(raised()[0]);
  EXPECT_EQ(record["format"], "nearfield audit record 1");
  EXPECT_EQ(record["kind"], "answer");
  EXPECT_EQ(record["found_by"], "audit");
  EXPECT_EQ(record["request_id"], "request-7");
  EXPECT_EQ(record["server_version"], "1.2.3");
  EXPECT_EQ(record["epoch"], 1);
  EXPECT_EQ(record["k"], 3);
  EXPECT_EQ(record["collection"]["metric"], "dot");
  EXPECT_EQ(record["query"]["values"], "0000803f00000000");
  EXPECT_EQ(record["first_difference"], 1);
  EXPECT_EQ(record["answer"]["ids"], nlohmann::json({10, 11, 12}));
  EXPECT_EQ(record["answer"]["score_bits"], nlohmann::json({"40800000", "40400001", "40400000"}));
  EXPECT_EQ(record["expected"]["score_bits"], nlohmann::json({"40800000", "40400000", "40400000"}));
  ASSERT_THAT(record["rows"], SizeIs(3));
  EXPECT_EQ(record["rows"][0]["id"], 11);
  EXPECT_EQ(record["rows"][0]["vector"], "000040400000803f");
}

TEST_F(AuditorTest, AWrongIdIsFoundAfterTheCollectionHasMovedOn) {
  Auditor auditor({.one_in = 1}, fake_.engine.get(), &clock_, &alarm_, IgnoreCounts);
  AuditedAnswer answer = Answer(collection_, {1, 0}, 3);
  answer.answer.ids = testing::Ids({10, 12, 11});
  ASSERT_OK(collection_->Delete(testing::Ids({11})));
  auditor.Submit(auditor.Reserve(), std::move(answer));
  AwaitAudited(auditor, 1);
  ASSERT_THAT(raised(), SizeIs(1));
  EXPECT_THAT(raised()[0].what, HasSubstr("place 1: claimed id 12"));
  // The current rows are not those of the answer.
  EXPECT_EQ(ReadRecord(raised()[0])["rows"], nullptr);
}

TEST_F(AuditorTest, AnEpochIsHeldNoLongerThanTheCheck) {
  Auditor auditor({.one_in = 1}, fake_.engine.get(), &clock_, &alarm_, IgnoreCounts);
  AuditedAnswer answer = Answer(collection_, {1, 0}, 3);
  const std::weak_ptr<const PinnedEpoch> epoch = answer.at;
  auditor.Submit(auditor.Reserve(), std::move(answer));
  EXPECT_TRUE(Eventually([&] { return epoch.expired(); }));
  EXPECT_EQ(auditor.counts().answers_audited, 1);
}

TEST_F(AuditorTest, AShareOfZeroChoosesNone) {
  Auditor auditor({.one_in = 0}, fake_.engine.get(), &clock_, &alarm_, IgnoreCounts);
  for (int i = 0; i < 1000; ++i) EXPECT_FALSE(auditor.Sample());
  EXPECT_EQ(auditor.counts().answers_dropped, 0);
}

TEST_F(AuditorTest, OneInAHundredIsChosenAndNotEveryHundredth) {
  Auditor auditor({.one_in = 100}, fake_.engine.get(), &clock_, &alarm_, IgnoreCounts);
  std::vector<int> chosen;
  for (int i = 0; i < 100000; ++i) {
    if (auditor.Sample()) chosen.push_back(i % 100);
  }
  EXPECT_GT(chosen.size(), 800u);
  EXPECT_LT(chosen.size(), 1200u);
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  EXPECT_GT(chosen.size(), 90u);  // positions modulo 100
}

// The oracle of this engine waits at a gate.
class AuditorOverloadTest : public AuditFixture {
 protected:
  void SetUp() override { engine_ = testing::MakeScriptedEngine(script_); }
  ~AuditorOverloadTest() override { script_->verify_gate.Open(); }

  AuditedAnswer EmptyAnswer() {
    if (collection_ == nullptr) collection_ = *engine_->CreateCollection(testing::kPlainSpec);
    const std::vector<float> vector = {1, 0};
    AuditedAnswer answer;
    answer.collection_name = "docs";
    answer.collection = collection_;
    answer.at = collection_->PinEpoch();
    answer.query = OwnedQuery({.vector = vector, .row_id = {}, .k = 1});
    return answer;
  }

  std::shared_ptr<testing::EngineScript> script_ = std::make_shared<testing::EngineScript>();
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<Collection> collection_;
  Alarm alarm_{AlarmOptions("")};
};

TEST_F(AuditorOverloadTest, ABusyAuditorDropsAndCounts) {
  Auditor auditor({.one_in = 1}, engine_.get(), &clock_, &alarm_, IgnoreCounts);
  script_->verify_gate.Close();
  for (int64_t i = 0; i < kAuditSlots; ++i) auditor.Submit(auditor.Reserve(), EmptyAnswer());
  script_->verify_gate.AwaitArrivals(1);
  EXPECT_FALSE(auditor.Reserve());
  EXPECT_FALSE(auditor.Reserve());
  EXPECT_EQ(auditor.counts().answers_dropped, 2);
  script_->verify_gate.Open();
  EXPECT_TRUE(Eventually([&] { return auditor.counts().answers_audited >= kAuditSlots; }));
  EXPECT_EQ(auditor.counts().answers_dropped, 2);
}

TEST_F(AuditorOverloadTest, APlaceThatIsNotUsedComesBack) {
  Auditor auditor({.one_in = 1}, engine_.get(), &clock_, &alarm_, IgnoreCounts);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(auditor.Reserve());
  EXPECT_EQ(auditor.counts().answers_dropped, 0);
}

TEST_F(AuditorOverloadTest, AfterACheckItRestsInProportion) {
  Auditor auditor({.one_in = 1, .cpu_percent = 5}, engine_.get(), &clock_, &alarm_, IgnoreCounts);
  script_->verify_gate.Close();
  auditor.Submit(auditor.Reserve(), EmptyAnswer());
  script_->verify_gate.AwaitArrivals(1);
  auditor.Submit(auditor.Reserve(), EmptyAnswer());  // waits, and is dropped when the rest begins
  clock_.Advance(std::chrono::milliseconds(10));
  script_->verify_gate.Open();
  EXPECT_TRUE(Eventually([&] { return auditor.counts().answers_dropped >= 1; }));
  EXPECT_EQ(auditor.counts().busy_us, 10000);
  clock_.Advance(std::chrono::milliseconds(189));  // of 190
  EXPECT_FALSE(auditor.Reserve());
  clock_.Advance(std::chrono::milliseconds(1));
  auditor.Submit(auditor.Reserve(), EmptyAnswer());
  EXPECT_TRUE(Eventually([&] { return auditor.counts().answers_audited >= 2; }));
  EXPECT_EQ(auditor.counts().answers_dropped, 2);
}

TEST_F(AuditorOverloadTest, TheEndCancelsTheCheckUnderWay) {
  std::atomic<int64_t> reported{0};
  {
    Auditor auditor({.one_in = 1}, engine_.get(), &clock_, &alarm_, [&](const AuditCounts& counts) {
      reported = counts.answers_dropped * 10 + counts.answers_failed;
    });
    script_->verify_gate.Close();
    auditor.Submit(auditor.Reserve(), EmptyAnswer());
    auditor.Submit(auditor.Reserve(), EmptyAnswer());
    script_->verify_gate.AwaitArrivals(1);
  }
  EXPECT_EQ(reported, 20) << "the one that waited and the one that was cancelled; neither failed";
  EXPECT_THAT(raised(), IsEmpty());
}

}  // namespace
}  // namespace nearfield::server
