// Tests searches on the device: the answers equal those of the host path and of the oracle, to the
// bit, and wait for the caller's stream.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/gpu/runtime/probe_gpu.h"
#include "nearfield/engine/engine.h"
#include "tests/engine/prelude.h"
#include "tests/testing/device_search.h"
#include "tests/testing/engines.h"
#include "tests/testing/gpu_capability.h"

namespace nearfield::testing {
namespace {

// Returns when the copy is complete. Does not wait for side streams.
const DeviceCopy kCopy = [](void* to, const void* from, size_t bytes) {
  EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
};

// A stream that the legacy default stream does not wait for.
class SideStream {
 public:
  SideStream() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  }
  ~SideStream() { cudaStreamDestroy(stream_); }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Blocks a stream until it is opened.
class Gate {
 public:
  void Block(cudaStream_t stream) {
    const auto wait = [](void* gate) { static_cast<Gate*>(gate)->Wait(); };
    ASSERT_EQ(cudaLaunchHostFunc(stream, wait, this), cudaSuccess);
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

class GpuDeviceSearchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::Status probed = gpu::ProbeGpu(0);
    if (!probed.ok()) GTEST_SKIP() << probed;
    Restart(GpuCapabilityMax());
  }

  void Restart(int32_t capability) {
    engine_.reset();
    auto made = Engine::Create({.backend = BackendChoice::kGpu,
                                .memory_bytes = int64_t{1} << 30,
                                .host_memory_bytes = int64_t{1} << 30,
                                .host_rows_bytes = int64_t{256} << 20,
                                .batch_max = 2048,
                                .gpu_capability_max = capability});
    ASSERT_OK(made);
    engine_ = *std::move(made);
  }

  CollectionSpec AnySpec(int32_t dim_end) {
    CollectionSpec spec = {.dim = static_cast<int32_t>(random_.Between(1, dim_end)),
                           .metric = random_.OneOf<Metric>(kMetrics),
                           .row_type = random_.OneOf<RowType>(kRowTypes)};
    spec.scan = random_.OneOf<ScanChoice>(
        {ScanChoice::kInt8, ScanChoice::kInt8, ScanChoice::kRows, ScanChoice::kAuto});
    if (spec.scan == ScanChoice::kInt8 && random_.OneIn(4)) spec.rows = RowPlacement::kHost;
    return spec;
  }

  // Cuts the corpus into random generations, and deletes some rows.
  std::shared_ptr<Collection> Fill(const Corpus& corpus, int64_t generations, Corpus* live) {
    std::vector<std::vector<int64_t>> parts(static_cast<size_t>(generations));
    std::vector<int64_t> kept;
    IdColumn deleted;
    for (int64_t row = 0; row < corpus.rows_count(); ++row) {
      parts[static_cast<size_t>(random_.Between(0, generations))].push_back(row);
      if (generations > 1 && random_.OneIn(5)) {
        deleted.AppendFrom(corpus.ids, row);
      } else {
        kept.push_back(row);
      }
    }
    auto made = MakeCollection(*engine_, corpus, parts);
    EXPECT_OK(made);
    if (!made.ok()) return nullptr;
    if (!deleted.empty()) {
      EXPECT_OK((*made)->Delete(deleted, nullptr));
    }
    *live = Select(corpus, kept);
    return *std::move(made);
  }

  DeviceQueries Draw(const Corpus& corpus, int64_t count, int32_t k) {
    const auto type = random_.OneOf<RowType>(kRowTypes);
    std::vector<float> vectors;
    for (int64_t q = 0; q < count; ++q) {
      std::vector<float> query =
          MakeQuery(corpus, random_.OneOf<QueryFamily>(kQueryFamilies), random_);
      // A narrow type may turn the smallest numbers into zero, which cosine refuses.
      if (type != RowType::kFloat32) query[0] += 1.0f;
      vectors.insert(vectors.end(), query.begin(), query.end());
    }
    DeviceQueries queries = MakeDeviceQueries(vectors, count, type);
    queries.k = k;
    return queries;
  }

