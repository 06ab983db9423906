#include "nearfield/client/upload.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "client/cpp/attribute_convert.h"
#include "client/cpp/block_cutter.h"
#include "client/cpp/check_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/core.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

absl::Status Check(const UploadOptions& options) {
  if (options.rows_max == 0) {
    return absl::InvalidArgumentError("rows_max: 0; declare at least the rows that will be sent");
  }
  return CheckText("collection", options.collection);
}

// Returns the time left until the deadline of a plan; nullopt if it has none.
std::optional<std::chrono::milliseconds> LeftOf(const RetryPlan& plan, Clock& clock) {
  if (plan.deadline == TimePoint::max()) return std::nullopt;
  return std::chrono::duration_cast<std::chrono::milliseconds>(plan.deadline - clock.Now());
}

}  // namespace

// The caller's thread writes. A second thread reads all the time, because a server stops when its
// progress messages are not read.
class Upload::Impl {
 public:
  Impl(std::shared_ptr<Client::Core> core, const UploadOptions& options)
      : core_(std::move(core)), options_(options), started_(std::chrono::steady_clock::now()) {}

  ~Impl() {
    if (!stream_ || finished_) return;
    context_.TryCancel();
    static_cast<void>(Finish());
  }

  // Opens the stream and waits until the server accepts or refuses. Without `timeout` it waits as
  // long as the connection lives.
  Attempt Begin(std::optional<std::chrono::milliseconds> timeout, uint64_t block_bytes_max) {
    block_bytes_max_ = block_bytes_max;
    // With a deadline, `timeout` is the time left until it.
    if (options_.deadline) context_.set_deadline(std::chrono::system_clock::now() + *timeout);
    core_->Introduce(&context_);
    stream_ = core_->stub<IngestStub>().Upload(&context_);
    v1::UploadRequest request;
    v1::UploadBegin* begin = request.mutable_begin();
    begin->set_collection(options_.collection);
    begin->set_mode(static_cast<v1::UploadMode>(options_.mode));
    if (options_.accept_zero_rows) begin->set_zero_rows(v1::ZERO_ROWS_ACCEPT);
    if (!options_.token.empty()) begin->set_upload_token(options_.token);
    begin->set_rows_max(options_.rows_max);
    begin->set_payload_bytes_max(options_.payload_bytes_max);
    reader_ = std::thread([this] { ReadAll(); });
    stream_->Write(request);  // a failure ends the reads, and Finish() returns the reason
    std::unique_lock<std::mutex> lock(mutex_);
    const auto responded = [this] { return accepted_ || committed_ || reads_ended_; };
    bool answered = true;
    if (timeout) {
      answered = changed_.wait_for(lock, *timeout, responded);
    } else {
      changed_.wait(lock, responded);
    }
    was_committed_ = committed_.has_value();
    rows_to_skip_ = was_committed_ ? committed_->rows_count : rows_resumed_;
    if (accepted_ || was_committed_) return {};
    lock.unlock();
    if (!answered) context_.TryCancel();
    Attempt outcome = Finish();
    if (!answered) {
      outcome.status = absl::DeadlineExceededError(
          Cat("the server did not accept the upload within ", timeout->count(), " ms"));
    }
    status_ = outcome.status;
    return outcome;
  }

  absl::Status Write(const RowBlock& rows) {
    NF_RETURN_IF_ERROR(status_);
    NF_RETURN_IF_ERROR(CheckColumns(rows));
    if (rows.ids != nullptr) NF_RETURN_IF_ERROR(CheckText("ids", *rows.ids));
    NF_RETURN_IF_ERROR(CheckText(rows.attributes));
    const size_t count = rows.ids == nullptr ? 0 : Count(*rows.ids);
    std::vector<ColumnPlace> places = StartOf(rows);
    for (size_t begin = Skip(count, &places); begin < count;) {
      const std::vector<ColumnPlace> from = places;
      const absl::StatusOr<size_t> end = BlockEnd(rows, begin, block_bytes_max_, &places);
      if (!end.ok()) return Fail(end.status());
      v1::UploadRequest request;
      FillBlock(rows, begin, *end, request.mutable_block());
      for (size_t i = 0; i < from.size(); ++i) {
        AddColumn(from[i], places[i], request.mutable_block());
      }
      NF_RETURN_IF_ERROR(SendBlock(*end - begin, request));
      begin = *end;
    }
    return absl::OkStatus();
  }

  uint64_t rows_resumed() const { return was_committed_ ? committed_->rows_count : rows_resumed_; }
  bool was_committed() const { return was_committed_; }

