// Identity: the credentials of a client, read from the files of its options.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "nearfield/client/options.h"

namespace nearfield::client {

struct Identity {
  std::shared_ptr<grpc::ChannelCredentials> channel = grpc::InsecureChannelCredentials();
  std::string authorization;  // value of that metadata; empty: none
};

// Errors: InvalidArgument (a file cannot be read; options that do not fit together; a key would be
// sent without TLS to another machine; metadata that cannot be sent).
absl::StatusOr<Identity> ReadIdentity(const ClientOptions& options);

}  // namespace nearfield::client
