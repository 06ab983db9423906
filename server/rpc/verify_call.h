// Admin.Verify: checks an answer against the oracle.
#pragma once

#include "absl/status/status.h"
#include "nearfield/v1/admin.pb.h"
#include "server/rpc/call.h"

namespace nearfield::server {

// Blocks until the oracle has answered, or the call is cancelled or past its deadline.
absl::Status VerifyAnswer(Core& core, Call& call, const nearfield::v1::VerifyRequest& request,
                          nearfield::v1::VerifyResponse* response);

}  // namespace nearfield::server
