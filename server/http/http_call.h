// The HTTP side of a call: contexts of the service's ActiveCall over an Exchange.
//
// Everything happens on the strand of the connection, to which the functions that the service calls
// post. So a call needs no lock, and the thread that runs a search does not write its JSON.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/config/settings.h"
#include "server/convert/held_message.h"
#include "server/http/body_reader.h"
#include "server/http/error_reply.h"
#include "server/http/exchange.h"
#include "server/http/json_reader.h"
#include "server/http/json_writer.h"
#include "server/http/routes.h"
#include "server/rpc/call_guard.h"
#include "server/rpc/caller_name.h"
#include "server/rpc/nearfield_service.h"
#include "server/scheduler/memory_ledger.h"
#include "server/scheduler/retry_hint.h"

namespace nearfield::server {

// Maximum predicted time of a pass that a search may run on the thread that received it. There are
// at least two such threads, and one pass runs at a time.
inline constexpr double kHttpPassUsMax = 1000;
// A reply whose JSON takes at most this is not reserved: it is part of the memory of its connection
// (config/memory_plan.h).
inline constexpr int64_t kUnreservedReplyBytes = int64_t{16} << 10;

// The objects that calls need. They outlive every call.
struct ApiBase {
  NearfieldService* service = nullptr;
  MemoryLedger* ledger = nullptr;
  const AccessControl* control = nullptr;
  const Settings* settings = nullptr;
};

// A call that is about to begin.
struct CallStart {
  const ApiBase* base = nullptr;
  std::shared_ptr<Exchange> exchange;
  CallGuard guard;
  const char* method = nullptr;  // its own name: "Search"
  PathFields fields;
  std::string query;       // the request, unless it is the body
  CallFacts facts;         // its request id is valid
  int refusal_status = 0;  // the HTTP status of facts.status; 0: that of its code
};

// Returns a function that reserves memory in `account`, except the first `unreserved` bytes.
ReserveBytes ReserveIn(ByteAccount* account, const std::string& caller, int64_t unreserved,
                       ByteAccount::Hold* hold);

// Reads a request: its JSON, or the parameters of its query; then the fields of the path. Errors:
// of FromJson or FromQuery, SetPathFields and CheckRequest.
template <typename Request>
absl::StatusOr<std::shared_ptr<const Request>> ReadRequest(const CallStart& start,
                                                           const std::string* json,
                                                           int64_t unreserved) {
  return ReadHeld<Request>([&](HeldMessage<Request>* held) -> absl::Status {
    Request* const message = &held->message;
    const ReserveBytes reserve =
        ReserveIn(&start.base->ledger->requests, CallerOf(start.facts), unreserved, &held->hold);
    ABSL_RETURN_IF_ERROR(json != nullptr ? FromJson(*json, reserve, message)
                                         : FromQuery(start.query, reserve, message));
    if (held->hold.bytes() > 0) {
      held->hold.Resize(static_cast<int64_t>(message->SpaceUsedLong()));
    }
    ABSL_RETURN_IF_ERROR(SetPathFields(start.fields, message));
    return CheckRequest(start.guard, start.facts.key, *message);
  });
}

// `Context`: CallContext or a stream derived from it. Keeps itself alive until its end.
template <typename Context>
class HttpCall : public Context, public std::enable_shared_from_this<HttpCall<Context>> {
 public:
  explicit HttpCall(CallStart start) : start_(std::move(start)), caller_(CallerOf(start_.facts)) {}

  const CallFacts& facts() const override { return start_.facts; }
  void Finish(const CallEnd& end) override {
    exchange().Post([this, end] { End(end); });
  }
  void Abort() override {
    // May run after the end of the call.
    exchange().Post([exchange = start_.exchange] { exchange->Close(); });
  }

 protected:
  Exchange& exchange() const { return *start_.exchange; }

  // Call it first.
  void Live() { self_ = this->shared_from_this(); }
  // Begins the call of the service, which `begin` returns.
  template <typename Begin>
  void Bind(const Begin& begin) {
    call_ = begin(start_.base->service);
    exchange().Watch([this] { Cancel(); });
    if (start_.facts.deadline.has_value()) CancelAfter(std::chrono::milliseconds::max());
  }
  // Cancels the call after this time, or at its deadline if that is earlier. Replaces an earlier
  // time.
  void CancelAfter(std::chrono::milliseconds time) {
    if (start_.facts.deadline.has_value()) {
      const auto left = *start_.facts.deadline - std::chrono::system_clock::now();
      time = std::min(time, std::chrono::ceil<std::chrono::milliseconds>(left));
    }
    exchange().StartTimer(time, [this] { Cancel(); });
  }
  void Refuse(const absl::Status& status) {
    Bind([&](NearfieldService* service) { return service->Refuse(this, start_.method, status); });
  }
  // Releases the call of the service, and this one.
  virtual void Done() {
    const ActiveCallPtr call = std::exchange(call_, nullptr);
    call->OnDone();
    exchange().StopTimer();
    self_ = nullptr;
  }
  // Sends the end of the call, then calls Done.
  virtual void End(const CallEnd& end) = 0;

