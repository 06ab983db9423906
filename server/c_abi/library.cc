// The functions of nearfield.h and nearfield_device.h.
#include <google/protobuf/stubs/logging.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check_range.h"
#include "engine/base/status_macros.h"
#include "nearfield/engine/device_search.h"
#include "server/c_abi/folder.h"
#include "server/c_abi/handles.h"
#include "server/c_abi/methods.h"
#include "server/c_abi/nearfield.h"
#include "server/c_abi/nearfield_device.h"
#include "server/c_abi/plain_search.h"
#include "server/convert/error_details.h"
#include "server/rpc/device_search_call.h"

namespace nearfield::server {
namespace {

// A stream and the folder that it uses.
struct OpenStream {
  // Ends the call, unless it has ended.
  void End() const {
    stream->Cancel();
    stream->Release();
    folder->Leave(stream);
  }

  std::shared_ptr<Folder> folder;
  std::shared_ptr<Stream> stream;
};

// The bytes of a reply.
struct ReplyBytes {
  std::string data;
  ErrorDetails error;
  std::string request_id;
};

// They live as long as the process: other threads may still call while it exits.
Handles<Folder>& Folders() {
  static auto* const folders = new Handles<Folder>;
  return *folders;
}
Handles<OpenStream>& Streams() {
  static auto* const streams = new Handles<OpenStream>;
  return *streams;
}

Handles<DeviceMemory>& Memories() {
  static auto* const memories = new Handles<DeviceMemory>;
  return *memories;
}

// Fills the reply with the end of a call of `folder`, which may be null. Returns its code.
int32_t SetReply(const Folder* folder, CallEnd end, std::string data, nf_reply* reply) {
  // For callers of a server that ends, the service reports that they may try again.
  if (absl::IsUnavailable(end.status) && folder != nullptr && folder->closing()) {
    end.status = absl::CancelledError("the data directory was closed during the call");
    end.retry_after_ms.reset();
  }
  auto* const bytes = new ReplyBytes{.data = std::move(data),
                                     .error = DetailsOf(end.status, end.retry_after_ms),
                                     .request_id = std::move(end.request_id)};
  *reply = {.code = static_cast<int32_t>(end.status.code()),
            .has_message = 0,
            .data = bytes->data.data(),
            .size = bytes->data.size(),
            .message = bytes->error.message.c_str(),
            .details = bytes->error.details.data(),
            .details_size = bytes->error.details.size(),
            .request_id = bytes->request_id.c_str(),
            .retry_after_ms = end.retry_after_ms.value_or(-1),
            .owner = bytes};
  return reply->code;
}

int32_t SetError(absl::Status status, nf_reply* reply) {
  return SetReply(nullptr, {.status = std::move(status), .request_id = {}, .retry_after_ms = {}},
                  "", reply);
}

// Fills the reply of a call that ended with an exception. Allocates nothing.
int32_t SetOutOfMemory(nf_reply* reply) noexcept {
  constexpr auto kCode = static_cast<int32_t>(absl::StatusCode::kResourceExhausted);
  *reply = {.code = kCode,
            .has_message = 0,
            .data = "",
            .size = 0,
            .message = "out of memory",
            .details = "",
            .details_size = 0,
            .request_id = "",
            .retry_after_ms = -1,
            .owner = nullptr};
  return kCode;
}

// Runs the body of a C function. No exception may leave it: its caller has no frames that could be
// unwound. The only ones are those of a lack of memory.
template <typename Body>
int32_t Guarded(nf_reply* reply, const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    return SetOutOfMemory(reply);
  }
}
// As above, for a function without a reply. Returns 0 after an exception.
template <typename Body>
int32_t Guarded(const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    return 0;
  }
}

constexpr int64_t kTimeoutUsMax = int64_t{365 * 24} * 3600 * 1'000'000;  // a longer one is none

CallFacts FactsOf(const nf_options* options, bool waits) {
  CallFacts facts;
  facts.peer = "in-process";
  facts.pass_us_max = waits ? kAnyPass : 0;
  if (options == nullptr) return facts;
  if (options->caller != nullptr) facts.caller_name = options->caller;
  if (options->request_id != nullptr) facts.request_id = options->request_id;
  if (options->interrupted != nullptr) {
    facts.interrupted = [call = options->interrupted, context = options->context] {
      return call(context) != 0;
    };
  }
  if (options->timeout_us > 0 && options->timeout_us <= kTimeoutUsMax) {
    facts.deadline =
        std::chrono::system_clock::now() + std::chrono::microseconds(options->timeout_us);
  }
  return facts;
}

// A call that was found by its handle and name.
struct Target {
  std::shared_ptr<Folder> folder;
  const Method* method = nullptr;
};

// A forked process has none of the threads that serve its calls.
absl::Status ForkedStatus() {
  return absl::FailedPreconditionError(
      "this process was forked after the data directory was opened: open it after the fork, in "
      "one process");
}