  // Expects the answers of both paths to be equal. Returns those of the device.
  std::vector<Neighbors> ExpectHostAnswers(const Collection& collection,
                                           const DeviceQueries& queries) {
    auto want = engine_->Search(collection, queries.Batch());
    auto got = SearchOnDevice(*engine_, collection, queries, kCopy);
    EXPECT_OK(want);
    EXPECT_OK(got);
    if (!want.ok() || !got.ok()) return {};
    for (size_t q = 0; q < got->size(); ++q) {
      EXPECT_THAT((*got)[q], BytesEqual(want->queries[q]))
          << "query " << q << " of " << queries.count << ", k " << queries.k;
      if (HasFailure()) break;
    }
    return *std::move(got);
  }

  void ExpectOracleAnswers(const Corpus& live, const DeviceQueries& queries,
                           const std::vector<Neighbors>& got) {
    const auto dim = static_cast<size_t>(live.spec.dim);
    for (size_t q = 0; q < got.size() && !HasFailure(); ++q) {
      const auto query = absl::MakeConstSpan(queries.vectors).subspan(q * dim, dim);
      EXPECT_THAT(got[q], BytesEqual(OracleAnswer(live, query, queries.k))) << "query " << q;
    }
  }

  // Every family of rows, in several generations, with every number of queries that has its own
  // path.
  void ExpectAllFamilies() {
    for (const CorpusFamily family : kCorpusFamilies) {
      const CollectionSpec spec = AnySpec(200);
      SCOPED_TRACE(absl::StrCat(Name(family), ", ", Describe(spec)));
      const Corpus corpus = MakeCorpus(spec, family, random_.Between(1, 3000), random_.Bits());
      Corpus live;
      const auto collection = Fill(corpus, random_.Between(1, 6), &live);
      ASSERT_NE(collection, nullptr);
      for (const int64_t count : {1, 2, 17, 70}) {
        const int64_t k = random_.OneIn(6) ? random_.Between(1, 3000) : random_.Between(1, 25);
        DeviceQueries queries = Draw(corpus, count, static_cast<int32_t>(k));
        const auto got = ExpectHostAnswers(*collection, queries);
        if (count <= 17) ExpectOracleAnswers(live, queries, got);
        auto filter = std::make_shared<RowFilter>();
        const int64_t one_in = random_.OneOf<int64_t>({1, 2, 20, 400});
        filter->chosen.resize(static_cast<size_t>(corpus.rows_count()) / 64 + 1);
        for (int64_t row = 0; row < corpus.rows_count(); ++row) {
          if (!random_.OneIn(one_in)) continue;
          filter->chosen[static_cast<size_t>(row / 64)] |= uint64_t{1} << (row % 64);
        }
        queries.filter = filter;
        const auto filtered = ExpectHostAnswers(*collection, queries);
        if (!filtered.empty() && !filtered[0].scores.empty()) {
          // A score of the answer, so that the limit itself is in it.
          queries.score_threshold = filtered[0].scores[filtered[0].scores.size() / 2];
        }
        ExpectHostAnswers(*collection, queries);
        if (HasFailure()) return;
      }
    }
  }

