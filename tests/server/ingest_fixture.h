// IngestServiceTest: uploads over a real channel.
#pragma once

#include <thread>

#include "tests/server/server_fixture.h"

namespace nearfield::server {

class IngestServiceTest : public ServerFixture {
 protected:
  // Waits until the last upload has released its memory.
  void AwaitNoUpload() {
    while (script_->uploads_open > 0) std::this_thread::yield();
  }
};

}  // namespace nearfield::server
