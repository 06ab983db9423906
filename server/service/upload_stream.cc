#include "server/service/upload_stream.h"

#include <grpcpp/alarm.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/scheduler/retry_hint.h"
#include "server/service/call.h"
#include "server/service/decode.h"
#include "server/service/upload_session.h"

namespace nearfield::server {
namespace {

using Milliseconds = std::chrono::milliseconds;

// While the server drains, a client may be silent for upload_idle_ms / kDrainIdlePart.
constexpr int kDrainIdlePart = 6;
constexpr int64_t kDrainRetryMs = 1000;

gpr_timespec After(Milliseconds wait) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_millis(wait.count(), GPR_TIMESPAN));
}

// A message that takes more than this many times request_bytes_max after decoding is reserved in
// the ledger. Smaller ones are part of the memory of the upload's place (config/memory_plan.h).
constexpr int64_t kDecodedPart = 2;

// Handles one message while the next one is read, so at most two blocks are in memory. Progress is
// written when the stream is free. A client that does not take it in time is cancelled.
class UploadStream final : public UploadReactor, public std::enable_shared_from_this<UploadStream> {
 public:
  UploadStream(ServerState* state, grpc::CallbackServerContext* context)
      : state_(state),
        context_(context),
        call_(state, context, "Upload"),
        idle_max_(state->settings().upload_idle_ms.value()) {}
  ~UploadStream() override { GiveAll(); }

  void Start() {
    self_ = shared_from_this();
    call_.SetWake([weak = weak_from_this()] {
      if (const auto stream = weak.lock(); stream != nullptr) stream->OnServerEnds();
    });
    const std::lock_guard lock(mutex_);
    absl::Status status = Admit();
    if (!status.ok()) return End(std::move(status));
    last_active_ = state_->clock().Now();
    ArmAlarm(idle_max_);
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    last_active_ = state_->clock().Now();
    (ok ? arrived_ : read_all_) = true;
    Advance();
  }

  void OnWriteDone(bool ok) override {
    call_.ReplyTaken();
    const std::lock_guard lock(mutex_);
    writing_ = false;
    last_active_ = state_->clock().Now();
    if (!ok) call_.cancelled()->store(true);
    Advance();
  }

  void OnCancel() override {
    call_.cancelled()->store(true);
    const std::lock_guard lock(mutex_);
    Advance();
  }

  void OnDone() override {
    call_.ReplyTaken();  // running work may hold the stream
    std::unique_ptr<grpc::Alarm> alarm;
    {
      const std::lock_guard lock(mutex_);
      alarm = std::move(alarm_);
    }
    alarm = nullptr;  // cancels it; the stream lives until its last callback has run
    self_.reset();
  }

 private:
  absl::Status Admit() {
    const absl::StatusOr<Core*> core = call_.Enter();
    if (!core.ok()) return core.status();
    core_ = *core;
    auto place = state_->upload_places().Take(call_.caller(),
                                              [weak = weak_from_this()](const absl::Status& why) {
                                                if (const auto self = weak.lock())
                                                  self->LosePlace(why);
                                              });
    if (!place.ok()) return place.status();
    place_ = *std::move(place);
    session_.emplace(&core_->catalog, &state_->limits(), call_.caller());
    return absl::OkStatus();
  }

  // Called on a thread of the refused upload, which holds the lock of its own stream. There is no
  // lock cycle, because that upload has no place that this one could take. If the client does not
  // take the write in progress, the alarm ends the stream.
  void LosePlace(const absl::Status& why) {
    const std::lock_guard lock(mutex_);
    if (finished_ || end_.has_value()) return;
    lost_ = why;
    if (!working_) End(why);  // else it ends after the work, which may commit
  }

  // Starts everything that can be started. Requires: mutex_.
  void Advance() {
    if (finished_) return;
    if (end_.has_value()) return FinishIfQuiet();
    const absl::Status dead = call_.DeadStatus();
    if (!dead.ok()) return End(dead);
    if (!writing_ && news_.has_value()) {
      outgoing_ = *std::exchange(news_, std::nullopt);
      writing_ = true;
      call_.WatchReply();
      StartWrite(&outgoing_);
    }
    if (working_) return;
    if (arrived_) {
      arrived_ = false;
      working_ = true;
      place_->Pause();
      current_.Swap(&incoming_);
      absl::Status posted = core_->writes.Post([self = shared_from_this()] { self->Work(); });
      if (!posted.ok()) {
        working_ = false;
        End(std::move(posted));
      }
    } else if (read_all_) {
      End(WithArgument(
          absl::InvalidArgumentError("the stream ended before commit: nothing is committed"),
          {.field = "message", .value = "the end of the stream", .limit = "commit"}));
    }
  }

  // Runs on a worker. Only this function and GiveUp use the session.
  void Work() {
    absl::StatusOr<pb::UploadResponse> response = HandleMessage();
    const std::lock_guard lock(mutex_);
    working_ = false;
    last_active_ = state_->clock().Now();
    place_->Resume(session_->totals().bytes - std::exchange(bytes_, session_->totals().bytes));
    call_.record.collection = session_->collection();
    call_.record.rows = session_->totals().rows;
    if (finished_) return GiveAll();
    if (!response.ok()) return End(response.status());
    if (session_->committed()) {
      committed_ = *std::move(response);
      return End(absl::OkStatus());
    }
    if (!lost_.ok()) return End(lost_);
    news_ = *std::move(response);
    Advance();
  }

