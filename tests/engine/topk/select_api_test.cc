// Tests the selector's contract at its edges: each wrong argument gives the documented status,
// which names it with its value and its limit. Every legal shape has an algorithm.
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/gpu/runtime/probe_gpu.h"
#include "engine/topk/algorithm.h"
#include "tests/bench/published/algorithms.h"
#include "tests/engine/topk/select_fixture.h"

namespace nearfield::select {
namespace {

using ::absl_testing::StatusIs;

constexpr int64_t kIndexMax = 0xffffffff;

// Returns the words and numbers of a message; 65,535 is the number 65535.
std::set<std::string> Words(std::string_view message) {
  std::set<std::string> words;
  std::string word;
  for (size_t i = 0; i <= message.size(); ++i) {
    const char c = i < message.size() ? message[i] : ' ';
    const bool digit_next =
        i + 1 < message.size() && std::isdigit(static_cast<unsigned char>(message[i + 1])) != 0;
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c == '-' && digit_next)) {
      word += c;
    } else if (c != ',' || !digit_next) {
      words.insert(word);
      word.clear();
    }
  }
  return words;
}

// Matches a message that names the field, the value and the limit, each unless it is empty.
MATCHER_P3(Names, field, value, limit, "names the field, the value and the limit") {
  const std::set<std::string> words = Words(arg);
  for (const std::string& wanted : {std::string(field), std::string(value), std::string(limit)}) {
    if (wanted.empty() || words.count(wanted) > 0) continue;
    *result_listener << "does not name " << wanted;
    return false;
  }
  return true;
}

struct BadShape {
  Shape shape;
  std::string field;
  std::string value;
  std::string limit;
};

std::vector<BadShape> BadShapes() {
  const auto type = static_cast<ScoreType>(9);
  return {
      {{.batch = 0, .n = 10, .k = 1}, "batch", "0", "65535"},
      {{.batch = -1, .n = 10, .k = 1}, "batch", "-1", "65535"},
      {{.batch = 65'536, .n = 10, .k = 1}, "batch", "65536", "65535"},
      {{.batch = 1, .n = 0, .k = 1}, "n", "0", absl::StrCat(kIndexMax)},
      {{.batch = 1, .n = -7, .k = 1}, "n", "-7", absl::StrCat(kIndexMax)},
      {{.batch = 1, .n = kIndexMax + 1, .k = 1}, "n", "4294967296", absl::StrCat(kIndexMax)},
      {{.batch = 1, .n = 10, .k = 0}, "k", "0", "10"},
      {{.batch = 1, .n = 10, .k = -3}, "k", "-3", "10"},
      {{.batch = 1, .n = 10, .k = 11}, "k", "11", "10"},
      {{.type = type, .batch = 1, .n = 10, .k = 1}, "type", "9", ""},
      {{.n = int64_t{1} << 31, .k = 1, .ragged = true}, "n", "2147483648", "2147483647"},
      {{.n = 10, .k = 1, .column_stride = 0}, "column_stride", "0", "16777216"},
      {{.n = 10, .k = 1, .column_stride = -2}, "column_stride", "-2", "16777216"},
  };
}

// Returns small shapes, and the largest possible ones.
std::vector<Shape> LegalShapes() {
  std::vector<Shape> shapes;
  for (const ScoreType type : kScoreTypes) {
    for (const int64_t batch : {int64_t{1}, int64_t{3}, int64_t{132}, int64_t{1024}, kBatchMax}) {
      for (const int64_t n :
           {int64_t{1}, int64_t{33}, int64_t{4096}, int64_t{131'072}, int64_t{100'000'000},
            (int64_t{1} << 31) - 1, (int64_t{1} << 31) + 5, kColumnsMax}) {
        for (const int64_t k : {int64_t{1}, int64_t{2048}, int64_t{4097}, n / 2, n - 1, n}) {
          if (k < 1 || k > n) continue;
          shapes.push_back({.type = type, .batch = batch, .n = n, .k = k});
        }
      }
    }
  }
  return shapes;
}

std::string Text(const Shape& shape) { return Describe({.shape = shape}); }

class SelectApiTest : public SelectorTest {
 protected:
  void SetUp() override {
    SelectorTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    problem_ = {.shape = {.batch = 2, .n = 1000, .k = 10}, .seed = random_.Bits()};
    ASSERT_OK(site_->Upload(MakeScores(problem_)));
    const auto armed = site_->Arm(problem_, kAdaptive);
    ASSERT_OK(armed);
    good_ = *armed;
    ASSERT_OK(site_->Await("arming"));
  }

  absl::Status Run(const Buffers& buffers, std::string_view algorithm = kAdaptive) {
    return selector_->Run(problem_.shape, buffers, site_->stream(), algorithm);
  }

  // Expects that the buffers are refused with one of them changed, and that nothing was enqueued:
  // the outputs still hold their poison.
  template <typename T>
  void ExpectRefused(T Buffers::*member, T changed, const std::string& field,
                     const std::string& value = "", const std::string& limit = "") {
    Buffers buffers = good_;
    buffers.*member = changed;
    EXPECT_THAT(Run(buffers),
                StatusIs(absl::StatusCode::kInvalidArgument, Names(field, value, limit)))
        << field;
    ASSERT_OK(site_->Await("nothing"));
    const auto untouched = site_->Collect(problem_);
    ASSERT_OK(untouched);
    for (const uint32_t index : untouched->indices) ASSERT_EQ(index, 0xa5a5a5a5u) << field;
  }

  SelectCase problem_;
  Buffers good_;
};

TEST(SelectCreateTest, UnavailableWhereThereIsNoSuchDevice) {
  const absl::Status probed = gpu::ProbeGpu(0);
  // Without a GPU no device exists; with one, these do not.
  for (const int device : {0, 99, -1}) {
    if (device == 0 && probed.ok()) continue;
    EXPECT_THAT(Selector::Create({.device = device}), StatusIs(absl::StatusCode::kUnavailable))
        << device;
  }
}

TEST_F(SelectApiTest, AlgorithmsAreNamedOnceAndAdaptiveIsTheFirst) {
  const std::vector<AlgorithmInfo> all = selector_->Algorithms();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].name, kAdaptive);
  std::set<std::string> names;
  for (const AlgorithmInfo& info : all) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_FALSE(info.name.empty());
    EXPECT_FALSE(info.summary.empty()) << info.name;
  }
  EXPECT_EQ(names.count("radix_sort"), 1u);
}

