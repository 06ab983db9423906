#include "server/rpc/device_search_call.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "engine/base/status_macros.h"
#include "server/convert/common.h"
#include "server/rpc/call.h"
#include "server/rpc/choose_rows.h"
#include "server/rpc/search_facts.h"

namespace nearfield::server {
namespace {

// The context of a call that runs on its caller's thread, and returns its status there.
class ThreadContext final : public CallContext {
 public:
  explicit ThreadContext(const CallFacts& facts) : facts_(facts) {}
  const CallFacts& facts() const override { return facts_; }
  void Finish(const CallEnd& /*end*/) override {}
  void Abort() override {}  // the caller takes every answer

 private:
  const CallFacts& facts_;
};

absl::StatusOr<DeviceSearchResult> SearchNamed(Core* core, Call& call,
                                               const DeviceSearchRequest& request) {
  ABSL_ASSIGN_OR_RETURN(const NamedCollectionPtr named, call.Find(*core, request.collection));
  DeviceSearch search = request.search;
  search.cancelled = [&call] { return call.Dead(); };
  if (request.filter_text.has_value()) {
    const GivenFilter given = {.text = &*request.filter_text};
    ABSL_ASSIGN_OR_RETURN(const ChosenRows chosen, ChooseRows(*named, given, nullptr, call));
    search.filter = chosen.rows;
    search.at = chosen.at;
  }
  absl::StatusOr<DeviceSearchResult> result =
      core->engine->SearchOnDevice(*named->collection, search);
  if (absl::IsCancelled(result.status())) ABSL_RETURN_IF_ERROR(call.DeadStatus());
  return result;
}

}  // namespace

absl::StatusOr<DeviceSearchResult> SearchOnDevice(ServerState* state, const CallFacts& facts,
                                                  const DeviceSearchRequest& request) {
  ThreadContext context(facts);
  Call call(state, &context, "SearchOnDevice");
  call.record.collection = request.collection;
  const auto run = [&]() -> absl::StatusOr<DeviceSearchResult> {
    ABSL_ASSIGN_OR_RETURN(Core* const core, call.Enter());
    ABSL_ASSIGN_OR_RETURN(const DeviceSearchResult result, SearchNamed(core, call, request));
    if (state->distrusted()) return ServerState::DistrustStatus();
    Note({.queries = request.search.queries_count,
          .k = request.search.k,
          .device_us = result.cost.device_us,
          .scan = NameOf(result.cost.precision),
          .escalations = result.cost.escalations},
         &call.record);
    return result;
  };
  absl::StatusOr<DeviceSearchResult> result = run();
  const CallEnd end = call.Close(result.status());
  call.ReplyTaken();
  if (!end.status.ok()) return end.status;
  return result;
}

absl::StatusOr<std::unique_ptr<DeviceMemory>> TakeDeviceMemory(ServerState* state, int64_t bytes) {
  ABSL_ASSIGN_OR_RETURN(Core* const core, state->Enter());
  const absl::Cleanup leave = [state] { state->Leave(); };
  return core->engine->TakeDeviceMemory(bytes);
}

}  // namespace nearfield::server
