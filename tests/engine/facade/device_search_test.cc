// Tests of searches on the device above the backend: checks, generations, filters, the ids on the
// device and their memory. The fake device has host memory. tests/engine/gpu tests a real one.

#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/device_search.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::testing {
namespace {

const DeviceCopy kCopy = [](void* to, const void* from, size_t bytes) {
  std::memcpy(to, from, bytes);
};

class DeviceSearchTest : public ::testing::Test {
 protected:
  std::shared_ptr<Collection> Make(const CollectionSpec& spec) {
    return *fake_.engine->CreateCollection(spec);
  }

  // Expects the answers of both searches to be equal, to the bit.
  void ExpectHostAnswers(const Collection& collection, const DeviceQueries& queries) {
    ASSERT_OK_AND_ASSIGN(const SearchResult want,
                         fake_.engine->Search(collection, queries.Batch()));
    ASSERT_OK_AND_ASSIGN(const auto got, SearchOnDevice(*fake_.engine, collection, queries, kCopy));
    ASSERT_EQ(got.size(), want.queries.size());
    for (size_t q = 0; q < got.size(); ++q) {
      EXPECT_THAT(got[q], BytesEqual(want.queries[q])) << "query " << q;
    }
  }

  absl::Status StatusOf(const Collection& collection, const DeviceQueries& queries) {
    return SearchOnDevice(*fake_.engine, collection, queries, kCopy).status();
  }

  FakeEngine fake_ =
      MakeFakeEngine({.engine = {.host_memory_bytes = 1 << 22, .k_max = 100, .batch_max = 8}});
  Random random_{TestSeed()};
};

DeviceQueries One(std::vector<float> vector, int32_t k = 1) {
  DeviceQueries queries = MakeDeviceQueries(vector, 1, RowType::kFloat32);
  queries.k = k;
  return queries;
}

TEST_F(DeviceSearchTest, AnswersEqualThoseOfTheHostPath) {
  for (const CorpusFamily family : kCorpusFamilies) {
    for (const RowType type : kRowTypes) {
      SCOPED_TRACE(::testing::Message() << Name(family) << ", queries in " << Name(type));
      const CollectionSpec spec = {.dim = static_cast<int32_t>(random_.Between(1, 40)),
                                   .metric = random_.OneOf<Metric>(kMetrics),
                                   .row_type = random_.OneOf<RowType>(kRowTypes)};
      const Corpus corpus = MakeCorpus(spec, family, 200, random_.Bits());
      const auto collection = Make(spec);
      const int64_t generations = random_.Between(1, 5);
      for (int64_t g = 0; g < generations; ++g) {
        std::vector<int64_t> part;
        for (int64_t row = g; row < 200; row += generations) part.push_back(row);
        ASSERT_OK(UploadAll(*collection, Select(corpus, part)));
      }
      IdColumn deleted;
      for (int64_t row = 0; row < 200; row += 7) deleted.AppendFrom(corpus.ids, row);
      ASSERT_OK(collection->Delete(deleted, nullptr));
      std::vector<float> vectors;
      const int64_t count = random_.Between(1, 9);
      for (int64_t q = 0; q < count; ++q) {
        // A narrow type may turn the smallest numbers into zero, which cosine refuses.
        const std::vector<float> query = MakeQuery(corpus, QueryFamily::kGaussian, random_);
        vectors.insert(vectors.end(), query.begin(), query.end());
      }
      DeviceQueries queries = MakeDeviceQueries(vectors, count, type);
      queries.k = static_cast<int32_t>(random_.Between(1, 101));
      ExpectHostAnswers(*collection, queries);
      auto filter = std::make_shared<RowFilter>();
      filter->chosen = {random_.Bits(), 0, random_.Bits()};
      queries.filter = filter;
      ExpectHostAnswers(*collection, queries);
      queries.score_threshold = random_.Gaussian();
      ExpectHostAnswers(*collection, queries);
      if (HasFailure()) return;
    }
  }
}

TEST_F(DeviceSearchTest, EqualScoresAreOrderedByIdAcrossGenerations) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({50, 10, 40}, {1, 1, 2})));
  ASSERT_OK(UploadAll(*collection, PlainRows({30, 5}, {1, 2})));
  ASSERT_OK_AND_ASSIGN(const auto answers,
                       SearchOnDevice(*fake_.engine, *collection, One({1, 0}, 4), kCopy));
  Neighbors want;
  want.ids = Ids({5, 40, 10, 30});
  want.scores = {2, 2, 1, 1};
  EXPECT_THAT(answers.at(0), BytesEqual(want));
}

