// Tests the selection among other work: captured in a graph, on two streams, from two threads, and
// after work that has not run yet.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/topk/select_fixture.h"

namespace nearfield::select {
namespace {

class SelectStreamsTest : public SelectorTest {
 protected:
  SelectCase Problem(const Shape& shape, Input input) {
    return {.shape = shape, .input = input, .seed = random_.Bits()};
  }
};

TEST_F(SelectStreamsTest, AGraphReplayedWithChangingScoresGivesTheOraclesAnswer) {
  for (const Shape& shape :
       {Shape{.batch = 3, .n = 5000, .k = 32}, Shape{.batch = 1, .n = 300'001, .k = 1000},
        Shape{.type = ScoreType::kFloat16, .batch = 140, .n = 9000, .k = 50}}) {
    SelectCase problem = Problem(shape, Input::kNormal);
    std::vector<HostScores> scores;
    std::vector<Answer> expected;
    for (int replay = 0; replay < 20; ++replay) {
      SelectCase next = Problem(shape, random_.OneOf<NamedInput>(kInputs).input);
      scores.push_back(MakeScores(next));
      expected.push_back(OracleAnswer(next, scores.back()));
    }
    for (const std::string& algorithm : algorithms_) {
      if (!Supports(shape, algorithm)) continue;
      SCOPED_TRACE(algorithm + ": " + Describe(problem));
      ASSERT_OK(site_->Upload(scores[0]));
      const auto buffers = site_->Arm(problem, algorithm);
      ASSERT_OK(buffers);
      ASSERT_OK(site_->Await("arming"));
      Graph graph;
      // Global mode: no thread may allocate, synchronize or do anything else that a capture forbids
      // meanwhile.
      ASSERT_OK(graph.Capture(site_->stream(), cudaStreamCaptureModeGlobal, [&] {
        return selector_->Run(shape, *buffers, site_->stream(), algorithm);
      }));
      const auto nodes = graph.CountNodes();
      ASSERT_OK(nodes);
      ASSERT_GT(*nodes, 0u);
      for (size_t replay = 0; replay < scores.size(); ++replay) {
        ASSERT_OK(site_->Upload(scores[replay]));
        if (replay > 0) {
          const auto armed = site_->Arm(problem, algorithm);
          ASSERT_OK(armed);
          ASSERT_EQ(armed->values, buffers->values) << "the graph writes elsewhere";
        }
        ASSERT_OK(graph.Launch(site_->stream()));
        ASSERT_OK(site_->Await(algorithm + " in a graph: " + Describe(problem)));
        ASSERT_OK(Compare(problem.shape, expected[replay], site_->Collect(problem)))
            << "replay " << replay;
      }
    }
  }
}

// The bounds are read when the graph runs, not when it is captured.
TEST_F(SelectStreamsTest, AGraphReplayedWithChangingBoundsGivesTheOraclesAnswer) {
  for (const Shape& shape : {Shape{.batch = 3, .n = 2000, .k = 32, .ragged = true},
                             Shape{.batch = 5, .n = 200'001, .k = 1000, .ragged = true},
                             Shape{.batch = 140, .n = 9000, .k = 50, .ragged = true}}) {
    SelectCase problem = Problem(shape, Input::kNormal);
    problem.row_end.assign(static_cast<size_t>(shape.batch), static_cast<int32_t>(shape.n));
    const HostScores scores = MakeScores(problem);
    ASSERT_OK(site_->Upload(scores));
    for (const std::string& algorithm : algorithms_) {
      if (!Supports(shape, algorithm)) continue;
      SCOPED_TRACE(algorithm + ": " + Describe(problem));
      Graph graph;
      for (int replay = 0; replay < 5; ++replay) {
        for (int32_t& end : problem.row_end) {
          end = static_cast<int32_t>(random_.Between(0, shape.n + 1));
        }
        const auto buffers = site_->Arm(problem, algorithm);
        ASSERT_OK(buffers);
        ASSERT_OK(site_->Await("arming"));
        if (replay == 0) {
          ASSERT_OK(graph.Capture(site_->stream(), cudaStreamCaptureModeGlobal, [&] {
            return selector_->Run(shape, *buffers, site_->stream(), algorithm);
          }));
        }
        ASSERT_OK(graph.Launch(site_->stream()));
        ASSERT_OK(site_->Await(algorithm + " in a graph: " + Describe(problem)));
        ASSERT_OK(Compare(shape, OracleAnswer(problem, scores), site_->Collect(problem)))
            << "replay " << replay;
      }
    }
  }
}

TEST_F(SelectStreamsTest, TwoStreamsWithAWorkspaceEachAtOnce) {
  CallSite other(*selector_);
  ASSERT_OK(other.Init());
  CallSite* const sites[] = {site_.get(), &other};
  const SelectCase problems[] = {
      Problem({.batch = 2, .n = 200'003, .k = 500}, Input::kNormal),
      Problem({.type = ScoreType::kBFloat16, .batch = 5, .n = 90'001, .k = 64},
              Input::kFewDistinct)};
  Answer expected[2];
  for (int s = 0; s < 2; ++s) {
    const HostScores scores = MakeScores(problems[s]);
    expected[s] = OracleAnswer(problems[s], scores);
    ASSERT_OK(sites[s]->Upload(scores));
  }
  for (const std::string& first : algorithms_) {
    for (const std::string& second : {first, std::string(kAdaptive)}) {
      if (!Supports(problems[0].shape, first) || !Supports(problems[1].shape, second)) continue;
      const std::string* const algorithms[] = {&first, &second};
      SCOPED_TRACE(absl::StrCat(first, " beside ", second));
      Buffers buffers[2];
      for (int s = 0; s < 2; ++s) {
        const auto armed = sites[s]->Arm(problems[s], *algorithms[s]);
        ASSERT_OK(armed);
        buffers[s] = *armed;
        ASSERT_OK(sites[s]->Await("arming"));
      }
      for (int time = 0; time < 20; ++time) {
        for (int s = 0; s < 2; ++s) {
          ASSERT_OK(
              selector_->Run(problems[s].shape, buffers[s], sites[s]->stream(), *algorithms[s]));
        }
      }
      for (int s = 0; s < 2; ++s) {
        ASSERT_OK(sites[s]->Await(*algorithms[s] + ": " + Describe(problems[s])));
        ASSERT_OK(Compare(problems[s].shape, expected[s], sites[s]->Collect(problems[s])))
            << "stream " << s;
      }
    }
  }
}

TEST_F(SelectStreamsTest, TwoThreadsShareASelector) {
  const SelectCase problems[] = {
      Problem({.batch = 3, .n = 70'001, .k = 100}, Input::kNormal),
      Problem({.type = ScoreType::kFloat16, .batch = 1, .n = 150'000, .k = 1}, Input::kTwoValues)};
  const std::vector<std::string> algorithms = algorithms_;
  const auto work = [&](const SelectCase& problem) -> absl::Status {
    CallSite site(*selector_);
    const HostScores scores = MakeScores(problem);
    const Answer expected = OracleAnswer(problem, scores);
    absl::Status status = site.Init();
    if (status.ok()) status = site.Upload(scores);
    for (const std::string& algorithm : algorithms) {
      if (!selector_->Supports(problem.shape, algorithm).ok()) continue;
      for (int time = 0; time < 20 && status.ok(); ++time) {
        status = Compare(problem.shape, expected, site.Select(problem, algorithm));
      }
      if (!status.ok()) {
        return absl::Status(status.code(), algorithm + ": " + std::string(status.message()));
      }
    }
    return status;
  };
  absl::Status statuses[2];
  std::thread other([&] { statuses[1] = work(problems[1]); });
  statuses[0] = work(problems[0]);
  other.join();
  EXPECT_OK(statuses[0]);
  EXPECT_OK(statuses[1]);
}

// Blocks a stream until it is opened. It also opens after a deadline, so that a call that
// waits for the stream fails the test and hangs nothing.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  bool gave_up() {
    const std::lock_guard lock(mutex_);
    return gave_up_;
  }
  static void Wait(void* gate) {
    auto& self = *static_cast<Gate*>(gate);
    std::unique_lock lock(self.mutex_);
    self.gave_up_ =
        !self.opened_.wait_for(lock, std::chrono::seconds(10), [&] { return self.open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
  bool gave_up_ = false;
};

// Pinned host memory: copies from and to it are asynchronous.
template <typename T>
class Pinned {
 public:
  explicit Pinned(size_t count) : count_(count) {
    void* data = nullptr;
    EXPECT_EQ(cudaMallocHost(&data, count * sizeof(T)), cudaSuccess);
    data_ = static_cast<T*>(data);
  }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  ~Pinned() { cudaFreeHost(data_); }
  T* data() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }
  std::vector<uint32_t> ToVector() const { return {data_, data_ + count_}; }

 private:
  size_t count_;
  T* data_ = nullptr;
};

// Scores, selection and results are enqueued after a closed gate. Run returns although nothing can
// run yet, and the host waits only for the event after it.
TEST_F(SelectStreamsTest, RunNeitherWaitsNorNeedsWaiting) {
  const SelectCase problem = Problem({.batch = 4, .n = 80'000, .k = 200}, Input::kNormal);
  const HostScores scores = MakeScores(problem);
  const Answer expected = OracleAnswer(problem, scores);
  const SelectCase stale = Problem(problem.shape, Input::kSortedDown);
  const size_t results = expected.values.size();
  const cudaStream_t stream = site_->stream();
  Pinned<char> image(static_cast<size_t>(problem.shape.batch * problem.shape.n * 4));
  std::copy_n(scores.Row(0), image.bytes(), image.data());
  Pinned<uint32_t> values(results);
  Pinned<uint32_t> indices(results);
  for (const std::string& algorithm : algorithms_) {
    if (!Supports(problem.shape, algorithm)) continue;
    SCOPED_TRACE(algorithm);
    ASSERT_OK(site_->Upload(MakeScores(stale)));
    ASSERT_OK(Select(stale, algorithm));  // loads everything that the first call loads
    const auto buffers = site_->Arm(problem, algorithm);
    ASSERT_OK(buffers);
    Gate gate;
    ASSERT_EQ(cudaLaunchHostFunc(stream, Gate::Wait, &gate), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(const_cast<void*>(buffers->scores), image.data(), image.bytes(),
                              cudaMemcpyDefault, stream),
              cudaSuccess);
    EXPECT_OK(selector_->Run(problem.shape, *buffers, stream, algorithm));
    EXPECT_EQ(
        cudaMemcpyAsync(values.data(), buffers->values, values.bytes(), cudaMemcpyDefault, stream),
        cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(indices.data(), buffers->indices, indices.bytes(), cudaMemcpyDefault,
                              stream),
              cudaSuccess);
    const bool gave_up = gate.gave_up();
    gate.Open();
    ASSERT_OK(site_->Await(algorithm));  // before the gate is destroyed
    EXPECT_FALSE(gave_up || gate.gave_up()) << "Run waited for the stream";
    EXPECT_OK(Compare(problem.shape, expected,
                      Answer{.values = values.ToVector(), .indices = indices.ToVector()}));
    ASSERT_OK(site_->Collect(problem));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace nearfield::select