  absl::StatusOr<UploadResult> Commit() {
    NF_RETURN_IF_ERROR(status_);
    v1::UploadRequest request;
    request.mutable_commit()->set_rows_count(rows_skipped_ + rows_sent_);
    const bool sent = !was_committed_ && stream_->Write(request);
    stream_->WritesDone();
    const Attempt outcome = Finish();
    status_ = outcome.status;
    if (committed_) {  // the rows are committed, even if the stream failed afterwards
      status_ = absl::FailedPreconditionError("the upload has been committed");
      if (!was_committed_) Report();
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
        Cat(status_.message(), "; the commit had been sent, so the rows may be there: ",
            options_.token.empty() ? "count before repeating" : "repeat it with the same token"));
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
      if (response.has_accepted()) {
        accepted_ = true;
        next_block_ = response.accepted().next_block();
        rows_resumed_ = response.accepted().rows_received();
        rows_received_ = rows_resumed_;
      }
      if (response.has_committed()) {
        rows_received_ = response.committed().rows_count();
        committed_ = UploadResult{.epoch = response.committed().epoch(),
                                  .rows_count = response.committed().rows_count(),
                                  .rows_replaced = response.committed().rows_replaced(),
                                  .request_id = {}};
      }
      changed_.notify_all();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    reads_ended_ = true;
    changed_.notify_all();
  }

  // Ends an upload that may have been sent in part: committing the rest must be impossible.
  absl::Status Fail(const absl::Status& status) {
    context_.TryCancel();
    static_cast<void>(Finish());
    status_ = status;
    return status_;
  }

  // Skips the rows that the server already has; returns the first row to send.
  size_t Skip(size_t count, std::vector<ColumnPlace>* places) {
    const auto skipped =
        static_cast<size_t>(was_committed_ ? count : std::min<uint64_t>(count, rows_to_skip_));
    for (ColumnPlace& place : *places) {
      for (size_t i = 0; i < skipped; ++i) place.Advance();
    }
    rows_to_skip_ -= std::min<uint64_t>(skipped, rows_to_skip_);
    rows_skipped_ += skipped;
    if (skipped > 0) Report();
    return skipped;
  }

  static void FillBlock(const RowBlock& rows, size_t begin, size_t end, v1::UploadBlock* block) {
    const size_t row_bytes = rows.vectors.size() / Count(*rows.ids);
    ToProto(*rows.ids, begin, end, block->mutable_ids());
    block->mutable_vectors()->set_dtype(ToProto(rows.dtype));
    block->mutable_vectors()->set_data(rows.vectors.data() + begin * row_bytes,
                                       (end - begin) * row_bytes);
    for (size_t i = begin; i < end && !rows.payloads.empty(); ++i) {
      block->add_payloads(rows.payloads[i]);
    }
  }

  // Adds the values of the rows between two positions.
  static void AddColumn(const ColumnPlace& from, const ColumnPlace& to, v1::UploadBlock* block) {
    if (to.rows_with_value() == from.rows_with_value()) return;  // no column: no row has a value
    ToProto(from, to, block->add_attributes());
  }

  absl::Status SendBlock(size_t rows_count, v1::UploadRequest& request) {
    if (!options_.token.empty()) request.mutable_block()->set_block_number(next_block_);
    if (!stream_->Write(request)) {
      status_ = Finish().status;
      if (status_.ok()) status_ = absl::InternalError("malformed reply: the upload ended early");
      return status_;
    }
    ++next_block_;
    rows_sent_ += rows_count;
    bytes_sent_ += request.block().ByteSizeLong();
    Report();
    return absl::OkStatus();
  }

  // Waits for the end of the stream. Joins the reader first: Finish() must not run before a read
  // ends.
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
    progress.rows_skipped = rows_skipped_;
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
  bool was_committed_ = false;
  uint64_t next_block_ = 0;    // set by the reader before accepted_, then owned by the writer
  uint64_t rows_resumed_ = 0;  // likewise; rows that the server had when this stream began
  uint64_t rows_to_skip_ = 0;  // part of these that Write has not skipped yet
  uint64_t rows_skipped_ = 0;
  uint64_t rows_sent_ = 0;
  uint64_t bytes_sent_ = 0;
  std::atomic<uint64_t> rows_received_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool accepted_ = false;                  // guarded by mutex_
  bool reads_ended_ = false;               // guarded by mutex_
  std::optional<UploadResult> committed_;  // owned by the reader until it is joined
};

