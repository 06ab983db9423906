#include "server/rpc/streams.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/mutex.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/rpc/call.h"
#include "server/rpc/upload_session.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

using Milliseconds = std::chrono::milliseconds;

// While the server drains, a client may be silent for upload_idle_ms / kDrainIdlePart.
constexpr int kDrainIdlePart = 6;
constexpr int64_t kDrainRetryMs = 1000;

// Handles one message while the next one is read, so at most two blocks are in memory. Progress is
// written when the stream is free. A client that does not take it in time is cancelled.
class UploadStream final : public ActiveCall, public std::enable_shared_from_this<UploadStream> {
 public:
  UploadStream(ServerState* state, UploadMessages* context)
      : state_(state),
        context_(context),
        call_(state, context, "Upload"),
        idle_max_(state->settings().upload_idle_ms.value()) {}
  ~UploadStream() override { GiveAll(); }

  void Start() {
    call_.SetWake([weak = weak_from_this()] {
      if (const auto stream = weak.lock(); stream != nullptr) stream->OnServerEnds();
    });
    const MutexLock lock(mutex_);
    absl::Status status = Admit();
    if (!status.ok()) return End(std::move(status));
    last_active_ = state_->clock().Now();
    StartTimer(idle_max_);
    context_->Read();
  }

  void OnReadDone(bool ok) override {
    const MutexLock lock(mutex_);
    last_active_ = state_->clock().Now();
    (ok ? arrived_ : read_all_) = true;
    Advance();
  }

  void OnWriteDone(bool ok) override {
    call_.ReplyTaken();
    const MutexLock lock(mutex_);
    writing_ = false;
    last_active_ = state_->clock().Now();
    if (!ok) call_.cancelled()->store(true);
    Advance();
  }

  void OnCancel() override {
    call_.cancelled()->store(true);
    const MutexLock lock(mutex_);
    Advance();
  }

  void OnDone() override {
    call_.ReplyTaken();  // running work may hold the stream
    const MutexLock lock(mutex_);
    state_->timers().Cancel(timer_);
  }

