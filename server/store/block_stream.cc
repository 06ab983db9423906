#include "server/store/block_stream.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/mutex.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/segment_reader.h"

namespace nearfield::store {
namespace {

// Memory for one read, kept for the next one, because page faults on new memory cost as much as the
// read.
struct ReadBuffer {
  std::unique_ptr<uint8_t[]> bytes;
  size_t capacity = 0;
};

// Blocks that are read together.
struct ReadJob {
  size_t source = 0;
  std::shared_ptr<const SegmentReader> reader;
  std::vector<BlockPlace> places;
  bool first = false;  // the first job of its source
  bool last = false;
  ReadBuffer buffer;
  std::vector<DecodedBlock> blocks;
  int64_t rows_dead = 0;
  absl::Status status;

  int64_t begin() const { return places.empty() ? 0 : places.front().offset; }
  int64_t bytes() const { return places.empty() ? 0 : places.back().end() - begin(); }
};

absl::Status DecodeAll(const StreamSource& source, const RowRecords* records, ReadJob* job) {
  if (job->places.empty()) return absl::OkStatus();  // a segment without rows
  const auto bytes = absl::MakeSpan(job->buffer.bytes.get(), static_cast<size_t>(job->bytes()));
  ABSL_RETURN_IF_ERROR(job->reader->Read(job->places, bytes));
  for (const BlockPlace& place : job->places) {
    ABSL_ASSIGN_OR_RETURN(
        DecodedBlock block,
        DecodeBlock(source.identity, job->reader->path(), place.offset,
                    bytes.subspan(static_cast<size_t>(place.offset - job->begin()),
                                  static_cast<size_t>(place.header.bytes()))));
    if (records != nullptr) {
      job->rows_dead += DropDeadRows(records->deleted, source.seq, source.superseded, &block);
      records->patches.Apply(source.seq, &block);
    }
    job->blocks.push_back(std::move(block));
  }
  return absl::OkStatus();
}

// Distributes reads to the threads in order, and returns their results in order.
class ReadAhead {
 public:
  ReadAhead(absl::Span<const StreamSource> sources, const RowRecords* records,
            const LoadOptions& options)
      : sources_(sources), records_(records), options_(options) {
    const int threads_count = std::clamp(options.threads, 1, 64);
    jobs_max_ = threads_count + 2;
    done_.resize(static_cast<size_t>(jobs_max_));
    threads_.reserve(static_cast<size_t>(threads_count));
    try {
      for (int i = 0; i < threads_count; ++i) threads_.emplace_back([this] { Work(); });
    } catch (const std::exception&) {
      // No memory, or no thread: continue with fewer threads.
      if (threads_.empty()) throw std::bad_alloc();
    }
  }

  ~ReadAhead() {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
    }
    changed_.NotifyAll();
    for (std::thread& thread : threads_) thread.join();
  }

  // Returns the next job in order; nullopt after the last one.
  std::optional<ReadJob> Next() {
    MutexLock lock(mutex_);
    std::optional<ReadJob>& next = Place(jobs_taken_);
    while (!next.has_value() && (!planned_all_ || jobs_taken_ < jobs_planned_)) changed_.Wait(lock);
    return std::exchange(next, std::nullopt);
  }

  // Releases a job whose blocks are no longer needed, so that another read can begin.
  void GiveBack(ReadJob job) {
    {
      const MutexLock lock(mutex_);
      buffers_.push_back(std::move(job.buffer));
      ++jobs_taken_;
      CHECK_LE(jobs_taken_, jobs_planned_);
    }
    changed_.NotifyAll();
  }

 private:
  std::optional<ReadJob>& Place(int64_t number) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return done_[static_cast<size_t>(number % jobs_max_)];
  }

  void Work() {
    for (;;) {
      MutexLock lock(mutex_);
      while (!stopped_ && !planned_all_ && jobs_planned_ - jobs_taken_ >= jobs_max_) {
        changed_.Wait(lock);
      }
      if (stopped_ || planned_all_) return;
      const int64_t number = jobs_planned_++;
      ReadJob job;
      // clang checks a lambda as a function of its own; this one runs with the mutex held.
      job.status = CatchOutOfMemory([&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return Plan(&job); });
      if (job.status.ok() && job.reader == nullptr) {  // there was nothing left to plan
        --jobs_planned_;
        planned_all_ = true;
      }
      // An error here ends the planning. The consumer gets it in order.
      if (!job.status.ok()) planned_all_ = true;
      const bool read = job.status.ok() && job.reader != nullptr;
      const bool deliver = job.reader != nullptr || !job.status.ok();
      lock.Unlock();
      if (read) {
        job.status =
            CatchOutOfMemory([&] { return DecodeAll(sources_[job.source], records_, &job); });
      }
      lock.Lock();
      if (deliver) {
        CHECK(!Place(number).has_value());
        Place(number) = std::move(job);
      }
      lock.Unlock();
      changed_.NotifyAll();
    }
  }