  absl::StatusOr<pb::UploadResponse> HandleMessage() {
    ByteAccount::Hold hold;  // destroyed after the message
    pb::UploadRequest message;
    ABSL_ASSIGN_OR_RETURN(hold, DecodeMessage(&message));
    if (!message.has_commit()) {
      const std::lock_guard lock(mutex_);
      if (!finished_) StartRead(&incoming_);
    }
    return session_->Handle(message, [this] { return call_.DeadStatus(); });
  }

  absl::StatusOr<ByteAccount::Hold> DecodeMessage(pb::UploadRequest* message) {
    const int64_t bytes_max = kDecodedPart * state_->settings().request_bytes_max.value();
    const absl::Status within = DecodeWithin(bytes_max, &current_, message);
    if (within.ok()) return ByteAccount::Hold();
    if (!absl::IsResourceExhausted(within)) return within;
    return Decode(&current_, &state_->ledger().requests, call_.caller(), message);
  }

  // Ends the upload with `status`, as soon as no write is in progress. The first status is kept,
  // except that OK, after a commit, replaces an error. Requires: mutex_.
  void End(absl::Status status) {
    if (!end_.has_value() || status.ok()) end_ = std::move(status);
    FinishIfQuiet();
  }

  void FinishIfQuiet() {
    if (finished_ || writing_) return;
    if (!working_ && session_.has_value() && !session_->committed()) {
      // Dropping the session syncs its durable blocks, so this must not run on a thread of gRPC.
      working_ = true;
      if (core_->writes.Post([self = shared_from_this()] { self->GiveUp(); }).ok()) return;
      working_ = false;
    }
    finished_ = true;
    if (!working_) GiveAll();  // before the status is sent: the next upload finds the place free
    const grpc::Status status = call_.Close(*end_);
    if (!end_->ok()) return Finish(status);
    StartWriteAndFinish(&committed_, grpc::WriteOptions(), status);
  }

  // Runs on a worker, instead of Work().
  void GiveUp() {
    session_.reset();
    const std::lock_guard lock(mutex_);
    working_ = false;
    if (finished_) return GiveAll();
    FinishIfQuiet();
  }

  // Drops the upload if it is not committed. Frees its memory before its place.
  void GiveAll() {
    session_.reset();
    place_ = nullptr;
  }

  // Returns the replaced alarm, which must be destroyed without the lock. Requires: mutex_.
  std::unique_ptr<grpc::Alarm> ArmAlarm(Milliseconds wait) {
    std::unique_ptr<grpc::Alarm> old = std::exchange(alarm_, std::make_unique<grpc::Alarm>());
    alarm_->Set(After(wait), [self = shared_from_this()](bool expired) { self->OnAlarm(expired); });
    return old;
  }

  // Requires: mutex_.
  absl::Status SilentStatus(Milliseconds idle) const {
    const std::string silent = absl::StrCat("the client was silent for ", idle.count(), " ms, ");
    if (!draining_) {
      return absl::DeadlineExceededError(absl::StrCat(silent, "the limit upload_idle_ms is ",
                                                      idle_max_.count(), ": nothing is committed"));
    }
    return WithRetryAfter(
        absl::UnavailableError(absl::StrCat(silent, "and the server is draining, which allows ",
                                            idle_max_.count(), " ms: nothing is committed")),
        kDrainRetryMs);
  }

  // Called when the server drains, or has cancelled the call at the end of the drain.
  void OnServerEnds() {
    std::unique_ptr<grpc::Alarm> old;
    const std::lock_guard lock(mutex_);
    if (!std::exchange(draining_, true)) idle_max_ /= kDrainIdlePart;
    Advance();
    if (!finished_ && !end_.has_value()) old = ArmAlarm(Milliseconds(0));
  }

  // Checks whether the client has been silent for too long. There is one alarm for each idle time,
  // not for each message.
  void OnAlarm(bool expired) {
    std::unique_ptr<grpc::Alarm> old;
    const std::lock_guard lock(mutex_);
    if (!expired || finished_) return;
    const TimePoint now = state_->clock().Now();
    const auto idle = std::chrono::duration_cast<Milliseconds>(now - last_active_);
    if (working_ || idle < idle_max_) {
      old = ArmAlarm(working_ ? idle_max_ : idle_max_ - idle);
      return;
    }
    End(SilentStatus(idle));
    if (!finished_ && writing_) {  // the client does not take the write
      context_->TryCancel();
      old = ArmAlarm(idle_max_);
    }
  }

  ServerState* const state_;
  grpc::CallbackServerContext* const context_;
  std::mutex mutex_;
  Call call_;
  Milliseconds idle_max_;
  std::shared_ptr<UploadStream> self_;  // until OnDone; work and alarm also hold the stream
  Core* core_ = nullptr;
  std::unique_ptr<UploadPlaces::Place> place_;
  int64_t bytes_ = 0;  // bytes of the blocks that the upload has accepted
  std::optional<UploadSession> session_;
  std::unique_ptr<grpc::Alarm> alarm_;
  TimePoint last_active_;
  grpc::ByteBuffer incoming_;               // being read
  grpc::ByteBuffer current_;                // being handled
  std::optional<pb::UploadResponse> news_;  // the latest response that is not written yet
  pb::UploadResponse outgoing_;
  pb::UploadResponse committed_;
  absl::Status lost_;  // not OK: the place was lost
  std::optional<absl::Status> end_;
  bool arrived_ = false;
  bool read_all_ = false;
  bool working_ = false;
  bool writing_ = false;
  bool draining_ = false;
  bool finished_ = false;
};

}  // namespace

UploadReactor* StartUploadStream(ServerState* state, grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<UploadStream>(state, context);
  stream->Start();
  return stream.get();
}

}  // namespace nearfield::server