// An invalid query fails with the words of the host path, also without rows.
TEST_F(DeviceSearchTest, EachWrongArgumentIsNamed) {
  const auto dot = Make({.dim = 2});
  const auto cosine = Make({.dim = 2, .metric = Metric::kCosine});
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_THAT(
      StatusOf(*dot, MakeDeviceQueries({1, 0, 2, infinity}, 2, RowType::kFloat32)),
      StatusIs(kInvalidArgument, HasSubstr("queries[1].vector is not finite in dimension 1")));
  EXPECT_THAT(StatusOf(*cosine, One({0.0f, -0.0f})),
              StatusIs(kInvalidArgument, HasSubstr("queries[0].vector is all zeros")));
  EXPECT_OK(StatusOf(*dot, One({0, 0})));
  EXPECT_THAT(StatusOf(*dot, One({1, 2, 3})),
              StatusIs(kInvalidArgument, HasSubstr("dim = 3, must be 2")));
  EXPECT_THAT(StatusOf(*dot, One({1, 0}, 101)),
              StatusIs(kInvalidArgument, HasSubstr("k = 101, must be 1 .. 100")));
  DeviceSearch search = {.queries_count = 9, .k = 1};
  EXPECT_THAT(fake_.engine->SearchOnDevice(*dot, search),
              StatusIs(kInvalidArgument, HasSubstr("queries_count = 9, must be 1 .. 8")));
  search = {.queries_count = 1, .k = 0};
  EXPECT_THAT(fake_.engine->SearchOnDevice(*dot, search),
              StatusIs(kInvalidArgument, HasSubstr("k = 0, must be 1 .. 100")));
  DeviceQueries queries = One({1, 0});
  queries.score_threshold = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(StatusOf(*dot, queries), StatusIs(kInvalidArgument, HasSubstr("score_threshold")));
  const auto strings = Make({.dim = 2, .id_type = IdType::kString});
  EXPECT_THAT(StatusOf(*strings, One({1, 0})),
              StatusIs(kFailedPrecondition, HasSubstr("string ids")));
  FakeEngine other = MakeFakeEngine();
  search = {.queries_count = 1, .k = 1};
  EXPECT_THAT(other.engine->SearchOnDevice(*dot, search),
              StatusIs(kInvalidArgument, HasSubstr("another engine")));
}

TEST_F(DeviceSearchTest, IdsAreOnTheDeviceFromTheCommitOn) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1, 2, 3}, {1, 2, 3})));
  const int64_t before = fake_.device->bytes_used();
  const int64_t before_stats = collection->Stats().device_bytes;
  ASSERT_OK(StatusOf(*collection, One({1, 0})));
  EXPECT_EQ(fake_.device->bytes_used(), before);
  EXPECT_EQ(collection->Stats().device_bytes, before_stats);
  ASSERT_OK(UploadAll(*collection, PlainRows({4}, {4})));
  ExpectHostAnswers(*collection, One({1, 0}));
  ASSERT_OK(collection->Delete(Ids({1, 2, 3, 4}), nullptr));
  EXPECT_EQ(fake_.device->bytes_used(), 0);
}

TEST_F(DeviceSearchTest, ALostDeviceIsRemembered) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({7}, {1})));
  fake_.device->FailAt(FakeCall::kSearchOnDevice, 1, absl::UnavailableError("lost"));
  EXPECT_THAT(StatusOf(*collection, One({1, 0})), StatusIs(kUnavailable));
  EXPECT_THAT(fake_.engine->Health(), StatusIs(kUnavailable));
  EXPECT_THAT(fake_.engine->TakeDeviceMemory(1), StatusIs(kUnavailable));
}

TEST_F(DeviceSearchTest, ASearchOfAnEarlierStateAndItsCost) {
  const auto collection = Make(kPlainSpec);
  ASSERT_OK(UploadAll(*collection, PlainRows({1, 2}, {1, 2})));
  const std::shared_ptr<const PinnedEpoch> at = collection->PinEpoch();
  ASSERT_OK(UploadAll(*collection, PlainRows({3}, {3})));
  const DeviceQueries queries = One({1, 0}, 5);
  ASSERT_OK_AND_ASSIGN(const auto buffers, DeviceBuffers::Make(*fake_.engine, queries, kCopy));
  DeviceSearch search = buffers->Search();
  search.at = at;
  ASSERT_OK_AND_ASSIGN(const DeviceSearchResult result,
                       fake_.engine->SearchOnDevice(*collection, search));
  EXPECT_EQ(result.epoch, at->epoch());
  EXPECT_EQ(result.matched_rows, 2);
  EXPECT_EQ(result.cost.rows_scanned, 2);
  ASSERT_OK_AND_ASSIGN(const auto answers, buffers->Read());
  Neighbors want;
  want.ids = Ids({2, 1});
  want.scores = {2, 1};
  EXPECT_THAT(answers.at(0), BytesEqual(want));
}

}  // namespace
}  // namespace nearfield::testing
