#include "nearfield/client/upload.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "client/cpp/block_cutter.h"
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {

// The caller's thread writes; a thread of our own reads all along, because a server whose progress
// nobody reads would stop.
class Upload::Impl {
 public:
  Impl(std::shared_ptr<Client::Core> core, const UploadOptions& options)
      : core_(std::move(core)), options_(options), started_(std::chrono::steady_clock::now()) {}

  ~Impl() {
    if (!stream_ || finished_) return;
    context_.TryCancel();
    static_cast<void>(Finish());
  }

  // Opens the stream and waits until the server has accepted or refused.
  Attempt Begin(std::chrono::milliseconds patience, uint64_t block_bytes_max) {
    block_bytes_max_ = block_bytes_max;
    // What is left of it, where this is not the first try.
    if (options_.deadline) context_.set_deadline(std::chrono::system_clock::now() + patience);
    stream_ = core_->ingest().Upload(&context_);
    v1::UploadRequest request;
    v1::UploadBegin* begin = request.mutable_begin();
    begin->set_collection(options_.collection);
    begin->set_mode(v1::UPLOAD_MODE_INSERT);
    begin->set_rows_max(options_.rows_max);
    begin->set_payload_bytes_max(options_.payload_bytes_max);
    reader_ = std::thread([this] { ReadAll(); });
    stream_->Write(request);  // a failure ends the reads, and Finish() tells why
    std::unique_lock<std::mutex> lock(mutex_);
    const bool answered =
        changed_.wait_for(lock, patience, [this] { return accepted_ || reads_ended_; });
    if (accepted_) return {};
    lock.unlock();
    if (!answered) context_.TryCancel();
    Attempt outcome = Finish();
    if (!answered) {
      outcome.status = absl::DeadlineExceededError(
          Cat("the server did not accept the upload within ", patience.count(), " ms"));
    }
    status_ = outcome.status;
    return outcome;
  }

  absl::Status Write(const RowBlock& rows) {
    NF_RETURN_IF_ERROR(status_);
    NF_RETURN_IF_ERROR(CheckColumns(rows));
    if (rows.ids != nullptr) NF_RETURN_IF_ERROR(CheckText("ids", *rows.ids));
    const size_t count = rows.ids == nullptr ? 0 : Count(*rows.ids);
    for (size_t begin = 0; begin < count;) {
      const absl::StatusOr<size_t> end = BlockEnd(rows, begin, block_bytes_max_);
      if (!end.ok()) return GiveUp(end.status());
      NF_RETURN_IF_ERROR(WriteBlock(rows, begin, *end));
      begin = *end;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<UploadResult> Commit() {
    NF_RETURN_IF_ERROR(status_);
    v1::UploadRequest request;
    request.mutable_commit()->set_rows_count(rows_sent_);
    const bool sent = stream_->Write(request);
    stream_->WritesDone();
    const Attempt outcome = Finish();
    status_ = outcome.status;
    if (committed_) {  // the rows are there, whatever befell the stream after it said so
      status_ = absl::FailedPreconditionError("the upload has been committed");
      Report();
      return *committed_;
    }
    if (status_.ok()) {
      status_ = absl::InternalError("malformed reply: the upload ended without its commit");
    }
    const bool in_doubt = status_.code() == absl::StatusCode::kUnavailable ||
                          status_.code() == absl::StatusCode::kDeadlineExceeded ||
                          status_.code() == absl::StatusCode::kCancelled;
    if (!sent || !in_doubt) return status_;
    absl::Status doubtful(
        status_.code(),
        Cat(status_.message(),
            "; the commit had been sent, so the rows may be there: count before repeating"));
    status_.ForEachPayload(
        [&](absl::string_view key, const absl::Cord& value) { doubtful.SetPayload(key, value); });
    status_ = doubtful;
    return status_;
  }

  void Cancel() { context_.TryCancel(); }

 private:
  void ReadAll() {
    v1::UploadResponse response;
    while (stream_->Read(&response)) {
      if (response.has_progress()) rows_received_ = response.progress().rows_received();
      const std::lock_guard<std::mutex> lock(mutex_);
      if (response.has_accepted()) accepted_ = true;
      if (response.has_committed()) {
        rows_received_ = response.committed().rows_count();
        committed_ = UploadResult{.epoch = response.committed().epoch(),
                                  .rows_count = response.committed().rows_count(),
                                  .request_id = {}};
      }
      changed_.notify_all();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    reads_ended_ = true;
    changed_.notify_all();
  }

  // Ends an upload of which a part may have been sent: a commit of the rest must not be possible.
  absl::Status GiveUp(const absl::Status& status) {
    context_.TryCancel();
    static_cast<void>(Finish());
    status_ = status;
    return status_;
  }

  absl::Status WriteBlock(const RowBlock& rows, size_t begin, size_t end) {
    const size_t row_bytes = rows.vectors.size() / Count(*rows.ids);
    v1::UploadRequest request;
    v1::UploadBlock* block = request.mutable_block();
    ToProto(*rows.ids, begin, end, block->mutable_ids());
    block->mutable_vectors()->set_dtype(ToProto(rows.dtype));
    block->mutable_vectors()->set_data(rows.vectors.data() + begin * row_bytes,
                                       (end - begin) * row_bytes);
    for (size_t i = begin; i < end && !rows.payloads.empty(); ++i) {
      block->add_payloads(rows.payloads[i]);
    }
    if (!stream_->Write(request)) {
      status_ = Finish().status;
      if (status_.ok()) status_ = absl::InternalError("malformed reply: the upload ended early");
      return status_;
    }
    rows_sent_ += end - begin;
    bytes_sent_ += block->ByteSizeLong();
    Report();
    return absl::OkStatus();
  }

  // Waits for the end of the stream. The reader goes first: Finish() may not overtake a read.
  Attempt Finish() {
    reader_.join();
    finished_ = true;
    const grpc::Status status = stream_->Finish();
    if (committed_) committed_->request_id = RequestIdIn(context_);
    return core_->Outcome(status, context_);
  }

  void Report() {
    if (!options_.on_progress) return;
    UploadProgress progress;
    progress.rows_sent = rows_sent_;
    progress.rows_received = rows_received_;
    progress.bytes_sent = bytes_sent_;
    progress.elapsed = std::chrono::steady_clock::now() - started_;
    options_.on_progress(progress);
  }

  std::shared_ptr<Client::Core> core_;
  const UploadOptions options_;
  const std::chrono::steady_clock::time_point started_;
  uint64_t block_bytes_max_ = 0;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::UploadRequest, v1::UploadResponse>> stream_;
  std::thread reader_;
  bool finished_ = false;
  absl::Status status_;  // not OK once the upload is over
  uint64_t rows_sent_ = 0;
  uint64_t bytes_sent_ = 0;
  std::atomic<uint64_t> rows_received_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool accepted_ = false;                  // guarded by mutex_
  bool reads_ended_ = false;               // guarded by mutex_
  std::optional<UploadResult> committed_;  // the reader's until it is joined
};

Upload::Upload(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Upload::Upload(Upload&&) noexcept = default;
Upload& Upload::operator=(Upload&&) noexcept = default;
Upload::~Upload() = default;

absl::Status Upload::Write(const RowBlock& rows) { return impl_->Write(rows); }
absl::StatusOr<UploadResult> Upload::Commit() { return impl_->Commit(); }
void Upload::Cancel() { impl_->Cancel(); }

absl::StatusOr<Upload> Client::BeginUpload(const UploadOptions& options) {
  if (options.rows_max == 0) {
    return absl::InvalidArgumentError("rows_max: 0; declare at least the rows that will be sent");
  }
  NF_RETURN_IF_ERROR(CheckText("collection", options.collection));
  const Client::Core::CallSpec spec = core_->SpecFrom(options.deadline);
  NF_ASSIGN_OR_RETURN(const Limits limits, core_->GetLimits(spec));
  const uint64_t block_bytes_max = std::min(options.block_bytes_max, limits.upload_block_bytes_max);
  const RetryPlan plan = core_->PlanFor(spec);
  std::unique_ptr<Upload::Impl> impl;
  NF_RETURN_IF_ERROR(RunWithRetries(plan, core_->clock(), [&] {
    impl = std::make_unique<Upload::Impl>(core_, options);
    const auto patience =
        std::chrono::duration_cast<std::chrono::milliseconds>(plan.deadline - core_->clock().Now());
    return impl->Begin(patience, block_bytes_max);
  }));
  return Upload(std::move(impl));
}

}  // namespace nearfield::client
