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
  return (core->*options.pool).Post([this, core, work = std::move(work)] {
    absl::Status status = call_.DeadStatus();
    if (status.ok()) status = work(*core, call_);
    Finish(call_.Close(status));
  });
}

}  // namespace nearfield::server