  ReplyHead HeadOf(const CallEnd& end) const {
    ReplyHead head = {.status = HttpStatusOf(end.status.code())};
    if (!end.status.ok() && start_.refusal_status != 0) head.status = start_.refusal_status;
    absl::StrAppend(&head.more, "nearfield-request-id: ", start_.facts.request_id, "\r\n");
    if (end.retry_after_ms.has_value()) {
      absl::StrAppend(&head.more, "Retry-After: ", (*end.retry_after_ms + 999) / 1000, "\r\n");
    }
    if (head.status == 401) absl::StrAppend(&head.more, "WWW-Authenticate: Bearer\r\n");
    return head;
  }
  // Replies with a message, or with the error of the call. Then calls Done.
  void ReplyAndDone(const google::protobuf::Message& response, CallEnd end) {
    std::string json;
    if (end.status.ok()) FailWith(Print(response, &json), &end);
    if (!end.status.ok()) json = ErrorJson(end.status, end.retry_after_ms) + "\n";
    end.settle(end.status);
    exchange().Reply(HeadOf(end), std::move(json), [this](bool /*ok*/) { Done(); });
  }
  // Writes a message as a line of JSON, and reserves its memory. Errors: ResourceExhausted.
  absl::Status Print(const google::protobuf::Message& response, std::string* json) {
    if (start_.guard.method->changes) {
      return ToJson(
          response, [](int64_t) { return absl::OkStatus(); }, json);
    }
    const ReserveBytes reserve = ReserveIn(&start_.base->ledger->replies, caller_,
                                           kUnreservedReplyBytes / kReplyCopies, &hold_);
    return ToJson(
        response, [&](int64_t bytes) { return reserve(bytes / kReplyCopies); }, json);
  }
  static void FailWith(const absl::Status& failure, CallEnd* end) {
    if (failure.ok()) return;
    end->status = failure;
    end->retry_after_ms = RetryAfterMs(failure);
  }

  const CallStart start_;
  const std::string caller_;
  ActiveCallPtr call_;      // null before its begin and after its end
  ByteAccount::Hold hold_;  // of the JSON that is being sent

 private:
  void Cancel() {
    if (call_ != nullptr) call_->OnCancel();
  }

  std::shared_ptr<HttpCall> self_;
};

// A call with one request. `Base`: HttpCall.
template <typename Base, typename Request>
class HttpOneRequest : public Base {
 public:
  using Base::Base;

  // Starts the call once its request was read.
  using Start = std::function<ActiveCallPtr(NearfieldService*, std::shared_ptr<const Request>)>;
  // Reads the request. Call it once.
  void Begin(Start start) {
    this->Live();
    start_call_ = std::move(start);
    const CallStart& about = this->start_;
    if (!about.facts.status.ok()) return this->Refuse(about.facts.status);
    if (!this->exchange().head().has_body) {
      const std::string none = "{}";
      return BeginWith(
          ReadRequest<Request>(about, about.query.empty() ? &none : nullptr, /*unreserved=*/0));
    }
    this->exchange().StartTimer(
        std::chrono::milliseconds(about.base->settings->upload_idle_ms.value()),
        [exchange = about.exchange] { exchange->Close(); });
    body_.ReadAll([this](const absl::StatusOr<std::shared_ptr<BodyText>>& body) {
      this->exchange().StopTimer();
      if (!body.ok()) return this->Refuse(body.status());
      BeginWith(ReadRequest<Request>(this->start_, &(*body)->text, /*unreserved=*/0));
    });
  }

 private:
  void BeginWith(absl::StatusOr<std::shared_ptr<const Request>> request) {
    const Start start = std::move(start_call_);
    if (!request.ok()) return this->Refuse(request.status());
    this->Bind([&](NearfieldService* service) { return start(service, *std::move(request)); });
  }

  Start start_call_;
  BodyReader body_{&this->exchange(),
                   {.account = &this->start_.base->ledger->requests,
                    .caller = this->caller_,
                    .bytes_max = this->start_.base->settings->request_bytes_max.value()}};
};

template <typename Request, typename Response>
class HttpUnary final : public HttpOneRequest<HttpCall<CallContext>, Request> {
 public:
  using HttpUnary::HttpOneRequest::HttpOneRequest;

  Response* response() { return &response_; }

 private:
  void End(const CallEnd& end) override { this->ReplyAndDone(response_, end); }

  Response response_;
};

// A call whose replies are lines of JSON. An error after the first line is a last line {"error": a
// google.rpc.Status}, after which the connection ends without the end of the reply, so that no
// client takes the lines for all. `Base`: of a ReplyStream.
template <typename Base, typename Response>
class HttpReplyLines : public Base {
 public:
  using Base::Base;