// Users get the adaptive choice and the algorithms that it uses. No library has the published ones,
// which the other tests force too.
TEST_F(SelectApiTest, AUserCanForceWhatTheChoiceUsesAndNothingElse) {
  const auto of_user = Selector::Create({.device = 0});
  ASSERT_OK(of_user);
  std::vector<std::string> names;
  for (const AlgorithmInfo& info : (*of_user)->Algorithms()) names.push_back(info.name);
  std::vector<std::string> expected = {std::string(kAdaptive)};
  for (const auto* algorithm : gpu::AllSelectAlgorithms()) expected.emplace_back(algorithm->name);
  EXPECT_EQ(names, expected);
  for (const auto* algorithm : gpu::published::Algorithms()) {
    EXPECT_THAT((*of_user)->Supports(problem_.shape, algorithm->name),
                StatusIs(absl::StatusCode::kNotFound, Names(algorithm->name, "", "")));
  }
}

TEST_F(SelectApiTest, EveryLegalShapeIsSupportedAndTheChoiceCanRunIt) {
  std::set<std::string> names;
  for (const AlgorithmInfo& info : selector_->Algorithms()) names.insert(info.name);
  for (const Shape& shape : LegalShapes()) {
    SCOPED_TRACE(Text(shape));
    for (const std::string_view algorithm : {kAdaptive, std::string_view("radix_sort")}) {
      ASSERT_OK(selector_->Supports(shape, algorithm));
      const auto bytes = selector_->WorkspaceBytes(shape, algorithm);
      ASSERT_OK(bytes);
      ASSERT_GE(*bytes, 0);
    }
    const auto choice = selector_->Choice(shape);
    ASSERT_OK(choice);
    ASSERT_EQ(names.count(*choice), 1u) << *choice;
    ASSERT_NE(*choice, kAdaptive);
    ASSERT_OK(selector_->Supports(shape, *choice));
  }
}

// Supports, WorkspaceBytes and Run agree on the shapes that an algorithm cannot select. The message
// has a number.
TEST_F(SelectApiTest, AnAlgorithmSaysWhatItCannotSelect) {
  for (const Shape& shape : LegalShapes()) {
    for (const std::string& algorithm : algorithms_) {
      SCOPED_TRACE(algorithm + ": " + Text(shape));
      const absl::Status supports = selector_->Supports(shape, algorithm);
      if (supports.ok()) {
        ASSERT_OK(selector_->WorkspaceBytes(shape, algorithm));
        continue;
      }
      ASSERT_THAT(supports, StatusIs(absl::StatusCode::kUnimplemented));
      ASSERT_THAT(std::string(supports.message()), ::testing::ContainsRegex("[0-9]"));
      ASSERT_THAT(selector_->WorkspaceBytes(shape, algorithm),
                  StatusIs(absl::StatusCode::kUnimplemented));
      // Refused before a score is read: the buffers are those of a smaller shape.
      ASSERT_THAT(selector_->Run(shape, good_, site_->stream(), algorithm),
                  StatusIs(absl::StatusCode::kUnimplemented));
    }
  }
}