  // Finds the next blocks; leaves job->reader null at the end. Keeps the mutex while it reads
  // headers, which are small, because the next blocks depend on them.
  absl::Status Plan(ReadJob* job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reader_ != nullptr && reader_->AtEnd()) {
      reader_ = nullptr;
      ++source_;
    }
    if (source_ == sources_.size()) return absl::OkStatus();
    const StreamSource& source = sources_[source_];
    job->source = source_;
    if (reader_ == nullptr) {
      ABSL_ASSIGN_OR_RETURN(SegmentReader reader,
                            SegmentReader::Open(*source.directory, source.identity,
                                                source.extent.bytes, source.may_be_longer));
      reader_ = std::make_shared<SegmentReader>(std::move(reader));
      job->first = true;
    }
    ABSL_ASSIGN_OR_RETURN(job->places, reader_->NextBlocks(options_.read_bytes));
    job->last = reader_->AtEnd();
    job->reader = reader_;
    if (buffers_.empty()) buffers_.emplace_back();
    job->buffer = std::move(buffers_.back());
    buffers_.pop_back();
    if (const auto size = static_cast<size_t>(job->bytes()); job->buffer.capacity < size) {
      job->buffer.bytes = nullptr;
      job->buffer.bytes.reset(new uint8_t[size]);
      job->buffer.capacity = size;
    }
    if (job->bytes() > 0) job->reader->WillRead(reader_->offset(), options_.read_bytes);
    return absl::OkStatus();
  }

  const absl::Span<const StreamSource> sources_;
  const RowRecords* const records_;
  const LoadOptions& options_;
  int64_t jobs_max_ = 0;
  std::vector<std::thread> threads_;
  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<SegmentReader> reader_ ABSL_GUARDED_BY(mutex_);  // of sources_[source_]
  size_t source_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t jobs_planned_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t jobs_taken_ ABSL_GUARDED_BY(mutex_) = 0;  // jobs that the consumer gave back
  bool planned_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  // By number modulo jobs_max_, the maximum in flight.
  std::vector<std::optional<ReadJob>> done_ ABSL_GUARDED_BY(mutex_);
  std::vector<ReadBuffer> buffers_ ABSL_GUARDED_BY(mutex_);
};

// The size and the digest of one source, summed up as its blocks are delivered.
struct SourceTotals {
  SegmentExtent extent;
  Sha256 digest;
};

absl::Status CheckEnd(const StreamSource& source, const SourceTotals& found,
                      const std::string& path) {
  const bool same = found.extent.blocks == source.extent.blocks &&
                    found.extent.rows == source.extent.rows &&
                    found.extent.bytes == source.extent.bytes;
  if (!same) {
    return absl::DataLossError(absl::StrCat(path, ": ", found.extent.rows, " rows in ",
                                            found.extent.blocks, " blocks, ", found.extent.bytes,
                                            " bytes; the catalog says ", source.extent.rows, " in ",
                                            source.extent.blocks, ", ", source.extent.bytes));
  }
  if (!source.digest.empty() && DigestBytes(found.digest.Value()) != source.digest) {
    return absl::DataLossError(
        absl::StrCat(path, ": its digest is not the one in the catalog: not the committed file"));
  }
  return absl::OkStatus();
}

}  // namespace

StreamSource SourceOf(const CommittedSegment& segment) {
  const SegmentRow& row = segment.row();
  return {.directory = &segment.directory(),
          .identity = segment.identity(),
          .extent = {.blocks = row.blocks, .rows = row.rows, .bytes = row.bytes},
          .digest = row.digest,
          .seq = row.seq,
          .superseded = row.SupersededRows()};
}

absl::Status StreamBlocks(absl::Span<const StreamSource> sources, const RowRecords* records,
                          const LoadOptions& options, const BlockSink& sink, StreamTotals* totals) {
  LoadProgress progress;
  for (const StreamSource& source : sources) progress.bytes_total += source.extent.bytes;
  ReadAhead read_ahead(sources, records, options);
  SourceTotals found;
  while (std::optional<ReadJob> job = read_ahead.Next()) {
    if (options.cancelled && options.cancelled()) return absl::CancelledError("cancelled");
    ABSL_RETURN_IF_ERROR(job->status);
    const StreamSource& source = sources[job->source];
    if (job->first) {
      found = SourceTotals{.extent = {.bytes = kSegmentHeaderBytes}};
      found.digest.Add(absl::MakeConstSpan(job->reader->header()));
    }
    for (size_t i = 0; i < job->blocks.size(); ++i) {
      const BlockPlace& place = job->places[i];
      found.extent.blocks += 1;
      found.extent.rows += place.header.rows;
      found.extent.bytes = place.end();
      found.digest.Add(absl::MakeConstSpan(job->buffer.bytes.get() + (place.offset - job->begin()),
                                           static_cast<size_t>(place.header.PlaneBegin(0))));
      if (!job->blocks[i].ids.empty()) ABSL_RETURN_IF_ERROR(sink(source, job->blocks[i]));
      progress.rows_read += place.header.rows;
    }
    progress.bytes_read += job->bytes() + (job->first ? kSegmentHeaderBytes : 0);
    totals->rows_dead += job->rows_dead;
    if (job->last) {
      ABSL_RETURN_IF_ERROR(CheckEnd(source, found, job->reader->path()));
      totals->blocks += found.extent.blocks;
      totals->digest = std::move(found.digest);
      found = SourceTotals{};
    }
    if (options.progress) options.progress(progress);
    read_ahead.GiveBack(*std::move(job));
  }
  totals->rows += progress.rows_read;
  totals->bytes += progress.bytes_read;
  return absl::OkStatus();
}

}  // namespace nearfield::store