  void Write(const Response& response) override {
    this->exchange().Post([this, &response] {
      std::string json;
      failure_ = this->Print(response, &json);
      if (!failure_.ok()) return this->call_->OnWriteDone(false);
      SendLine(std::move(json), AfterLine::kMore, [this](bool ok) {
        this->hold_ = {};
        this->call_->OnWriteDone(ok);
      });
    });
  }
  void WriteAndFinish(const Response& response, const CallEnd& end) override {
    this->exchange().Post([this, &response, end] {
      std::string json;
      failure_ = this->Print(response, &json);
      if (!failure_.ok() || !end.status.ok()) return End(end);
      end.settle(end.status);
      SendLine(std::move(json), AfterLine::kEnd, [this](bool /*ok*/) { this->Done(); });
    });
  }

 private:
  void End(const CallEnd& given) override {
    CallEnd end = given;
    this->FailWith(failure_, &end);
    if (!end.status.ok() && !has_lines_) return this->ReplyAndDone(Response(), end);
    end.settle(end.status);
    const bool ok = end.status.ok();
    SendLine(
        ok ? "" : absl::StrCat("{\"error\":", ErrorJson(end.status, end.retry_after_ms), "}\n"),
        ok ? AfterLine::kEnd : AfterLine::kCut, [this](bool /*ok*/) { this->Done(); });
  }
  void SendLine(std::string line, AfterLine after, Exchange::OnSent sent) {
    has_lines_ = true;
    ReplyHead head =
        this->HeadOf({.status = absl::OkStatus(), .request_id = {}, .retry_after_ms = {}});
    head.content_type = "application/x-ndjson";
    this->exchange().SendLine(head, std::move(line), after, std::move(sent));
  }

  bool has_lines_ = false;
  absl::Status failure_;  // of the last Print
};

template <typename Request, typename Response>
using HttpReplies =
    HttpReplyLines<HttpOneRequest<HttpCall<ReplyStream<Response>>, Request>, Response>;

// A call that also receives many requests: each line of the body is one. `Base`: of a
// MessageStream.
template <typename Base, typename Request>
class HttpRequestLines : public Base {
 public:
  using Base::Base;

  // Begins the call by this method of the service. Call it once.
  template <typename Stream>
  void Begin(ActiveCallPtr (NearfieldService::*method)(Stream*)) {
    this->Live();
    if (!this->facts().status.ok()) return this->Refuse(this->facts().status);
    this->Bind([&](NearfieldService* service) { return (service->*method)(this); });
  }

  void Read() override {
    this->exchange().Post([this] {
      is_reading_ = true;
      lines_.ReadLine([this, self = this->shared_from_this()](
                          const absl::StatusOr<std::shared_ptr<BodyText>>& line) { OnLine(line); });
    });
  }
  Incoming<Request> Take() override { return std::exchange(incoming_, nullptr); }

 protected:
  // The bytes of a request that are not reserved for its message.
  virtual int64_t Unreserved() const { return 0; }
  void Done() override {
    if (std::exchange(is_reading_, false)) this->call_->OnReadDone(false);
    Base::Done();
  }

 private:
  void OnLine(const absl::StatusOr<std::shared_ptr<BodyText>>& line) {
    if (!std::exchange(is_reading_, false)) return;  // the call is over
    const bool is_over = absl::IsCancelled(line.status()) || (line.ok() && *line == nullptr);
    if (is_over) return this->call_->OnReadDone(false);
    // Decoded by the service, for an upload on another thread.
    incoming_ = [line, start = this->start_,
                 unreserved = Unreserved()]() -> absl::StatusOr<std::shared_ptr<const Request>> {
      if (!line.ok()) return line.status();
      return ReadRequest<Request>(start, &(*line)->text, unreserved);
    };
    this->call_->OnReadDone(true);
  }

  BodyReader lines_{&this->exchange(),
                    {.account = &this->start_.base->ledger->requests,
                     .caller = this->caller_,
                     .bytes_max = this->start_.base->settings->request_bytes_max.value()}};
  bool is_reading_ = false;  // the service waits for a request
  Incoming<Request> incoming_;
};

// A stream of searches. It is cancelled connection_idle_ms after its last line: nothing else shows
// that the machine of a client is gone.
class HttpSearchStream final
    : public HttpRequestLines<HttpReplyLines<HttpCall<SearchMessages>, pb::SearchResponse>,
                              pb::SearchRequest> {
 public:
  using HttpRequestLines::HttpRequestLines;

  void Read() override {
    exchange().Post([this] {
      CancelAfter(std::chrono::milliseconds(start_.base->settings->connection_idle_ms.value()));
    });
    HttpRequestLines::Read();
  }
};

// An upload. Only the last response is sent, when the upload is over: most clients of HTTP read
// nothing before they have sent everything.
class HttpUpload final : public HttpRequestLines<HttpCall<UploadMessages>, pb::UploadRequest> {
 public:
  using HttpRequestLines::HttpRequestLines;

  void Write(const pb::UploadResponse& response) override;
  void WriteAndFinish(const pb::UploadResponse& response, const CallEnd& end) override;

 private:
  int64_t Unreserved() const override;
  void End(const CallEnd& end) override { ReplyAndDone(last_, end); }

  pb::UploadResponse last_;
};

}  // namespace nearfield::server