Upload::Upload(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Upload::Upload(Upload&&) noexcept = default;
Upload& Upload::operator=(Upload&&) noexcept = default;
Upload::~Upload() = default;

absl::Status Upload::Write(const RowBlock& rows) { return impl_->Write(rows); }
absl::StatusOr<UploadResult> Upload::Commit() { return impl_->Commit(); }
void Upload::Cancel() { impl_->Cancel(); }
uint64_t Upload::rows_resumed() const { return impl_->rows_resumed(); }
bool Upload::was_committed() const { return impl_->was_committed(); }

absl::StatusOr<Upload> Client::BeginUpload(const UploadOptions& options) {
  NF_RETURN_IF_ERROR(Check(options));
  const Client::Core::CallSpec spec = core_->SpecFrom(options.deadline);
  NF_ASSIGN_OR_RETURN(const Limits limits, core_->GetLimits(spec));
  const uint64_t block_bytes_max = std::min(options.block_bytes_max, limits.upload_block_bytes_max);
  RetryPlan plan = core_->PlanFor(spec);
  // Before a server accepts a resumed upload, it reads all rows that it has of it.
  if (!options.token.empty() && !options.deadline) plan.deadline = TimePoint::max();
  std::unique_ptr<Upload::Impl> impl;
  NF_RETURN_IF_ERROR(RunWithRetries(plan, core_->clock(), [&] {
    impl = std::make_unique<Upload::Impl>(core_, options);
    return impl->Begin(LeftOf(plan, core_->clock()), block_bytes_max);
  }));
  return Upload(std::move(impl));
}

absl::StatusOr<UploadResult> Client::UploadWithToken(
    const UploadOptions& options, const std::function<absl::Status(Upload&)>& write_all) {
  NF_RETURN_IF_ERROR(Check(options));
  if (options.token.empty()) {
    return absl::InvalidArgumentError("token: empty; only an upload with a token can go on");
  }
  Clock& clock = core_->clock();
  const RetryPlan plan = {
      .policy = core_->options().retry,
      .deadline = options.deadline ? clock.Now() + *options.deadline : TimePoint::max()};
  NF_ASSIGN_OR_RETURN(const Limits limits, core_->GetLimits(core_->SpecFrom(options.deadline)));
  const uint64_t block_bytes_max = std::min(options.block_bytes_max, limits.upload_block_bytes_max);
  absl::StatusOr<UploadResult> result = absl::UnknownError("not tried");
  uint64_t rows_known = 0;
  bool first = true;
  bool advanced = false;
  const auto attempt = [&]() -> Attempt {
    Upload upload(std::make_unique<Upload::Impl>(core_, options));
    Attempt begun = upload.impl_->Begin(LeftOf(plan, clock), block_bytes_max);
    // A server that has not yet noticed the end of the previous stream still holds its token.
    begun.retry_always = !std::exchange(first, false) && absl::IsFailedPrecondition(begun.status);
    if (!begun.status.ok()) return begun;
    advanced |= upload.rows_resumed() > rows_known;
    rows_known = std::max(rows_known, upload.rows_resumed());
    const absl::Status written = write_all(upload);
    result = written.ok() ? upload.Commit() : absl::StatusOr<UploadResult>(written);
    return {.status = result.status()};
  };
  for (;;) {
    const absl::Status status = RunWithRetries(plan, clock, attempt);
    if (status.ok()) return result;
    if (!std::exchange(advanced, false) || !absl::IsUnavailable(status)) return status;
  }
}

absl::StatusOr<UploadState> Client::GetUpload(std::string_view collection, std::string_view token,
                                              const CallOptions& options) {
  v1::GetUploadRequest request;
  request.set_collection(collection.data(), collection.size());
  request.set_upload_token(token.data(), token.size());
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&IngestStub::GetUpload, request, Retried(options)));
  return UploadState{.committed = response.committed(),
                     .rows_count = response.rows_count(),
                     .epoch = response.epoch(),
                     .next_block = response.next_block()};
}

absl::StatusOr<OpenUploads> Client::ListUploads(std::optional<uint32_t> uploads_max,
                                                const CallOptions& options) {
  v1::ListUploadsRequest request;
  if (uploads_max) request.set_uploads_max(*uploads_max);
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&IngestStub::ListUploads, request, Retried(options)));
  OpenUploads open = {.uploads = {}, .uploads_count = response.uploads_count()};
  for (const v1::OpenUpload& upload : response.uploads()) {
    open.uploads.push_back({.token = upload.upload_token(),
                            .collection = upload.collection(),
                            .mode = static_cast<UploadMode>(upload.mode()),
                            .rows_count = upload.rows_count(),
                            .bytes_on_disk = upload.bytes_on_disk(),
                            .untouched_s = upload.untouched_s(),
                            .is_live = upload.is_live()});
  }
  return open;
}

absl::StatusOr<uint64_t> Client::DropUpload(std::string_view collection, std::string_view token,
                                            const CallOptions& options) {
  v1::DropUploadRequest request;
  request.set_collection(collection.data(), collection.size());
  request.set_upload_token(token.data(), token.size());
  NF_ASSIGN_OR_RETURN(auto response,
                      core_->Call(&IngestStub::DropUpload, request, Retried(options)));
  return response.rows_count();
}

}  // namespace nearfield::client
