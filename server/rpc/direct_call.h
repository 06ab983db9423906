// DirectCall: a call that ends itself, without a worker.
#pragma once

#include "server/rpc/call.h"

namespace nearfield::server {

class DirectCall final : public ActiveCall {
 public:
  DirectCall(ServerState* state, CallContext* context, const char* method)
      : call(state, context, method) {}
  void OnCancel() override { call.cancelled()->store(true); }

  Call call;
};

}  // namespace nearfield::server
