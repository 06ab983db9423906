// Compares the durable store with the disk that holds it: upload, commit, load (warm and cold),
// compaction; and uploads into the store and the engine of a server, without a transport.
//
// The peers are the same bytes without a store: write and fdatasync of a plain file, and reads of
// it. Rounds of writes alternate, and the medians are printed. The rows are checked bit for bit
// when they are read back, before any read is timed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "nearfield/engine/engine.h"
#include "server/collections/catalog.h"
#include "server/collections/collection_upload.h"
#include "server/store/store.h"
#include "tests/bench/fail.h"
#include "tests/bench/options.h"
#include "tests/bench/timing.h"
#include "tests/testing/random.h"

namespace nearfield::bench {
namespace {

struct Options {
  int64_t rows = int64_t{1} << 20;
  int32_t dim = 768;
  int64_t block_rows = 1024;
  int64_t rounds = 3;  // of writes
  std::string dir = "/tmp";
};

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return SecondsSince(begin);
}

void Print(const char* what, double bytes, double seconds) {
  std::printf("%-34s %8.3f s %8.2f GB/s\n", what, seconds, bytes / seconds * 1e-9);
  std::fflush(stdout);
}

void PrintMedian(const char* what, double bytes, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  Print(what, bytes, seconds[seconds.size() / 2]);
}

// Removes these files from the page cache.
void Forget(const std::string& dir) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    ::fdatasync(fd);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

class StoreBench {
 public:
  StoreBench(Options options, std::string dir)
      : options_(std::move(options)), dir_(std::move(dir)) {
    testing::Random random(1);
    block_.resize(static_cast<size_t>(options_.block_rows * options_.dim) * 4);
    for (size_t i = 0; i + 8 <= block_.size(); i += 8) {
      const uint64_t bits = random.Bits() & 0x3fffffff3fffffffu;  // both fp32 halves are finite
      std::memcpy(block_.data() + i, &bits, 8);
    }
    bytes_ = static_cast<double>(options_.rows * options_.dim) * 4;
  }

  absl::Status Run() {
    ABSL_RETURN_IF_ERROR(TimeWrites());
    TimePlainReads();
    ABSL_RETURN_IF_ERROR(Load(2, /*check=*/true).status());
    for (const bool cold : {false, true}) {
      for (const int32_t threads : {1, 2}) {
        std::vector<double> seconds;
        for (int i = 0; i < 3; ++i) {
          if (cold) Forget(dir_ + "/data");
          ABSL_ASSIGN_OR_RETURN(const double took, Load(threads, /*check=*/false));
          seconds.push_back(took);
        }
        const std::string name =
            std::string(cold ? "load, cold, threads " : "load, warm, threads ") +
            std::to_string(threads);
        PrintMedian(name.c_str(), bytes_, seconds);
      }
    }
    ABSL_RETURN_IF_ERROR(TimeDeletes());
    return TimeCompaction();
  }

 private:
  int64_t blocks() const { return options_.rows / options_.block_rows; }

  // Makes a block with ids 0, 1, ... The first 8 bytes of a block are its number, so that no two
  // are equal.
  store::StoredBlock Block(int64_t number, IdColumn* ids) {
    for (int64_t i = 0; i < options_.block_rows; ++i) {
      ids->AppendNumber(static_cast<uint64_t>(number * options_.block_rows + i));
    }
    std::memcpy(block_.data(), &number, sizeof number);
    return {.number = number, .ids = ids, .rows = block_};
  }

  // Each round writes the same bytes in each of the ways.
  absl::Status TimeWrites() {
    std::vector<double> plain;
    std::vector<double> stored;
    std::vector<double> in_turn;
    std::vector<double> at_once;
    for (int64_t round = 0; round < options_.rounds; ++round) {
      plain.push_back(Seconds([&] { WritePlainFile(); }));
      ABSL_RETURN_IF_ERROR(TimeUpload(&stored));
      ABSL_RETURN_IF_ERROR(TimeServedUpload(/*segment_threads=*/0, &in_turn));
      ABSL_RETURN_IF_ERROR(TimeServedUpload(/*segment_threads=*/1, &at_once));
    }
    PrintMedian("plain file, write and fdatasync", bytes_, plain);
    PrintMedian("upload, durable and committed", bytes_, stored);
    PrintMedian("upload, engine and disk in turn", bytes_, in_turn);
    PrintMedian("upload, engine and disk at once", bytes_, at_once);
    return absl::OkStatus();
  }

