#include "server/service/unary_call.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace nearfield::server {

grpc::ServerUnaryReactor* UnaryCall::Run(const Options& options, Work work) {
  auto* reactor = new UnaryCall(options);
  const absl::Status status = reactor->Post(options, std::move(work));
  if (!status.ok()) reactor->Finish(reactor->call_.Close(status));
  return reactor;
}

absl::Status UnaryCall::Post(const Options& options, Work work) {
  ABSL_ASSIGN_OR_RETURN(Core* const core, call_.Enter());
  // The place in the pool is free before the caller has its answer, so that its next call finds it
  // free.
  return (core->*options.pool)
      .Post(
          [this, core, work = std::move(work)] {
            status_ = call_.DeadStatus();
            if (status_.ok()) status_ = work(*core, call_);
          },
          [this] { Finish(call_.Close(status_)); });
}

}  // namespace nearfield::server