  std::unique_ptr<Engine> engine_;
  Random random_{TestSeed()};
};

TEST_F(GpuDeviceSearchTest, SmokeEqualsHostAndOracleOnEveryFamily) { ExpectAllFamilies(); }

TEST_F(GpuDeviceSearchTest, LesserGpusGiveTheSameAnswers) {
  for (const int32_t capability : {75, 80, 86}) {
    SCOPED_TRACE(capability);
    Restart(capability);
    ExpectAllFamilies();
    if (HasFailure()) return;
  }
}

// Dimensions at the limits of queries that are passed as kernel parameters and of one warp.
TEST_F(GpuDeviceSearchTest, SmokeEveryDimension) {
  for (const int32_t dim : {1, 31, 33, 127, 128, 384, 1536, 1537, 4096, 8192}) {
    CollectionSpec spec = AnySpec(2);
    spec.dim = std::min(dim, engine_->Info().scan_dim_max);
    SCOPED_TRACE(Describe(spec));
    const Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, 500, random_.Bits());
    Corpus live;
    const auto collection = Fill(corpus, random_.Between(1, 4), &live);
    ASSERT_NE(collection, nullptr);
    for (const int64_t count : {1, 5, 33}) {
      const DeviceQueries queries = Draw(corpus, count, 10);
      ExpectOracleAnswers(live, queries, ExpectHostAnswers(*collection, queries));
      if (HasFailure()) return;
    }
  }
}

// More candidates than there is room for: the scan of codes is repeated or replaced.
TEST_F(GpuDeviceSearchTest, EscalatedQueriesGiveTheSameAnswers) {
  for (const CorpusFamily family : {CorpusFamily::kAllEqual, CorpusFamily::kDuplicates}) {
    for (const int64_t generations : {1, 3}) {
      const CollectionSpec spec = {.dim = 32, .scan = ScanChoice::kInt8};
      const Corpus corpus = MakeCorpus(spec, family, 70'000, random_.Bits());
      Corpus live;
      const auto collection = Fill(corpus, generations, &live);
      ASSERT_NE(collection, nullptr);
      int64_t escalated = 0;
      for (const int64_t count : {1, 6, 70}) {
        const DeviceQueries queries = Draw(corpus, count, 10);
        ASSERT_OK_AND_ASSIGN(const auto buffers, DeviceBuffers::Make(*engine_, queries, kCopy));
        ASSERT_OK_AND_ASSIGN(const auto result,
                             engine_->SearchOnDevice(*collection, buffers->Search()));
        escalated += result.cost.escalations.tighter + result.cost.escalations.canonical;
        ASSERT_OK_AND_ASSIGN(const auto got, buffers->Read());
        ASSERT_OK_AND_ASSIGN(const auto want, engine_->Search(*collection, queries.Batch()));
        for (size_t q = 0; q < got.size(); ++q) {
          ASSERT_THAT(got[q], BytesEqual(want.queries[q])) << "query " << q;
        }
      }
      EXPECT_GT(escalated, 0);
    }
  }
}

// More queries than one batch of codes takes, with the largest k.
TEST_F(GpuDeviceSearchTest, LargeBatchesAndLargeK) {
  const CollectionSpec spec = {.dim = 24, .metric = Metric::kL2, .scan = ScanChoice::kInt8};
  const Corpus corpus = MakeCorpus(spec, CorpusFamily::kTwoValues, 20'000, random_.Bits());
  Corpus live;
  const auto collection = Fill(corpus, 4, &live);
  ASSERT_NE(collection, nullptr);
  ExpectHostAnswers(*collection, Draw(corpus, 1500, 7));
  const DeviceQueries queries = Draw(corpus, 3, engine_->Info().k_max);
  ExpectOracleAnswers(live, queries, ExpectHostAnswers(*collection, queries));
}

TEST_F(GpuDeviceSearchTest, InvalidQueriesAreNamedAndHarmNothing) {
  const CollectionSpec spec = {.dim = 40, .metric = Metric::kCosine};
  for (const int64_t rows : {0, 2000}) {
    const Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, rows, random_.Bits());
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(*engine_, corpus));
    const Corpus some = MakeCorpus(spec, CorpusFamily::kGaussian, 10, random_.Bits());
    for (const int64_t count : {1, 3, 100}) {
      const DeviceQueries good = Draw(some, count, 5);
      for (const RowType type : kRowTypes) {
        DeviceQueries bad = MakeDeviceQueries(good.vectors, count, type);
        const auto query = static_cast<size_t>(random_.Between(0, count));
        const size_t bytes = static_cast<size_t>(BytesPerElement(type));
        // All ones is a NaN of every type.
        std::memset(bad.elements.data() + (query * 40 + 17) * bytes, 0xff, bytes);
        EXPECT_THAT(
            SearchOnDevice(*engine_, *collection, bad, kCopy),
            StatusIs(kInvalidArgument,
                     HasSubstr(absl::StrCat("queries[", query,
                                            "].vector is not finite in dimension 17"))));
        std::memset(bad.elements.data() + query * 40 * bytes, 0, 40 * bytes);
        EXPECT_THAT(SearchOnDevice(*engine_, *collection, bad, kCopy),
                    StatusIs(kInvalidArgument,
                             HasSubstr(absl::StrCat("queries[", query, "].vector is all zeros"))));
      }
      ExpectHostAnswers(*collection, good);
    }
  }
}

// The queries of a search arrive on its stream only after other searches have ended: the search
// waits for them, and does not hold the engine while it waits.
TEST_F(GpuDeviceSearchTest, ASearchWaitsForItsStreamAndForNoOther) {
  const CollectionSpec spec = {.dim = 64, .scan = ScanChoice::kInt8};
  const Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, 5000, random_.Bits());
  ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(*engine_, corpus));
  for (const int64_t count : {1, 40}) {
    const SideStream busy;
    const SideStream free;
    DeviceQueries late = Draw(corpus, count, 10);
    late.stream = busy.get();
    ASSERT_OK_AND_ASSIGN(const SearchResult want, engine_->Search(*collection, late.Batch()));
    ASSERT_OK_AND_ASSIGN(const auto source, DeviceBuffers::Make(*engine_, late, kCopy));
    DeviceQueries early = Draw(corpus, count, 10);
    early.type = late.type;
    early.elements.assign(late.elements.size(), 0);
    early.stream = busy.get();
    ASSERT_OK_AND_ASSIGN(const auto buffers, DeviceBuffers::Make(*engine_, early, kCopy));
    Gate gate;
    gate.Block(busy.get());
    ASSERT_EQ(cudaMemcpyAsync(const_cast<void*>(buffers->queries()), source->queries(),
                              late.elements.size(), cudaMemcpyDeviceToDevice, busy.get()),
              cudaSuccess);
    std::atomic<bool> calling{false};
    absl::Status searched;
    std::thread waiting([&] {
      calling.store(true);
      searched = engine_->SearchOnDevice(*collection, buffers->Search()).status();
    });
    while (!calling.load()) std::this_thread::yield();
    DeviceQueries others = Draw(corpus, 3, 10);
    others.stream = free.get();
    ASSERT_OK_AND_ASSIGN(const auto other_buffers,
                         DeviceBuffers::Make(*engine_, others, kCopy));
    for (int i = 0; i < 20; ++i) {
      EXPECT_OK(engine_->SearchOnDevice(*collection, other_buffers->Search()));
    }
    gate.Open();
    waiting.join();
    ASSERT_OK(searched);
    ASSERT_OK_AND_ASSIGN(const auto got, buffers->Read());
    for (size_t q = 0; q < got.size(); ++q) {
      EXPECT_THAT(got[q], BytesEqual(want.queries[q])) << "query " << q;
    }
  }
}