  std::string PlainPath() const { return dir_ + "/plain"; }

  void WritePlainFile() {
    std::filesystem::remove(PlainPath());
    const int fd = ::open(PlainPath().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (int64_t i = 0; i < blocks(); ++i) {
      const auto size = static_cast<int64_t>(block_.size());
      if (::pwrite(fd, block_.data(), block_.size(), i * size) < 0) std::abort();
      ::sync_file_range(fd, i * size, size, SYNC_FILE_RANGE_WRITE);
    }
    if (::fdatasync(fd) != 0) std::abort();
    ::close(fd);
  }

  void TimePlainReads() {
    const int fd = ::open(PlainPath().c_str(), O_RDONLY | O_CLOEXEC);
    std::vector<uint8_t> buffer(size_t{8} << 20);
    for (const bool cold : {false, true}) {
      if (cold) Forget(dir_);
      const double read = Seconds([&] {
        int64_t offset = 0;
        for (ssize_t got = 1; got > 0; offset += got) {
          got = ::pread(fd, buffer.data(), buffer.size(), offset);
        }
      });
      Print(cold ? "plain file, read, cold" : "plain file, read, warm", bytes_, read);
    }
    ::close(fd);
    std::filesystem::remove(PlainPath());
  }

  // Makes a new store, and uploads into it.
  absl::Status TimeUpload(std::vector<double>* seconds) {
    store_ = nullptr;
    std::filesystem::remove_all(dir_ + "/data");
    ABSL_ASSIGN_OR_RETURN(store_, store::Store::Open({.dir = dir_ + "/data"}));
    ABSL_ASSIGN_OR_RETURN(id_, store_->CreateCollection("bench", {.dim = options_.dim}, ""));
    epoch_ = 0;
    const auto upload = [&]() -> absl::Status {
      ABSL_ASSIGN_OR_RETURN(
          const std::unique_ptr<store::SegmentWriter> writer,
          store_->BeginUpload(id_, {.bytes_expected = store::UploadBytes({.dim = options_.dim},
                                                                         options_.rows, 0)}));
      for (int64_t i = 0; i < blocks(); ++i) {
        IdColumn ids;
        ABSL_RETURN_IF_ERROR(writer->Append(Block(i, &ids)));
      }
      ABSL_RETURN_IF_ERROR(writer->Sync());
      return store_->CommitUpload(writer.get(), {.epoch = ++epoch_});
    };
    absl::Status status;
    seconds->push_back(Seconds([&] { status = upload(); }));
    return status;
  }

  // Makes the catalog of a server with the CPU backend, and uploads into it. Without a thread for
  // segment writes, the disk waits for the engine.
  absl::Status TimeServedUpload(int64_t segment_threads, std::vector<double>* seconds) {
    const std::string folder = dir_ + "/served";
    const auto row_bytes = int64_t{6} * options_.dim + 64;  // a row, its code, and the rest
    ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                          Engine::Create({.backend = BackendChoice::kCpu,
                                          .memory_bytes = options_.rows * row_bytes,
                                          .host_memory_bytes = int64_t{1} << 30}));
    ABSL_ASSIGN_OR_RETURN(auto kept, store::Store::Open({.dir = folder}));
    server::Catalog catalog(
        {.engine = engine.get(),
         .store = std::move(kept),
         .segment_writes = {.what = "segment writes", .threads = segment_threads}},
        /*collections_max=*/1);
    ABSL_ASSIGN_OR_RETURN(const auto named, catalog.Create("bench", {.dim = options_.dim}));
    const auto upload = [&]() -> absl::Status {
      ABSL_ASSIGN_OR_RETURN(
          const auto running,
          server::CollectionUpload::Begin(named, {.reservation = {.rows_max = options_.rows},
                                                  .token = "",
                                                  .caller = "",
                                                  .check_caller = nullptr}));
      for (int64_t i = 0; i < blocks(); ++i) {
        IdColumn ids;
        const store::StoredBlock block = Block(i, &ids);
        ABSL_RETURN_IF_ERROR(running->Append({.ids = &ids, .rows = block.rows},
                                             {.rows_count = options_.block_rows}));
      }
      return running->Commit().status();
    };
    absl::Status status;
    seconds->push_back(Seconds([&] { status = upload(); }));
    std::filesystem::remove_all(folder);
    return status;
  }

