#include "server/service/search_stream.h"

#include <grpcpp/impl/codegen/proto_utils.h>

#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/convert/common.h"
#include "server/service/decode.h"
#include "server/service/search_call.h"

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
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

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

// Decodes its messages itself, because gRPC reports an undecodable message as the end of the
// messages. The client would then get OK and fewer replies than it sent requests.
class SearchStream final : public SearchStreamReactor,
                           public std::enable_shared_from_this<SearchStream> {
 public:
  SearchStream(ServerState* state, grpc::CallbackServerContext* context)
      : state_(state), call_(state, context, "SearchStream") {}

  void Start() {
    self_ = shared_from_this();
    call_.SetWake([weak = weak_from_this()] {
      if (const auto stream = weak.lock(); stream != nullptr) stream->OnWake();
    });
    StartRead(&incoming_);
  }

  void OnReadDone(bool ok) override {
    absl::StatusOr<std::shared_ptr<const pb::SearchRequest>> request;
    if (ok) {
      request =
          DecodeHeld<pb::SearchRequest>(&incoming_, &state_->ledger().requests, call_.caller());
    }
    incoming_.Clear();
    std::shared_ptr<Slot> slot;
    {
      const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(mutex_);
    may_read_ = true;
    Advance();
  }

  void OnWriteDone(bool ok) override {
    call_.ReplyTaken();
    const std::lock_guard lock(mutex_);
    writing_ = false;
    outgoing_.Clear();
    slots_.pop_front();
    if (!ok) call_.cancelled()->store(true);
    Advance();
  }

  void OnCancel() override {
    call_.cancelled()->store(true);
    const std::lock_guard lock(mutex_);
    Advance();
  }

  void OnDone() override {
    call_.ReplyTaken();  // a running search may hold the stream
    self_.reset();
  }

 private:
  void OnWake() {
    const std::lock_guard lock(mutex_);
    Advance();
  }

  void StartOne(const std::shared_ptr<Slot>& slot, const pb::SearchRequest& request) {
    if (!call_.metadata_status().ok()) {
      return OnSearched(slot, call_.metadata_status(), SearchFacts{});
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
    const std::lock_guard lock(mutex_);
    slot->status = status;
    slot->ready = true;
    Note(facts, &call_.record);
    Advance();
  }

  // Starts everything that can be started. Requires: mutex_.
  void Advance() {
    if (finished_) return;
    if (!writing_ && call_.cancelled()->load())
      return End(absl::CancelledError("the caller cancelled the stream"));
    if (!writing_ && !slots_.empty() && slots_.front()->ready) {
      if (!slots_.front()->status.ok()) return End(slots_.front()->status);
      bool owns_buffer = false;
      if (!grpc::SerializationTraits<pb::SearchResponse>::Serialize(slots_.front()->response,
                                                                    &outgoing_, &owns_buffer)
               .ok()) {
        return End(absl::InternalError("the reply cannot be encoded"));
      }
      writing_ = true;
      call_.WatchReply();
      StartWrite(&outgoing_);
    }
    if (read_all_ && slots_.empty()) return End(absl::OkStatus());
    if (may_read_ && !reading_ && !read_all_ && slots_.size() < kUnderWayMax) {
      may_read_ = false;
      reading_ = true;
      StartRead(&incoming_);
    }
  }

  // Requires: mutex_; no write is in progress.
  void End(const absl::Status& status) {
    finished_ = true;
    call_.cancelled()->store(true);  // the results of running searches are not needed any more
    Finish(call_.Close(status));
  }

  ServerState* const state_;
  std::mutex mutex_;
  Call call_;
  std::shared_ptr<SearchStream> self_;  // until OnDone; running searches hold the stream too
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  int64_t requests_count_ = 0;
  std::deque<std::shared_ptr<Slot>> slots_;
  bool reading_ = true;
  bool may_read_ = false;  // the last request was started
  bool read_all_ = false;
  bool writing_ = false;
  bool finished_ = false;
};

}  // namespace

SearchStreamReactor* StartSearchStream(ServerState* state, grpc::CallbackServerContext* context) {
  auto stream = std::make_shared<SearchStream>(state, context);
  stream->Start();
  return stream.get();
}

}  // namespace nearfield::server
