// Tests of the comparison that decides what a store may hold after a death with several operations
// in flight.
#include "tests/fault/crash_check.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/fault/crash_log.h"
#include "tests/testing/seed.h"

namespace nearfield::fault {
namespace {

using Kind = Operation::Kind;

class CrashCheckTest : public ::testing::Test {
 protected:
  CrashCheckTest() {
    for (const char* const name : {"own", "shared"}) {
      before_.Apply({.kind = Kind::kCreate, .number = ++number_, .collection = name});
      Commit(name, 0, &before_);
    }
  }

  // Applies an acknowledged upload into `collection` to `model`.
  void Commit(const std::string& collection, uint64_t epoch, Model* model) {
    model->Apply(CommitOf(collection, epoch));
  }
  Operation CommitOf(const std::string& collection, uint64_t epoch) {
    const int64_t number = ++number_;
    return {.kind = Kind::kCommit,
            .number = number,
            .collection = collection,
            .upload = number,
            .epoch = epoch};
  }
  Operation DeleteOf(const std::string& collection, uint64_t epoch) {
    return {.kind = Kind::kDelete, .number = ++number_, .collection = collection, .epoch = epoch};
  }
  Model With(const std::vector<Operation>& operations) const {
    Model model = before_;
    for (const Operation& operation : operations) model.Apply(operation);
    return model;
  }

  int64_t number_ = 0;
  Model before_;  // two collections at epoch 1
};

// Each thread has one operation in flight; any of them may be present.
TEST_F(CrashCheckTest, EverySubsetOfTheOperationsInFlightIsFound) {
  const std::vector<Operation> in_flight = {
      CommitOf("own", 2),
      DeleteOf("shared", 2),
      {.kind = Kind::kAlias, .number = ++number_, .collection = "own", .count = 1}};
  for (size_t subset = 0; subset < size_t{1} << in_flight.size(); ++subset) {
    std::vector<Operation> there;
    for (size_t i = 0; i < in_flight.size(); ++i) {
      if ((subset >> i & 1) != 0) there.push_back(in_flight[i]);
    }
    std::vector<Operation> happened;
    EXPECT_TRUE(Compare(With(there), before_, in_flight, &happened).none()) << subset;
    ASSERT_EQ(happened.size(), there.size()) << subset;
    for (size_t i = 0; i < there.size(); ++i) EXPECT_EQ(happened[i].number, there[i].number);
  }
}

// Two operations of one collection made the epochs 2 and 3. Their order is that of the epochs, not
// that of the log.
TEST_F(CrashCheckTest, OperationsOfOneCollectionAreOrderedByTheirEpochs) {
  const Operation second = DeleteOf("shared", 3);
  const Operation first = CommitOf("shared", 2);
  std::vector<Operation> happened;
  EXPECT_TRUE(Compare(With({first, second}), before_, {second, first}, &happened).none());
  ASSERT_EQ(happened.size(), 2u);
  EXPECT_EQ(happened[0].number, first.number);
  EXPECT_EQ(happened[1].number, second.number);
  EXPECT_FALSE(Compare(With({second}), before_, {second, first}, &happened).none());
}

// The store gave the same epoch to two commits.
TEST_F(CrashCheckTest, TwoOperationsInFlightOfOneEpochAreNotBothThere) {
  const Operation a = CommitOf("shared", 2);
  const Operation b = DeleteOf("shared", 2);
  std::vector<Operation> happened;
  EXPECT_TRUE(Compare(With({a}), before_, {a, b}, &happened).none());
  EXPECT_TRUE(Compare(With({b}), before_, {a, b}, &happened).none());
  EXPECT_FALSE(Compare(With({a, b}), before_, {a, b}, &happened).none());
}

TEST_F(CrashCheckTest, AnAcknowledgedOperationThatIsNotThereIsFoundDespiteOthersInFlight) {
  const Model lost = before_;
  const Operation in_flight = CommitOf("own", 2);
  Commit("shared", 2, &before_);
  Model found = lost;
  found.Apply(in_flight);
  std::vector<Operation> happened;
  EXPECT_GT(Compare(lost, before_, {in_flight}, &happened).lost, 0);
  EXPECT_GT(Compare(found, before_, {in_flight}, &happened).lost, 0);
}

TEST_F(CrashCheckTest, HalfOfAnOperationInFlightIsFoundNextToWholeOnes) {
  const Operation whole = CommitOf("shared", 2);
  const Operation half = CommitOf("own", 2);
  Model found = With({whole, half});
  ModelRows& rows = found.collections.at("own").rows;
  const ModelRows& old = before_.collections.at("own").rows;
  for (auto it = rows.begin(); it != rows.end(); ++it) {
    if (old.count(it->first) == 0) {
      rows.erase(it);
      break;
    }
  }
  std::vector<Operation> happened;
  EXPECT_FALSE(Compare(found, before_, {whole, half}, &happened).none());
}

// Reads a log of several lanes after a death. Operations that are neither acknowledged nor refused
// are in flight, and no number is drawn again.
TEST_F(CrashCheckTest, TheLogKeepsTheOperationsInFlightOfEveryLane) {
  const std::string path =
      ::testing::TempDir() + "crash_check_test_" + std::to_string(testing::TestSeed()) + ".log";
  std::remove(path.c_str());
  std::vector<Operation> tried;
  {
    CrashLog log(path, 3);
    for (int64_t lane : {0, 1, 2, 0}) {
      const int64_t number = log.NextNumber(lane);
      EXPECT_EQ(number % 3, lane);
      tried.push_back({.kind = Kind::kCreate,
                       .number = number,
                       .collection = "c" + std::to_string(number),
                       .epoch = static_cast<uint64_t>(number)});
      log.Try(tried.back());
    }
    log.Acknowledge(tried[1].number);
    log.Refuse(tried[2].number);
  }
  CrashLog again(path, 3);
  EXPECT_EQ(again.model().collections.size(), 1u);
  EXPECT_EQ(again.model().collections.count(tried[1].collection), 1u);
  const std::vector<Operation> in_flight = again.InFlight();
  ASSERT_EQ(in_flight.size(), 2u);
  EXPECT_EQ(in_flight[0].Line(), tried[0].Line());
  EXPECT_EQ(in_flight[1].Line(), tried[3].Line());
  EXPECT_EQ(again.NextNumber(0), tried[3].number + 3);
  EXPECT_EQ(again.NextNumber(1), tried[1].number + 3);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace nearfield::fault