TEST_F(SelectApiTest, IllegalShapesAreNamed) {
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  for (const BadShape& bad : BadShapes()) {
    SCOPED_TRACE(bad.field + " = " + bad.value);
    const auto names = Names(bad.field, bad.value, bad.limit);
    EXPECT_THAT(selector_->Supports(bad.shape), StatusIs(invalid, names));
    EXPECT_THAT(selector_->Choice(bad.shape), StatusIs(invalid, names));
    EXPECT_THAT(selector_->WorkspaceBytes(bad.shape), StatusIs(invalid, names));
    EXPECT_THAT(selector_->Run(bad.shape, good_, site_->stream()), StatusIs(invalid, names));
    for (const std::string& algorithm : algorithms_) {
      EXPECT_THAT(selector_->Supports(bad.shape, algorithm), StatusIs(invalid)) << algorithm;
    }
  }
}

TEST_F(SelectApiTest, AnUnknownAlgorithmIsNotFound) {
  for (const std::string name : {"bogosort", "", "Adaptive", "adaptive "}) {
    SCOPED_TRACE(name);
    const auto names = Names(name == "bogosort" ? name : "", "", "");
    const auto not_found = StatusIs(absl::StatusCode::kNotFound, names);
    EXPECT_THAT(selector_->Supports(problem_.shape, name), not_found);
    EXPECT_THAT(selector_->WorkspaceBytes(problem_.shape, name), not_found);
    EXPECT_THAT(Run(good_, name), not_found);
  }
}

TEST_F(SelectApiTest, AStrideBelowNIsNamed) {
  for (const int64_t stride : {999, 1, -1, -1000}) {
    ExpectRefused(&Buffers::stride, stride, "stride", absl::StrCat(stride), "1000");
  }
}

TEST_F(SelectApiTest, ANullBufferIsNamed) {
  ExpectRefused<const void*>(&Buffers::scores, nullptr, "scores");
  ExpectRefused<void*>(&Buffers::values, nullptr, "values");
  ExpectRefused<uint32_t*>(&Buffers::indices, nullptr, "indices");
  ExpectRefused<void*>(&Buffers::workspace, nullptr, "workspace");
}

TEST_F(SelectApiTest, BoundsNeedARaggedShape) {
  const auto* const bounds = static_cast<const int32_t*>(good_.workspace);
  ExpectRefused(&Buffers::row_begin, bounds, "row_begin");
  ExpectRefused(&Buffers::row_end, bounds, "row_end");
}

TEST_F(SelectApiTest, TooSmallAWorkspaceIsNamedWithWhatIsNeeded) {
  ASSERT_GT(good_.workspace_bytes, 0);
  for (const int64_t bytes : {good_.workspace_bytes - 1, int64_t{0}, int64_t{-1}}) {
    ExpectRefused(&Buffers::workspace_bytes, bytes, "workspace_bytes", absl::StrCat(bytes),
                  absl::StrCat(good_.workspace_bytes));
  }
}

TEST_F(SelectApiTest, AnUnalignedBufferIsNamed) {
  const auto moved = [](const void* data, int64_t bytes) {
    return const_cast<char*>(static_cast<const char*>(data) + bytes);
  };
  ExpectRefused<void*>(&Buffers::workspace, moved(good_.workspace, 128), "workspace", "", "256");
  ExpectRefused<const void*>(&Buffers::scores, moved(good_.scores, 2), "scores", "", "4");
  ExpectRefused<void*>(&Buffers::values, moved(good_.values, 2), "values", "", "4");
  ExpectRefused(&Buffers::row_end, reinterpret_cast<const int32_t*>(moved(good_.workspace, 2)),
                "row_end", "", "4");
  ExpectRefused(&Buffers::indices, reinterpret_cast<uint32_t*>(moved(good_.indices, 2)), "indices",
                "", "4");
}

TEST_F(SelectApiTest, InitWorkspaceRefusesWhatRunWould) {
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  const int64_t bytes = good_.workspace_bytes;
  char* const workspace = static_cast<char*>(good_.workspace);
  EXPECT_THAT(selector_->InitWorkspace(nullptr, bytes, site_->stream()),
              StatusIs(invalid, Names("workspace", "", "")));
  EXPECT_THAT(selector_->InitWorkspace(workspace + 128, bytes, site_->stream()),
              StatusIs(invalid, Names("workspace", "", "256")));
  EXPECT_THAT(selector_->InitWorkspace(workspace, -1, site_->stream()), StatusIs(invalid));
}

TEST_F(SelectApiTest, SmokeAStrideOfZeroAndOneOfNAreTheSame) {
  const auto dense = Select(problem_, std::string(kAdaptive));
  ASSERT_OK(dense);
  problem_.stride = problem_.shape.n;
  EXPECT_OK(Compare(problem_.shape, *dense, Select(problem_, std::string(kAdaptive))));
}

}  // namespace
}  // namespace nearfield::select