// Errors: as FindFolder.
absl::StatusOr<std::shared_ptr<OpenStream>> FindStream(nf_stream stream) {
  std::shared_ptr<OpenStream> open = Streams().Find(stream);
  if (open == nullptr) return absl::CancelledError("the stream is not open");
  if (open->folder->forked()) return ForkedStatus();
  return open;
}

// Errors: Cancelled (no such handle), FailedPrecondition (a forked process).
absl::StatusOr<std::shared_ptr<Folder>> FindFolder(uint64_t handle) {
  std::shared_ptr<Folder> folder = Folders().Find(handle);
  if (folder == nullptr) return absl::CancelledError("the data directory is not open");
  if (folder->forked()) return ForkedStatus();
  return folder;
}

// Errors: as FindFolder, Unimplemented.
absl::Status Find(uint64_t handle, const char* path, bool unary, Target* target) {
  ABSL_ASSIGN_OR_RETURN(target->folder, FindFolder(handle));
  target->method = FindMethod(path);
  if (target->method != nullptr && unary == (target->method->call != nullptr)) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(
      absl::StrCat("method: no ", unary ? "unary method " : "method with streams ", path));
}

absl::StatusOr<DeviceSearchRequest> FromC(const nf_device_search& from) {
  // The numbers of nearfield.v1.DataType are those of RowType.
  ABSL_RETURN_IF_ERROR(CheckRange("query_dtype", from.query_dtype, 1, 3));
  DeviceSearchRequest request;
  request.collection = from.collection;
  if (from.filter_text != nullptr) request.filter_text = from.filter_text;
  DeviceSearch& search = request.search;
  search.queries = from.queries;
  search.query_type = static_cast<RowType>(from.query_dtype);
  search.queries_count = from.queries_count;
  search.dim = from.dim;
  search.k = from.k;
  search.stream = from.stream;
  if (from.has_score_threshold != 0) search.score_threshold = from.score_threshold;
  search.scores = from.scores;
  search.ids = from.ids;
  search.counts = from.counts;
  return request;
}

}  // namespace
}  // namespace nearfield::server

// NOLINTBEGIN(google-global-names-in-headers): no header; the functions of C follow.
using nearfield::server::CallEnd;
using nearfield::server::Folder;
using nearfield::server::Folders;
using nearfield::server::Guarded;
using nearfield::server::OpenStream;
using nearfield::server::Stream;
using nearfield::server::Streams;
using nearfield::server::Target;
// NOLINTEND(google-global-names-in-headers)

uint32_t nf_abi_version() { return NF_ABI_VERSION; }

const char* nf_version() { return NEARFIELD_VERSION; }

int32_t nf_open(const char* settings, nf_server* server, nf_reply* reply) {
  return Guarded(reply, [&]() -> int32_t {
    // Clients can cause these messages with texts that are not UTF-8.
    google::protobuf::SetLogHandler(nullptr);
    *server = 0;
    auto folder = Folder::Open(settings);
    if (!folder.ok()) return nearfield::server::SetError(folder.status(), reply);
    *server = Folders().Add(*std::move(folder));
    return nearfield::server::SetError(absl::OkStatus(), reply);
  });
}

void nf_close(nf_server server) {
  Guarded([&]() -> int32_t {
    const std::shared_ptr<Folder> folder = Folders().Take(server);
    if (folder == nullptr) return 0;
    if (folder->forked()) {
      // Its threads are those of the other process: they cannot be joined here.
      new std::shared_ptr<Folder>(folder);
      return 0;
    }
    folder->Close();
    return 0;
  });
}

int32_t nf_call(nf_server server, const char* method, const void* request, size_t size,
                const nf_options* options, nf_reply* reply) {
  return Guarded(reply, [&]() -> int32_t {
    Target target;
    const absl::Status found = nearfield::server::Find(server, method, /*unary=*/true, &target);
    if (!found.ok()) return nearfield::server::SetError(found, reply);
    std::string response;
    CallEnd end =
        target.method->call(target.folder.get(), {request, size},
                            nearfield::server::FactsOf(options, /*waits=*/true), &response);
    return nearfield::server::SetReply(target.folder.get(), std::move(end), std::move(response),
                                       reply);
  });
}

int32_t nf_begin(nf_server server, const char* method, const void* request, size_t size,
                 const nf_options* options, nf_stream* stream, nf_reply* reply) {
  return Guarded(reply, [&]() -> int32_t {
    *stream = 0;
    Target target;
    absl::Status status = nearfield::server::Find(server, method, /*unary=*/false, &target);
    if (!status.ok()) return nearfield::server::SetError(status, reply);
    const auto open = std::make_shared<OpenStream>(
        OpenStream{.folder = target.folder,
                   .stream = target.method->make_stream(
                       target.folder.get(), nearfield::server::FactsOf(options, /*waits=*/false))});
    status = open->folder->Enter(open->stream);
    if (!status.ok()) return nearfield::server::SetError(status, reply);
    absl::Cleanup undo = [&] {  // after an exception
      Streams().Take(std::exchange(*stream, 0));
      open->End();
    };
    target.method->start(open->folder.get(), {request, size}, open->stream.get());
    if (open->folder->closing()) open->stream->Release();  // Close came before the start
    *stream = Streams().Add(open);
    nearfield::server::SetError(absl::OkStatus(), reply);
    std::move(undo).Cancel();
    return reply->code;
  });
}

