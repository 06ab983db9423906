// Admin.Verify: checks an answer against the oracle.
#ifndef NEARFIELD_SERVER_CALLS_VERIFY_CALL_H_
#define NEARFIELD_SERVER_CALLS_VERIFY_CALL_H_

#include "absl/status/status.h"
#include "nearfield/v1/admin.pb.h"
#include "server/calls/call.h"

namespace nearfield::server {

// Blocks until the oracle has answered, or the call is cancelled or past its deadline.
absl::Status VerifyAnswer(Core& core, Call& call, const nearfield::v1::VerifyRequest& request,
                          nearfield::v1::VerifyResponse* response);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CALLS_VERIFY_CALL_H_
