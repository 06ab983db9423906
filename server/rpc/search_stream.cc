#include "server/rpc/streams.h"

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "engine/base/mutex.h"
#include "server/convert/common.h"
#include "server/rpc/search_call.h"

namespace nearfield::server {
namespace {

// Maximum concurrent searches of one stream: enough to share a device pass, and a bound on memory.
// If a client does not read its replies, the server stops reading its requests.
constexpr size_t kUnderWayMax = 8;

// One search of the stream, from its request to its written reply.
struct Slot {
  explicit Slot(ServerState* state_in) : state(state_in) {}
  ~Slot() {
    if (entered) state->Leave();
  }

  ServerState* const state;
  pb::SearchResponse response;
  MemoryHolds holds;  // held until the reply is written
  absl::Status status;
  bool ready = false;
  bool entered = false;  // registered as a call in flight
};

// Returns the decoding error of a request, with the number of the request.
absl::Status InRequest(int64_t number, const absl::Status& status) {
  absl::Status numbered(status.code(),
                        absl::StrCat("request ", number, " of the stream: ", status.message()));
  status.ForEachPayload([&numbered](absl::string_view type, const absl::Cord& payload) {
    numbered.SetPayload(type, payload);
  });
  return numbered;
}

class SearchStream final : public ActiveCall, public std::enable_shared_from_this<SearchStream> {
 public:
  SearchStream(ServerState* state, SearchMessages* context)
      : state_(state), context_(context), call_(state, context, "SearchStream") {}

  void Start() {
    call_.SetWake([weak = weak_from_this()] {
      if (const auto stream = weak.lock(); stream != nullptr) stream->OnWake();
    });
    context_->Read();
  }

  void OnReadDone(bool ok) override {
    absl::StatusOr<std::shared_ptr<const pb::SearchRequest>> request;
    if (ok) request = context_->Take()();
    std::shared_ptr<Slot> slot;
    {
      const MutexLock lock(mutex_);
      reading_ = false;
      if (!ok || finished_) {
        read_all_ = true;
        Advance();
        return;
      }
      slot = std::make_shared<Slot>(state_);
      slots_.push_back(slot);
      ++requests_count_;
      if (!request.ok()) {  // later messages are not read
        slot->status = InRequest(requests_count_, request.status());
        slot->ready = true;
        read_all_ = true;
        Advance();
        return;
      }
      call_.record.collection = (*request)->collection();
    }
    StartOne(slot, **request);
    request = nullptr;
    const MutexLock lock(mutex_);
    may_read_ = true;
    Advance();
  }

  void OnWriteDone(bool ok) override {
    call_.ReplyTaken();
    const MutexLock lock(mutex_);
    writing_ = false;
    slots_.pop_front();
    if (!ok) call_.cancelled()->store(true);
    Advance();
  }

  void OnCancel() override {
    call_.cancelled()->store(true);
    const MutexLock lock(mutex_);
    Advance();
  }

  void OnDone() override { call_.ReplyTaken(); }  // a running search may hold the stream

 private:
  void OnWake() {
    const MutexLock lock(mutex_);
    Advance();
  }

  void StartOne(const std::shared_ptr<Slot>& slot, const pb::SearchRequest& request) {
    if (!call_.refusal().ok()) {
      return OnSearched(slot, call_.refusal(), SearchFacts{});
    }
    const absl::StatusOr<Core*> core = state_->Enter();
    if (!core.ok()) return OnSearched(slot, core.status(), SearchFacts{});
    slot->entered = true;
    StartSearch(
        *core, call_, request, {.response = &slot->response, .holds = &slot->holds},
        [self = shared_from_this(), slot](const absl::Status& status, const SearchFacts& facts) {
          self->OnSearched(slot, status, facts);
        });
  }

  void OnSearched(const std::shared_ptr<Slot>& slot, const absl::Status& status,
                  const SearchFacts& facts) {
    const MutexLock lock(mutex_);
    slot->status = status;
    slot->ready = true;
    Note(facts, &call_.record);
    Advance();
  }

  // Starts everything that can be started.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_) return;
    if (!writing_ && call_.cancelled()->load()) {
      return End(absl::CancelledError("the caller cancelled the stream"));
    }
    if (!writing_ && !slots_.empty() && slots_.front()->ready) {
      if (!slots_.front()->status.ok()) return End(slots_.front()->status);
      writing_ = true;
      call_.WatchReply();
      context_->Write(slots_.front()->response);
    }
    if (read_all_ && slots_.empty()) return End(absl::OkStatus());
    if (may_read_ && !reading_ && !read_all_ && slots_.size() < kUnderWayMax) {
      may_read_ = false;
      reading_ = true;
      context_->Read();
    }
  }

  // Requires: no write is in progress.
  void End(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    finished_ = true;
    call_.cancelled()->store(true);  // the results of running searches are not needed any more
    call_.Finish(status);
  }

  ServerState* const state_;
  SearchMessages* const context_;
  Mutex mutex_;
  Call call_;
  int64_t requests_count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::shared_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = true;
  bool may_read_ ABSL_GUARDED_BY(mutex_) = false;  // the last request was started
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

ActiveCallPtr StartSearchStream(ServerState* state, SearchMessages* context) {
  auto stream = std::make_shared<SearchStream>(state, context);
  stream->Start();
  return stream;
}

}  // namespace nearfield::server