int32_t nf_send(nf_stream stream, const void* request, size_t size) {
  return Guarded([&]() -> int32_t {
    const auto open = nearfield::server::FindStream(stream);
    if (!open.ok()) return 0;
    absl::Cleanup cancel = [&] { (*open)->stream->Cancel(); };  // after an exception
    const bool sent = (*open)->stream->Send(request, size);
    std::move(cancel).Cancel();
    return sent ? 1 : 0;
  });
}

int32_t nf_receive(nf_stream stream, nf_reply* reply) {
  Guarded(reply, [&]() -> int32_t {
    const auto found = nearfield::server::FindStream(stream);
    if (!found.ok()) {
      nearfield::server::SetError(found.status(), reply);
      return 0;
    }
    OpenStream& open = **found;
    std::string message;
    const bool received = open.stream->Receive(&message);
    CallEnd end;
    if (!received) end = open.stream->AwaitEnd();
    nearfield::server::SetReply(open.folder.get(), std::move(end), std::move(message), reply);
    reply->has_message = received ? 1 : 0;
    return reply->has_message;
  });
  return reply->has_message;
}

void nf_cancel(nf_stream stream) {
  Guarded([&]() -> int32_t {
    const auto open = nearfield::server::FindStream(stream);
    if (open.ok()) (*open)->stream->Cancel();
    return 0;
  });
}

void nf_end(nf_stream stream) {
  Guarded([&]() -> int32_t {
    const std::shared_ptr<OpenStream> open = Streams().Take(stream);
    if (open != nullptr && !open->folder->forked()) open->End();
    return 0;
  });
}

int32_t nf_search(nf_server server, const nf_plain_search* search, const nf_options* options,
                  nf_plain_result* result, nf_reply* reply) {
  return Guarded(reply, [&]() -> int32_t {
    *result = {};
    const auto folder = nearfield::server::FindFolder(server);
    if (!folder.ok()) return nearfield::server::SetError(folder.status(), reply);
    std::string message;
    CallEnd end = nearfield::server::PlainSearch(
        folder->get(), *search, nearfield::server::FactsOf(options, /*waits=*/true), result,
        &message);
    const int32_t has_message = message.empty() ? 0 : 1;
    *reply = {};
    if (end.status.ok() && has_message == 0) return NF_OK;
    nearfield::server::SetReply(folder->get(), std::move(end), std::move(message), reply);
    reply->has_message = has_message;
    return reply->code;
  });
}

int32_t nf_search_device(nf_server server, const nf_device_search* search,
                         const nf_options* options, nf_device_result* result, nf_reply* reply) {
  return Guarded(reply, [&]() -> int32_t {
    *result = {};
    const auto folder = nearfield::server::FindFolder(server);
    if (!folder.ok()) return nearfield::server::SetError(folder.status(), reply);
    const auto request = nearfield::server::FromC(*search);
    if (!request.ok()) return nearfield::server::SetError(request.status(), reply);
    const auto found = nearfield::server::SearchOnDevice(
        &(*folder)->state(), nearfield::server::FactsOf(options, /*waits=*/false), *request);
    if (found.ok()) {
      *result = {.epoch = found->epoch,
                 .matched_rows = found->matched_rows,
                 .device_us = found->cost.device_us,
                 .total_us = found->cost.total_us};
    }
    return nearfield::server::SetReply(
        folder->get(), {.status = found.status(), .request_id = {}, .retry_after_ms = {}}, "",
        reply);
  });
}

int32_t nf_take_device_memory(nf_server server, int64_t bytes, nf_memory* memory, void** address,
                              nf_reply* reply) {
  return Guarded(reply, [&]() -> int32_t {
    *memory = 0;
    *address = nullptr;
    const auto folder = nearfield::server::FindFolder(server);
    if (!folder.ok()) return nearfield::server::SetError(folder.status(), reply);
    auto taken = nearfield::server::TakeDeviceMemory(&(*folder)->state(), bytes);
    if (!taken.ok()) return nearfield::server::SetError(taken.status(), reply);
    *address = (*taken)->data();
    *memory = nearfield::server::Memories().Add(*std::move(taken));
    return nearfield::server::SetError(absl::OkStatus(), reply);
  });
}

void nf_give_device_memory(nf_memory memory) { nearfield::server::Memories().Take(memory); }

void nf_free(nf_reply* reply) {
  delete static_cast<nearfield::server::ReplyBytes*>(reply->owner);
  *reply = {};
}
