// Compares a search whose queries and answers are in device memory with the same search from the
// host, in one run, for a caller whose queries are on the device:
//   device:     Engine::SearchOnDevice.
//   round_trip: copies the queries to pinned host memory, Engine::Search, copies ids and scores
//               back to the device.
//   search:     the Engine::Search alone, for queries that are on the host already.
// Every run of the three takes place in turns, so that they see the same clocks. Before it times
// anything it compares ids and score bits of all answers, and the first with the oracle. Prints one
// line "NEARFIELD_BENCH_JSON {...}" per configuration.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/cuda/probe_gpu.h"
#include "nearfield/engine/engine.h"
#include "tests/bench/bench_data.h"
#include "tests/bench/bench_engine.h"
#include "tests/bench/fail.h"
#include "tests/bench/options.h"
#include "tests/bench/timing.h"
#include "tests/engine/topk/kit/select_cuda.h"

namespace nearfield::bench {
namespace {

using select::CheckCuda;

struct Config {
  std::vector<int64_t> rows_counts = {5'000, 200'000, 1'000'000};
  std::vector<int32_t> dims = {384};
  std::vector<int32_t> ks = {10, 100};
  std::vector<int32_t> batches = {1, 16, 256, 1024};
  Repeats repeats = {.warmups = 5, .runs = 201, .seconds_max = 2};
};

// Pinned host memory and device memory for queries and answers, and the caller's stream.
class Buffers {
 public:
  Buffers(int64_t batch, int32_t dim, int32_t k)
      : query_bytes_(static_cast<size_t>(batch * dim) * sizeof(float)),
        places_(static_cast<size_t>(batch * k)),
        batch_(static_cast<size_t>(batch)) {}
  ~Buffers() {
    cudaFree(device_);
    cudaFreeHost(pinned_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  absl::Status Init(absl::Span<const float> queries) {
    const size_t bytes = query_bytes_ + places_ * 12 + batch_ * sizeof(int32_t) + 4 * 256;
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaMalloc(&device_, bytes), "cudaMalloc"));
    ABSL_RETURN_IF_ERROR(
        CheckCuda(cudaHostAlloc(&pinned_, bytes, cudaHostAllocDefault), "cudaHostAlloc"));
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                                   "cudaStreamCreateWithFlags"));
    return CheckCuda(cudaMemcpy(device_, queries.data(), query_bytes_, cudaMemcpyHostToDevice),
                     "cudaMemcpy");
  }

  DeviceSearch Search(int64_t batch, int32_t dim, int32_t k) const {
    DeviceSearch search;
    search.dim = dim;
    search.queries = device_;
    search.queries_count = batch;
    search.k = k;
    search.stream = stream_;
    search.ids = reinterpret_cast<uint64_t*>(device() + IdsAt());
    search.scores = reinterpret_cast<float*>(device() + ScoresAt());
    search.counts = reinterpret_cast<int32_t*>(device() + ScoresAt() + places_ * sizeof(float));
    return search;
  }

  absl::StatusOr<const float*> QueriesDown() {
    ABSL_RETURN_IF_ERROR(
        CheckCuda(cudaMemcpyAsync(pinned_, device_, query_bytes_, cudaMemcpyDeviceToHost, stream_),
                  "cudaMemcpyAsync"));
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"));
    return static_cast<const float*>(pinned_);
  }

