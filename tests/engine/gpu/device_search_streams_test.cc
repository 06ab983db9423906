// Tests searches on the device: they wait for the stream of their caller and for no other work,
// serve concurrent callers, and refuse memory and streams that are not theirs to use.
#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/gpu/device_search_fixture.h"

namespace nearfield::testing {
namespace {

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

using GpuDeviceStreamsTest = GpuDeviceSearchTest;

// The queries of a search arrive on its stream only after other searches have ended: the search
// waits for them, and does not hold the engine while it waits.
TEST_F(GpuDeviceStreamsTest, ASearchWaitsForItsStreamAndForNoOther) {
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
    DeviceQueries others = Draw(corpus, 3, 10);
    others.stream = free.get();
    ASSERT_OK_AND_ASSIGN(const auto other_buffers, DeviceBuffers::Make(*engine_, others, kCopy));
    // CUDA loads a kernel when it is first launched, and may then wait for all work of the GPU.
    ASSERT_OK(engine_->SearchOnDevice(*collection, source->Search()));
    ASSERT_OK(engine_->SearchOnDevice(*collection, other_buffers->Search()));
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

TEST_F(GpuDeviceStreamsTest, ConcurrentCallersGetTheirOwnAnswers) {
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
        ASSERT_OK_AND_ASSIGN(const auto got, SearchOnDevice(*engine_, *collection, queries, kCopy));
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

TEST_F(GpuDeviceStreamsTest, PointersAndStreamsOfOthersAreRefused) {
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

}  // namespace
}  // namespace nearfield::testing
