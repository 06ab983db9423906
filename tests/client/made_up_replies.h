// Changes of replies that a TestServer makes, for tests of the library and of the command.
#pragma once

#include "nearfield/v1/admin.pb.h"

namespace nearfield::client {

// Fills the reply to Compact.
inline void GiveBackSome(v1::CompactResponse* reply) {
  reply->set_rows_given_back(1234);
  reply->set_device_bytes_given_back(2000);
  reply->set_host_bytes_given_back(3000);
  reply->set_stored_rows_given_back(5);
  reply->set_stored_bytes_given_back(4000);
}

}  // namespace nearfield::client