  absl::Status AnswersUp(const SearchResult& result, int32_t k) {
    auto* const ids = reinterpret_cast<uint64_t*>(host() + IdsAt());
    auto* const scores = reinterpret_cast<float*>(host() + ScoresAt());
    for (size_t q = 0; q < result.queries.size(); ++q) {
      const Neighbors& answer = result.queries[q];
      const size_t begin = q * static_cast<size_t>(k);
      for (size_t i = 0; i < answer.scores.size(); ++i) {
        ids[begin + i] = answer.ids.number(static_cast<int64_t>(i));
      }
      std::copy(answer.scores.begin(), answer.scores.end(), scores + begin);
    }
    ABSL_RETURN_IF_ERROR(CheckCuda(
        cudaMemcpyAsync(device() + IdsAt(), ids, places_ * 12, cudaMemcpyHostToDevice, stream_),
        "cudaMemcpyAsync"));
    return CheckCuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  // Copies the answers on the device to host memory: ids, then scores.
  absl::StatusOr<std::vector<uint8_t>> Answers() const {
    std::vector<uint8_t> bytes(places_ * 12);
    ABSL_RETURN_IF_ERROR(CheckCuda(
        cudaMemcpy(bytes.data(), device() + IdsAt(), bytes.size(), cudaMemcpyDeviceToHost),
        "cudaMemcpy"));
    return bytes;
  }

 private:
  char* device() const { return static_cast<char*>(device_); }
  char* host() const { return static_cast<char*>(pinned_); }
  size_t IdsAt() const { return (query_bytes_ + 255) / 256 * 256; }
  size_t ScoresAt() const { return IdsAt() + places_ * sizeof(uint64_t); }

  const size_t query_bytes_;
  const size_t places_;
  const size_t batch_;
  void* device_ = nullptr;
  void* pinned_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

SearchBatch BatchOf(const float* vectors, int64_t batch, int32_t dim, int32_t k) {
  SearchBatch searched;
  for (int64_t q = 0; q < batch; ++q) {
    searched.queries.push_back(
        {.vector = absl::MakeConstSpan(vectors + q * dim, static_cast<size_t>(dim)),
         .row_id = {},
         .k = k});
  }
  return searched;
}

struct Times {
  double device_us = 0;
  double round_trip_us = 0;
  double search_us = 0;
};

double Median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Case {
 public:
  Case(const Config& config, Engine& engine, const Collection& collection, int32_t dim)
      : config_(config), engine_(engine), collection_(collection), dim_(dim) {}

  absl::Status Run(int64_t batch, int32_t k) {
    const std::vector<float> queries = MakeRows(DataKind::kGaussian, batch, dim_, 1'000'003);
    Buffers buffers(batch, dim_, k);
    ABSL_RETURN_IF_ERROR(buffers.Init(queries));
    ABSL_RETURN_IF_ERROR(Compare(buffers, queries, batch, k));
    ABSL_ASSIGN_OR_RETURN(const Times times, Time(buffers, queries, batch, k));
    const int64_t bytes = batch * (dim_ * 4 + int64_t{k} * 12);
    std::printf(
        "NEARFIELD_BENCH_JSON "
        R"({"bench":"device_query","device":"%s","n":%d,"dim":%d,"generations":%d,"batch":%d,"k":%d,)"
        R"("device_us":%.1f,"round_trip_us":%.1f,"search_us":%.1f,"times_as_fast":%.2f,)"
        R"("bytes_not_copied":%d,"matches_host":true,"matches_oracle":true})"
        "\n",
        engine_.Info().device_name.c_str(), static_cast<int>(collection_.Stats().rows_count), dim_,
        collection_.Stats().generations_count, static_cast<int>(batch), k, times.device_us,
        times.round_trip_us, times.search_us, times.round_trip_us / times.device_us,
        static_cast<int>(bytes));
    std::fflush(stdout);
    return absl::OkStatus();
  }

 private:
  absl::Status RoundTrip(Buffers& buffers, int64_t batch, int32_t k) {
    ABSL_ASSIGN_OR_RETURN(const float* const vectors, buffers.QueriesDown());
    ABSL_ASSIGN_OR_RETURN(const SearchResult result,
                          engine_.Search(collection_, BatchOf(vectors, batch, dim_, k)));
    return buffers.AnswersUp(result, k);
  }

  absl::Status Compare(Buffers& buffers, const std::vector<float>& queries, int64_t batch,
                       int32_t k) {
    ABSL_RETURN_IF_ERROR(RoundTrip(buffers, batch, k));
    ABSL_ASSIGN_OR_RETURN(const std::vector<uint8_t> want, buffers.Answers());
    const std::vector<uint8_t> nothing(want.size(), 0);
    const DeviceSearch search = buffers.Search(batch, dim_, k);
    ABSL_RETURN_IF_ERROR(CheckCuda(cudaMemset(search.ids, 0, nothing.size()), "cudaMemset"));
    ABSL_RETURN_IF_ERROR(engine_.SearchOnDevice(collection_, search).status());
    ABSL_ASSIGN_OR_RETURN(const std::vector<uint8_t> got, buffers.Answers());
    if (got != want) return absl::DataLossError("the paths differ");
    const SearchBatch first = BatchOf(queries.data(), 1, dim_, k);
    ABSL_ASSIGN_OR_RETURN(const SearchResult answer, engine_.Search(collection_, first));
    ABSL_ASSIGN_OR_RETURN(
        const VerifyResult verdict,
        engine_.Verify(
            collection_,
            {.query = first.queries[0], .neighbors = answer.queries[0], .epoch = answer.epoch},
            nullptr));
    return verdict.equal ? absl::OkStatus() : absl::DataLossError(verdict.explanation);
  }

  absl::StatusOr<Times> Time(Buffers& buffers, const std::vector<float>& queries, int64_t batch,
                             int32_t k) {
    std::vector<double> device;
    std::vector<double> round_trip;
    std::vector<double> search;
    const DeviceSearch on_device = buffers.Search(batch, dim_, k);
    const SearchBatch on_host = BatchOf(queries.data(), batch, dim_, k);
    const auto begin = std::chrono::steady_clock::now();
    const auto us_of = [](auto call) -> absl::StatusOr<double> {
      const auto start = std::chrono::steady_clock::now();
      ABSL_RETURN_IF_ERROR(call());
      return 1e6 * SecondsSince(start);
    };
    for (int i = 0; i < config_.repeats.warmups + config_.repeats.runs; ++i) {
      ABSL_ASSIGN_OR_RETURN(const double device_us, us_of([&] {
                              return engine_.SearchOnDevice(collection_, on_device).status();
                            }));
      ABSL_ASSIGN_OR_RETURN(const double round_trip_us,
                            us_of([&] { return RoundTrip(buffers, batch, k); }));
      ABSL_ASSIGN_OR_RETURN(const double search_us,
                            us_of([&] { return engine_.Search(collection_, on_host).status(); }));
      if (i < config_.repeats.warmups) continue;
      device.push_back(device_us);
      round_trip.push_back(round_trip_us);
      search.push_back(search_us);
      if (device.size() >= 11 && SecondsSince(begin) > config_.repeats.seconds_max) break;
    }
    return Times{.device_us = Median(device),
                 .round_trip_us = Median(round_trip),
                 .search_us = Median(search)};
  }

  const Config& config_;
  Engine& engine_;
  const Collection& collection_;
  const int32_t dim_;
};

absl::Status RunDim(const Config& config, int32_t dim) {
  const int64_t rows_max = *std::max_element(config.rows_counts.begin(), config.rows_counts.end());
  const RowSource source(MakeRows(DataKind::kGaussian, rows_max, dim, 1), dim, RowType::kFloat32);
  ABSL_ASSIGN_OR_RETURN(
      const std::unique_ptr<Engine> engine,
      Engine::Create({.backend = BackendChoice::kGpu,
                      .memory_bytes = rows_max * (5 * int64_t{dim} + 512) + (int64_t{1} << 30)}));
  for (const int64_t rows_count : config.rows_counts) {
    ABSL_ASSIGN_OR_RETURN(const auto collection,
                          FillCollection(*engine, {.dim = dim}, source, rows_count));
    Case one(config, *engine, *collection, dim);
    for (const int32_t batch : config.batches) {
      for (const int32_t k : config.ks) ABSL_RETURN_IF_ERROR(one.Run(batch, k));
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const Config& config) {
  const absl::Status usable = gpu::ProbeGpu(0);
  if (!usable.ok()) {
    std::printf("nothing to measure: %s\n", std::string(usable.message()).c_str());
    return absl::OkStatus();
  }
  for (const int32_t dim : config.dims) ABSL_RETURN_IF_ERROR(RunDim(config, dim));
  return absl::OkStatus();
}

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("device_query_bench: queries in device memory compared with a trip to the host");
  nearfield::bench::Config config;
  nearfield::bench::AddTiny(app, [&config] {
    config.rows_counts = {1'000};
    config.batches = {1, 5};
    config.repeats = {.warmups = 1, .runs = 3, .seconds_max = 1};
  });
  nearfield::bench::AddPositive(app, "--n", config.rows_counts, "rows");
  nearfield::bench::AddPositive(app, "--dim", config.dims);
  nearfield::bench::AddPositive(app, "--k", config.ks);
  nearfield::bench::AddPositive(app, "--batch", config.batches);
  CLI11_PARSE(app, argc, argv);
  return nearfield::bench::ExitCode(nearfield::bench::Run(config));
}