TEST_F(GpuDeviceSearchTest, ConcurrentCallersGetTheirOwnAnswers) {
  const CollectionSpec spec = {.dim = 100, .metric = Metric::kCosine, .scan = ScanChoice::kInt8};
  const Corpus corpus = MakeCorpus(spec, CorpusFamily::kClustered, 6000, random_.Bits());
  Corpus live;
  const auto collection = Fill(corpus, 3, &live);
  ASSERT_NE(collection, nullptr);
  std::vector<std::thread> threads;
  for (const int64_t count : {1, 3, 40, 90}) {
    DeviceQueries queries = Draw(corpus, count, 12);
    ASSERT_OK_AND_ASSIGN(SearchResult want, engine_->Search(*collection, queries.Batch()));
    threads.emplace_back([this, collection, queries, want = std::move(want)]() mutable {
      const SideStream stream;
      queries.stream = stream.get();
      for (int round = 0; round < 30; ++round) {
        ASSERT_OK_AND_ASSIGN(const auto got,
                             SearchOnDevice(*engine_, *collection, queries, kCopy));
        ASSERT_OK_AND_ASSIGN(const auto host, engine_->Search(*collection, queries.Batch()));
        for (size_t q = 0; q < got.size(); ++q) {
          ASSERT_THAT(got[q], BytesEqual(want.queries[q]));
          ASSERT_THAT(host.queries[q], BytesEqual(want.queries[q]));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GpuDeviceSearchTest, PointersAndStreamsOfOthersAreRefused) {
  ASSERT_OK_AND_ASSIGN(const auto collection, engine_->CreateCollection({.dim = 4}));
  const DeviceQueries queries = MakeDeviceQueries({1, 2, 3, 4}, 1, RowType::kFloat32);
  ASSERT_OK_AND_ASSIGN(const auto buffers, DeviceBuffers::Make(*engine_, queries, kCopy));
  const DeviceSearch good = buffers->Search();
  float host[4] = {1, 2, 3, 4};
  DeviceSearch bad = good;
  bad.queries = host;
  EXPECT_THAT(engine_->SearchOnDevice(*collection, bad),
              StatusIs(kInvalidArgument, AllOf(HasSubstr("queries = "), HasSubstr("GPU 0"))));
  bad = good;
  bad.scores = host;
  EXPECT_THAT(engine_->SearchOnDevice(*collection, bad),
              StatusIs(kInvalidArgument, HasSubstr("scores = ")));
  bad = good;
  bad.ids = nullptr;
  EXPECT_THAT(engine_->SearchOnDevice(*collection, bad),
              StatusIs(kInvalidArgument, HasSubstr("ids = null")));
  bad = good;
  bad.counts = reinterpret_cast<int32_t*>(reinterpret_cast<char*>(good.counts) + 1);
  EXPECT_THAT(engine_->SearchOnDevice(*collection, bad),
              StatusIs(kInvalidArgument, HasSubstr("a multiple of 4")));
  const SideStream stream;
  bad = good;
  bad.stream = stream.get();
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_THAT(engine_->SearchOnDevice(*collection, bad),
              StatusIs(kFailedPrecondition, HasSubstr("captured")));
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_OK(engine_->SearchOnDevice(*collection, good));
  EXPECT_OK(engine_->Health());
}

TEST_F(GpuDeviceSearchTest, MemoryIsCountedAndGivenBack) {
  const CollectionSpec spec = {.dim = 8};
  const Corpus corpus = MakeCorpus(spec, CorpusFamily::kGaussian, 300'000, random_.Bits());
  {
    ASSERT_OK_AND_ASSIGN(const auto collection, MakeCollection(*engine_, corpus));
    const int64_t rows = engine_->GetCapacity().device_bytes_used;
    const int64_t rows_of_stats = collection->Stats().device_bytes;
    ExpectHostAnswers(*collection, Draw(corpus, 1, 10));
    const int64_t with_ids = engine_->GetCapacity().device_bytes_used;
    EXPECT_GE(with_ids, rows + 300'000 * 8);
    EXPECT_LE(with_ids, rows + 300'000 * 8 + (int64_t{4} << 20));
    EXPECT_EQ(collection->Stats().device_bytes - rows_of_stats, with_ids - rows);
    ExpectHostAnswers(*collection, Draw(corpus, 1, 10));
    EXPECT_EQ(engine_->GetCapacity().device_bytes_used, with_ids);
  }
  EXPECT_EQ(engine_->GetCapacity().device_bytes_used, 0);
  {
    constexpr int64_t kBytes = int64_t{7} << 20;
    std::vector<std::unique_ptr<DeviceMemory>> held;
    for (int i = 0; i < 5; ++i) {
      ASSERT_OK_AND_ASSIGN(auto memory, engine_->TakeDeviceMemory(kBytes));
      EXPECT_GE(memory->bytes(), kBytes);
      EXPECT_EQ(cudaMemset(memory->data(), i, static_cast<size_t>(memory->bytes())), cudaSuccess);
      held.push_back(std::move(memory));
    }
    for (int i = 0; i < 5; ++i) {
      std::vector<char> bytes(static_cast<size_t>(held[static_cast<size_t>(i)]->bytes()));
      kCopy(bytes.data(), held[static_cast<size_t>(i)]->data(), bytes.size());
      EXPECT_EQ(bytes, std::vector<char>(bytes.size(), static_cast<char>(i)));
    }
    held.erase(held.begin() + 1);
    EXPECT_THAT(engine_->TakeDeviceMemory(int64_t{2} << 30),
                StatusIs(kResourceExhausted, HasSubstr("bytes needed")));
    EXPECT_THAT(engine_->TakeDeviceMemory(0), StatusIs(kInvalidArgument, HasSubstr("bytes = 0")));
  }
  EXPECT_EQ(engine_->GetCapacity().device_bytes_used, 0);
}

}  // namespace
}  // namespace nearfield::testing