  absl::StatusOr<double> Load(int32_t threads, bool check) {
    absl::Status status;
    int64_t rows = 0;
    const double seconds = Seconds([&] {
      status = store_->Load(id_,
                            [&](const store::StoredBlock& block) {
                              rows += block.ids->size();
                              if (!check) return absl::OkStatus();
                              IdColumn ids;
                              const store::StoredBlock expected = Block(block.number, &ids);
                              const bool same = block.rows == expected.rows &&
                                                block.ids->number(0) == expected.ids->number(0);
                              return same ? absl::OkStatus()
                                          : absl::DataLossError("other rows came back");
                            },
                            {.threads = threads});
    });
    ABSL_RETURN_IF_ERROR(status);
    if (rows != options_.rows) return absl::DataLossError("other rows came back");
    return seconds;
  }

  absl::Status TimeDeletes() {
    constexpr int64_t kDeletes = 200;
    std::vector<double> seconds;
    const int64_t each = std::max<int64_t>(options_.rows / 4 / kDeletes, 1);
    for (int64_t i = 0; i < kDeletes && (i + 1) * each < options_.rows; ++i) {
      IdColumn ids;
      for (int64_t k = 0; k < each; ++k) ids.AppendNumber(static_cast<uint64_t>(i * each + k));
      absl::Status status;
      seconds.push_back(Seconds([&] { status = store_->CommitDelete(id_, ++epoch_, ids); }));
      ABSL_RETURN_IF_ERROR(status);
    }
    std::sort(seconds.begin(), seconds.end());
    std::printf("%-34s %8.3f ms median %8.3f ms p99\n", "delete, durable",
                seconds[seconds.size() / 2] * 1e3, seconds[(seconds.size() - 1) * 99 / 100] * 1e3);
    return absl::OkStatus();
  }

  absl::Status TimeCompaction() {
    absl::StatusOr<store::CompactionResult> result;
    const double seconds = Seconds([&] { result = store_->Compact(id_, {}); });
    ABSL_RETURN_IF_ERROR(result.status());
    Print("compaction, bytes written", static_cast<double>(result->bytes_after), seconds);
    return absl::OkStatus();
  }

  const Options options_;
  const std::string dir_;
  std::vector<uint8_t> block_;
  double bytes_ = 0;
  std::unique_ptr<store::Store> store_;
  int64_t id_ = 0;
  uint64_t epoch_ = 0;
};

}  // namespace
}  // namespace nearfield::bench

int main(int argc, char** argv) {
  CLI::App app("store_bench: the durable store compared with the disk that holds it");
  nearfield::bench::Options options;
  nearfield::bench::AddTiny(app, [&] {
    options.rows = 4096;
    options.dim = 64;
    options.rounds = 1;
  });
  nearfield::bench::AddPositive(app, "--rows", options.rows);
  nearfield::bench::AddPositive(app, "--dim", options.dim);
  nearfield::bench::AddPositive(app, "--rounds", options.rounds, "of writes");
  app.add_option("--dir", options.dir, "on the disk to measure")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.rows -= options.rows % options.block_rows;
  std::string dir = options.dir + "/nearfield-store-bench-XXXXXX";
  if (options.rows == 0 || ::mkdtemp(dir.data()) == nullptr) return 2;
  const absl::Status status = nearfield::bench::StoreBench(options, dir).Run();
  std::filesystem::remove_all(dir);
  return nearfield::bench::ExitCode(status);
}
