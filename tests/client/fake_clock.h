// FakeClock: a clock that moves only through Advance() and SleepFor(); and clients that use it.
#pragma once

#include <chrono>
#include <vector>

#include "client/cpp/retry.h"
#include "nearfield/client/client.h"

namespace nearfield::client {

class FakeClock final : public Clock {
 public:
  TimePoint Now() override { return now_; }
  void SleepFor(std::chrono::milliseconds duration) override {
    sleeps_.push_back(duration);
    now_ += duration;
  }

  void Advance(std::chrono::milliseconds duration) { now_ += duration; }
  const std::vector<std::chrono::milliseconds>& sleeps() const { return sleeps_; }

 private:
  TimePoint now_{std::chrono::hours(1)};
  std::vector<std::chrono::milliseconds> sleeps_;
};

// Declared by client/cpp/core.h too, which includes gRPC headers.
Client MakeClient(const ClientOptions& options, Clock* clock);

}  // namespace nearfield::client
