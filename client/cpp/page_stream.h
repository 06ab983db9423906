// PageStream: the replies of one call, read from a stream that is opened again after a loss.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/core.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {

// `Response`: the message of a page. Used by one thread at a time.
template <typename Response>
class PageStream {
 public:
  using Reader = std::unique_ptr<grpc::ClientReader<Response>>;
  struct Handlers {
    // Calls the server for the pages after the last one that was taken.
    std::function<Reader(grpc::ClientContext*)> open;
    // Takes a page. Returns whether it is the last one. An error ends the call.
    std::function<absl::StatusOr<bool>(Response*)> take;
  };

  // The deadline is that of all pages; absent: none.
  PageStream(std::shared_ptr<Client::Core> core,
             const std::optional<std::chrono::milliseconds>& deadline)
      : core_(std::move(core)),
        deadline_(deadline ? core_->clock().Now() + *deadline : TimePoint::max()),
        has_deadline_(deadline.has_value()) {}

  Client::Core& core() const { return *core_; }

  // Takes the next page. Returns false after the last one. The retry count is 0 again for each
  // page. Errors: those of the server and of `take`, which all later calls return too.
  absl::StatusOr<bool> Next(const Handlers& handlers) {
    NF_RETURN_IF_ERROR(status_);
    if (complete_) return false;
    bool taken = false;
    status_ = RunWithRetries(
        {.policy = core_->options().retry, .deadline = deadline_, .idempotent = true},
        core_->clock(), [&] { return TryNext(handlers, &taken); });
    NF_RETURN_IF_ERROR(status_);
    return taken;
  }

 private:
  struct Stream {
    grpc::ClientContext context;
    Reader reader;

    ~Stream() {
      if (!reader) return;
      context.TryCancel();
      Response unread;
      while (reader->Read(&unread)) {
      }
      reader->Finish();
    }
  };

  void Open(const Handlers& handlers) {
    stream_ = std::make_unique<Stream>();
    core_->Introduce(&stream_->context);
    if (has_deadline_) {
      stream_->context.set_deadline(
          std::chrono::system_clock::now() +
          std::chrono::duration_cast<std::chrono::microseconds>(deadline_ - core_->clock().Now()));
    }
    stream_->reader = handlers.open(&stream_->context);
  }

  Attempt TryNext(const Handlers& handlers, bool* taken) {
    if (!stream_) Open(handlers);
    Response response;
    if (stream_->reader->Read(&response)) return {.status = Take(handlers, &response, taken)};
    const grpc::Status end = stream_->reader->Finish();
    stream_->reader = nullptr;
    Attempt outcome = core_->Outcome(end, stream_->context);
    stream_ = nullptr;
    complete_ = outcome.status.ok();
    if (complete_) {
      outcome.status = absl::InternalError("malformed reply: the pages ended before the last one");
    }
    return outcome;
  }

  absl::Status Take(const Handlers& handlers, Response* response, bool* taken) {
    NF_ASSIGN_OR_RETURN(const bool last, handlers.take(response));
    *taken = true;
    if (last) End();
    return absl::OkStatus();
  }

  // Drains the stream. After the last page all rows are here, however the stream ends.
  void End() {
    complete_ = true;
    Response unread;
    while (stream_->reader->Read(&unread)) {
    }
    stream_->reader->Finish();
    stream_->reader = nullptr;
    stream_ = nullptr;
  }

  const std::shared_ptr<Client::Core> core_;
  const TimePoint deadline_;
  const bool has_deadline_;
  std::unique_ptr<Stream> stream_;
  bool complete_ = false;
  absl::Status status_;
};

// Checks that all pages of a call are of one epoch. `*epoch`: that of the pages before. Errors:
// Internal.
inline absl::Status CheckPageEpoch(uint64_t page_epoch, std::optional<uint64_t>* epoch) {
  if (epoch->value_or(page_epoch) != page_epoch) {
    return absl::InternalError(
        Cat("malformed reply: a page of epoch ", page_epoch, " after one of ", **epoch));
  }
  *epoch = page_epoch;
  return absl::OkStatus();
}

}  // namespace nearfield::client
