// LocalService::Update.
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/attributes/schema.h"
#include "server/collections/update_queue.h"
#include "server/convert/update.h"
#include "server/rpc/choose_rows.h"
#include "server/rpc/find_collection.h"
#include "server/rpc/local_service.h"
#include "server/rpc/unary_call.h"
#include "server/scheduler/retry_hint.h"
#include "server/telemetry/refusal_reason.h"

namespace nearfield::server {
namespace {

// An update between its check and its commit. It counts among those that wait, so that its place in
// the pool is certain once it may run. A call that ends before its update was begun takes it back.
class Steps {
 public:
  Steps() = default;
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  ~Steps() {
    if (place != nullptr) named->updates->Remove(place);
    if (waiting_ != nullptr) --*waiting_;
  }

  // Counts the update. Errors: ResourceExhausted with a hint.
  absl::Status Count(std::atomic<int64_t>* waiting) {
    constexpr int64_t kRetryAfterMs = 100;
    waiting_ = waiting;
    const int64_t present = (*waiting)++;
    if (present < Core::kUpdatesMax) return absl::OkStatus();
    return WithReason(ExhaustedFor(kRetryAfterMs, "too many updates at once: ", present,
                                   ", the limit is ", Core::kUpdatesMax),
                      "updates");
  }

  NamedCollectionPtr named;
  UpdateQueue::Place place;

 private:
  std::atomic<int64_t>* waiting_ = nullptr;
};

// Returns a function that returns the status of a call that ended early, without the call: its
// update may still wait.
std::function<absl::Status()> DeadStatusOf(const Call& call) {
  return
      [cancelled = call.cancelled(), deadline = call.deadline(), clock = &call.state()->clock()] {
        if (cancelled->load()) return absl::CancelledError("cancelled before the update began");
        if (deadline.has_value() && clock->Now() >= *deadline) {
          return absl::DeadlineExceededError("the deadline passed before the update began");
        }
        return absl::OkStatus();
      };
}

// The bytes that are remembered with a token: this mark, which begins no message, the SHA-256 of
// the request, and its reply. Without the mark, they are a reply alone: earlier builds wrote that.
constexpr char kMark = '\1';
constexpr size_t kDigestBytes = 32;

// Reads the reply to an earlier request with the same token. Errors: FailedPrecondition (it was
// another request), DataLoss.
absl::Status ReadFirstReply(std::string_view remembered, const pb::UpdateRequest& request,
                            pb::UpdateResponse* response) {
  std::string_view reply = remembered;
  const bool marked = reply.front() == kMark && reply.size() > kDigestBytes;
  if (marked) reply.remove_prefix(1 + kDigestBytes);
  if (!response->ParseFromArray(reply.data(), static_cast<int>(reply.size()))) {
    return absl::DataLossError("update_token: its stored reply cannot be read");
  }
  const std::string_view digest = remembered.substr(1, kDigestBytes);
  const bool same = !marked || digest == DigestOfRequest(request.SerializeAsString());
  if (same) return absl::OkStatus();
  const uint64_t epoch = response->epoch();
  response->Clear();
  return absl::FailedPreconditionError(
      absl::StrCat("update_token: ", QuoteText(request.update_token()),
                   " is that of another update, which made epoch ", epoch, "; choose a new token"));
}

// Checks the request, and adds the update to those that wait.
absl::Status Check(Core& core, Call& call, const std::shared_ptr<const pb::UpdateRequest>& request,
                   Steps* steps) {
  ABSL_RETURN_IF_ERROR(steps->Count(&core.updates_waiting));
  ABSL_ASSIGN_OR_RETURN(steps->named, call.Find(core, request->collection()));
  const NamedCollection& named = *steps->named;
  if (request->has_incarnation()) {
    ABSL_RETURN_IF_ERROR(CheckIncarnation(named, request->incarnation()));
  }
  if (request->has_update_token() && named.store == nullptr) {
    return absl::FailedPreconditionError(
        "update_token: this server keeps no data directory (data_dir is none)");
  }
  ABSL_ASSIGN_OR_RETURN(call.holds.request, call.state()->ledger().requests.Reserve(
                                                call.caller(), UpdateMemoryMax(*request)));
  const auto schema = named.attributes->SchemaAt();
  ABSL_ASSIGN_OR_RETURN(RowUpdate update, FromProto(request, named.collection->spec(), *schema,
                                                    call.state()->limits()));
  if (FilterOf(*request).given()) {
    ABSL_ASSIGN_OR_RETURN(update.choose,
                          HeldFilter(named, *schema, FilterOf(*request), &call.holds.request));
  }
  if (ConditionOf(*request).given()) {
    ABSL_ASSIGN_OR_RETURN(update.if_filter,
                          HeldFilter(named, *schema, ConditionOf(*request), &call.holds.request));
  }
  update.encode_reply = [request, incarnation = named.incarnation](const UpdateReply& reply) {
    pb::UpdateResponse response;
    ToProto(reply, &response);
    response.set_incarnation(incarnation);
    return absl::StrCat(std::string(1, kMark), DigestOfRequest(request->SerializeAsString()),
                        response.SerializeAsString());
  };
  update.dead = DeadStatusOf(call);
  steps->place = named.updates->Add(std::move(update));
  return absl::OkStatus();
}

absl::Status RunUpdate(const Steps& steps, Call& call, const pb::UpdateRequest& request,
                       pb::UpdateResponse* response) {
  ABSL_ASSIGN_OR_RETURN(const UpdateReply reply,
                        steps.named->updates->Run(*steps.named, steps.place));
  if (!reply.first_reply.empty()) return ReadFirstReply(reply.first_reply, request, response);
  ToProto(reply, response);
  response->set_incarnation(steps.named->incarnation);
  call.record.rows = reply.rows_updated;
  return absl::OkStatus();
}

}  // namespace

ActiveCallPtr LocalService::Update(Rpc<pb::UpdateRequest, pb::UpdateResponse> rpc) {
  UnaryCall::Options options = {.state = state_, .context = rpc.context, .method = "Update"};
  const auto steps = std::make_shared<Steps>();
  options.post = [steps](Core& core, std::function<void()> job, std::function<void()> after) {
    return core.update_turns.Post(&core.updates,
                                  {.group = steps->named.get(),
                                   .work = std::move(job),
                                   .after = std::move(after),
                                   .is_done = [place = steps->place] { return place->done; }});
  };
  options.choose = [request = rpc.request, steps](Core& core, Call& call) {
    call.record.collection = request->collection();
    return Check(core, call, request, steps.get());
  };
  return UnaryCall::Run(options, [rpc, steps](Core& /*core*/, Call& call) {
    return RunUpdate(*steps, call, *rpc.request, rpc.response);
  });
}

}  // namespace nearfield::server
