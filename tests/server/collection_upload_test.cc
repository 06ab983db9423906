// Tests of the two halves of an upload's block, which run at the same time: the engine takes the
// block while the disk writes it.
#include "server/collections/collection_upload.h"

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/server/prelude.h"
#include "tests/server/store/failing_calls.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/scripted_engine.h"

namespace nearfield::server {
namespace {

using store::FailingCalls;
using store::FileCall;

// A collection with an upload under the token "t", of which one block is durable.
class CollectionUploadTest : public ::testing::Test {
 protected:
  static constexpr size_t kDim = 4;

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(auto kept, store::Store::Open({.dir = dir_ / "data"}));
    catalog_ = std::make_unique<Catalog>(
        Catalog::Base{.engine = engine_.get(), .store = std::move(kept)}, /*collections_max=*/1);
    ASSERT_OK_AND_ASSIGN(named_, catalog_->Create("a", {.dim = kDim}));
    ASSERT_OK(Append(*Begin(), 1, 1.0f));
  }

  std::unique_ptr<CollectionUpload> Begin() {
    auto upload = CollectionUpload::Begin(
        named_, {.reservation = {.rows_max = 2}, .token = "t", .check_caller = nullptr});
    EXPECT_OK(upload);
    return *std::move(upload);
  }
  static absl::Status Append(CollectionUpload& upload, uint64_t id, float value) {
    const IdColumn ids = IdColumn::OfNumbers({id});
    const std::vector<float> row(kDim, value);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(row.data());
    return upload.Append({.ids = &ids, .rows = absl::MakeConstSpan(bytes, kDim * sizeof(float))},
                         {.rows_count = 1});
  }

  // Appends a row while the engine waits for the disk's write of the block, and the write for the
  // engine. `error`: the errno of that write, or 0.
  absl::Status AppendAtOnce(float value, int error) {
    const auto upload = Begin();
    script_->append_gate.Close();
    const FailingCalls failing([&](const FileCall& call) {
      if (call.kind != FileCall::Kind::kWrite || !absl::EndsWith(call.path, ".seg")) return 0;
      if (std::exchange(written_, true)) return 0;
      script_->append_gate.AwaitArrivals(1);
      script_->append_gate.Open();
      return error;
    });
    return Append(*upload, 2, value);
  }

  // Checks that the upload continues after its first block, and that all its rows become visible.
  void ExpectContinues() {
    const auto upload = Begin();
    EXPECT_EQ(upload->place().next_block, 1);
    EXPECT_EQ(named_->collection->Stats().rows_count, 0);
    ASSERT_OK(Append(*upload, 2, 2.0f));
    EXPECT_EQ(upload->Commit()->rows_count, 2);
  }

  const store::TempDir dir_;
  const std::shared_ptr<testing::EngineScript> script_ = std::make_shared<testing::EngineScript>();
  const std::unique_ptr<Engine> engine_ = testing::MakeScriptedEngine(script_);
  std::unique_ptr<Catalog> catalog_;
  NamedCollectionPtr named_;
  bool written_ = false;  // the write of the block has begun
};

TEST_F(CollectionUploadTest, TheDiskWritesABlockWhileTheEngineTakesIt) {
  EXPECT_OK(AppendAtOnce(2.0f, 0));
  EXPECT_TRUE(written_);
}

TEST_F(CollectionUploadTest, ADiskErrorWhileTheEngineTakesTheBlockEndsTheUpload) {
  EXPECT_THAT(AppendAtOnce(2.0f, ENOSPC), FailsWith(kResourceExhausted, ".seg"));
  ExpectContinues();
}

// The block is in the file, but no stream may read it from there.
TEST_F(CollectionUploadTest, AnErrorOfTheEngineWhileTheDiskWritesTheBlockEndsTheUpload) {
  EXPECT_THAT(AppendAtOnce(std::nanf(""), 0), FailsWith(kInvalidArgument, "not finite"));
  EXPECT_TRUE(written_);
  ExpectContinues();
}

// The error that the client can correct.
TEST_F(CollectionUploadTest, OfTwoErrorsTheCallerGetsThatOfTheEngine) {
  EXPECT_THAT(AppendAtOnce(std::nanf(""), ENOSPC), FailsWith(kInvalidArgument, "not finite"));
  ExpectContinues();
}

}  // namespace
}  // namespace nearfield::server