 private:
  absl::Status Admit() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::StatusOr<Core*> core = call_.Enter();
    if (!core.ok()) return core.status();
    core_ = *core;
    auto place = state_->upload_places().Take(call_.caller(),
                                              [weak = weak_from_this()](const absl::Status& why) {
                                                if (const auto self = weak.lock()) {
                                                  self->LosePlace(why);
                                                }
                                              });
    if (!place.ok()) return place.status();
    place_ = *std::move(place);
    session_.emplace(&core_->catalog, &state_->limits(), call_.caller(), call_.key());
    return absl::OkStatus();
  }

  // Called on a thread of the refused upload, which holds the lock of its own stream. There is no
  // lock cycle, because that upload has no place that this one could take. If the client does not
  // take the write in progress, the timer ends the stream.
  void LosePlace(const absl::Status& why) {
    const MutexLock lock(mutex_);
    if (finished_ || end_.has_value()) return;
    lost_ = why;
    if (!working_) End(why);  // else it ends after the work, which may commit
  }

  // Starts everything that can be started.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    if (end_.has_value()) return FinishIfQuiet();
    const absl::Status dead = call_.DeadStatus();
    if (!dead.ok()) return End(dead);
    if (!writing_ && news_.has_value()) {
      outgoing_ = *std::exchange(news_, std::nullopt);
      writing_ = true;
      call_.WatchReply();
      context_->Write(outgoing_);
    }
    if (working_) return;
    if (arrived_) {
      arrived_ = false;
      working_ = true;
      place_->Pause();
      absl::Status posted = CatchOutOfMemory([this, core = core_] {
        return core->writes.Post(
            [self = shared_from_this(), incoming = context_->Take()] { self->Work(incoming); });
      });
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
  void Work(const Incoming<pb::UploadRequest>& incoming) {
    absl::StatusOr<pb::UploadResponse> response = HandleMessage(incoming);
    bool finished = false;
    {
      const MutexLock lock(mutex_);
      last_active_ = state_->clock().Now();
      place_->Resume(session_->totals().bytes - std::exchange(bytes_, session_->totals().bytes));
      call_.record.collection = session_->collection();
      call_.record.rows = session_->totals().rows;
      finished = finished_;
      if (!finished) Continue(std::move(response));
    }
    if (finished) GiveUp();  // dropping the session syncs its durable blocks: without the lock
  }

  void Continue(absl::StatusOr<pb::UploadResponse> response) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    working_ = false;
    if (!response.ok()) return End(response.status());
    if (session_->committed()) {
      committed_ = *std::move(response);
      return End(absl::OkStatus());
    }
    if (!lost_.ok()) return End(lost_);
    news_ = *std::move(response);
    Advance();
  }

  absl::StatusOr<pb::UploadResponse> HandleMessage(const Incoming<pb::UploadRequest>& incoming) {
    ABSL_ASSIGN_OR_RETURN(const std::shared_ptr<const pb::UploadRequest> message, incoming());
    if (!message->has_commit()) {
      const MutexLock lock(mutex_);
      if (!finished_) context_->Read();
    }
    return session_->Handle(*message, [this] { return call_.DeadStatus(); });
  }

  // Ends the upload with `status`, as soon as no write is in progress. The first status is kept,
  // except that OK, after a commit, replaces an error.
  void End(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!end_.has_value() || status.ok()) end_ = std::move(status);
    FinishIfQuiet();
  }

  void FinishIfQuiet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_) return;
    if (!working_ && session_.has_value() && !session_->committed()) {
      // Dropping the session syncs its durable blocks, so this must not run on a thread of the
      // transport.
      working_ = true;
      if (core_->writes.Post([self = shared_from_this()] { self->GiveUp(); }).ok()) return;
      working_ = false;
    }
    finished_ = true;
    if (!working_) GiveAll();  // before the status is sent: the next upload finds the place free
    if (!end_->ok()) return call_.Finish(*end_);
    context_->WriteAndFinish(committed_, call_.Close(*end_));
  }

  // Runs on a worker, instead of Work() or at its end.
  void GiveUp() {
    session_.reset();
    const MutexLock lock(mutex_);
    working_ = false;
    if (finished_) return GiveAll();
    FinishIfQuiet();
  }

  // Drops the upload if it is not committed. Frees its memory before its place.
  void GiveAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    session_.reset();
    place_ = nullptr;
  }

  // Replaces the timer of the stream.
  void StartTimer(Milliseconds wait) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    state_->timers().Cancel(timer_);
    timer_ = state_->timers().Start(wait, [weak = weak_from_this()] {
      if (const auto stream = weak.lock(); stream != nullptr) stream->OnTimer();
    });
  }

  absl::Status SilentStatus(Milliseconds idle) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string silent = absl::StrCat("the client was silent for ", idle.count(), " ms, ");
    if (!draining_) {
      return absl::DeadlineExceededError(absl::StrCat(silent, "the limit upload_idle_ms is ",
                                                      idle_max_.count(), ": nothing is committed"));
    }
    return WithReason(WithRetryAfter(absl::UnavailableError(absl::StrCat(
                                         silent, "and the server is draining, which allows ",
                                         idle_max_.count(), " ms: nothing is committed")),
                                     kDrainRetryMs),
                      "draining");
  }

  // Called when the server drains, or has cancelled the call at the end of the drain.
  void OnServerEnds() {
    const MutexLock lock(mutex_);
    if (!std::exchange(draining_, true)) idle_max_ /= kDrainIdlePart;
    Advance();
    if (!finished_ && !end_.has_value()) StartTimer(Milliseconds(0));
  }

  // Checks whether the client has been silent for too long. There is one timer for each idle time,
  // not for each message.
  void OnTimer() {
    const MutexLock lock(mutex_);
    if (finished_) return;
    const TimePoint now = state_->clock().Now();
    const auto idle = std::chrono::duration_cast<Milliseconds>(now - last_active_);
    if (working_ || idle < idle_max_) return StartTimer(working_ ? idle_max_ : idle_max_ - idle);
    End(SilentStatus(idle));
    if (!finished_ && writing_) {  // the client does not take the write
      context_->Abort();
      StartTimer(idle_max_);
    }
  }

  ServerState* const state_;
  UploadMessages* const context_;
  Mutex mutex_;
  Call call_;
  std::optional<UploadSession> session_;  // used by the worker while working_, else under the lock
  pb::UploadResponse outgoing_;           // being written
  Milliseconds idle_max_ ABSL_GUARDED_BY(mutex_);
  Core* core_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<UploadPlaces::Place> place_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the blocks that the upload has accepted
  Timers::Id timer_ ABSL_GUARDED_BY(mutex_);
  TimePoint last_active_ ABSL_GUARDED_BY(mutex_);
  // The latest response that is not written yet.
  std::optional<pb::UploadResponse> news_ ABSL_GUARDED_BY(mutex_);
  pb::UploadResponse committed_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);  // not OK: the place was lost
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool arrived_ ABSL_GUARDED_BY(mutex_) = false;
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

ActiveCallPtr StartUploadStream(ServerState* state, UploadMessages* context) {
  auto stream = std::make_shared<UploadStream>(state, context);
  stream->Start();
  return stream;
}

}  // namespace nearfield::server
