#include "client/cpp/retry.h"

#include <limits>
#include <vector>

#include "tests/client/fake_clock.h"
#include "tests/client/prelude.h"

namespace nearfield::client {
namespace {

using std::chrono::milliseconds;

const absl::Status kDraining = absl::UnavailableError("draining");
const absl::Status kExhausted = absl::ResourceExhaustedError("queue full");

// Returns scripted attempts, then OK; each try takes `try_cost` of fake time.
class Script {
 public:
  explicit Script(std::vector<Attempt> attempts) : attempts_(std::move(attempts)) {}

  absl::Status Run(const RetryPolicy& policy, milliseconds deadline, bool idempotent = true,
                   milliseconds try_cost = milliseconds(0)) {
    const RetryPlan plan{
        .policy = policy, .deadline = clock_.Now() + deadline, .idempotent = idempotent};
    return RunWithRetries(plan, clock_, [&] {
      last_try_ = clock_.Now();
      clock_.Advance(try_cost);
      return tries_ < attempts_.size() ? attempts_[tries_++] : (++tries_, Attempt{});
    });
  }

  size_t tries() const { return tries_; }
  const std::vector<milliseconds>& sleeps() const { return clock_.sleeps(); }
  TimePoint last_try() const { return last_try_; }

 private:
  std::vector<Attempt> attempts_;
  FakeClock clock_;
  size_t tries_ = 0;
  TimePoint last_try_{};
};

std::vector<Attempt> Times(size_t n, const absl::Status& status,
                           std::optional<milliseconds> hint = std::nullopt) {
  return std::vector<Attempt>(n, Attempt{.status = status, .retry_after = hint});
}

TEST(Retry, SucceedsOnceTheServerDoes) {
  Script script(Times(2, kDraining));
  EXPECT_OK(script.Run({.tries_max = 4}, milliseconds(30000)));
  EXPECT_EQ(script.tries(), 3u);
}

TEST(Retry, GivesUpAfterTriesMaxWithTheLastStatus) {
  Script script(
      {{.status = kDraining}, {.status = absl::UnavailableError("last")}, {.status = kDraining}});
  EXPECT_THAT(script.Run({.tries_max = 2}, milliseconds(30000)), StatusIs(kUnavailable, "last"));
  EXPECT_EQ(script.tries(), 2u);
}

TEST(Retry, RetryAlwaysTriesAreNotCountedAndEndAfterTenSeconds) {
  const Attempt passing = {.status = absl::FailedPreconditionError("in use"), .retry_always = true};
  const RetryPolicy policy = {
      .tries_max = 2, .backoff_first = milliseconds(0), .backoff_max = milliseconds(0)};
  std::vector<Attempt> attempts(50, passing);
  attempts.push_back({.status = kDraining});
  Script script(attempts);
  EXPECT_OK(script.Run(policy, milliseconds(30000)));
  EXPECT_EQ(script.tries(), 52u);
  Script lasting(std::vector<Attempt>(1000, passing));
  EXPECT_THAT(lasting.Run(policy, milliseconds(30000)), StatusIs(kFailedPrecondition, "in use"));
  EXPECT_EQ(lasting.tries(), 201u) << "50 ms apart, for 10 s";
}

TEST(Retry, OnlyTransientRefusalsAreRepeated) {
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "x");
    Script plain(Times(1, status));
    Script hinted(Times(1, status, milliseconds(1)));
    const bool unavailable = status.code() == kUnavailable;
    EXPECT_EQ(plain.Run({}, milliseconds(30000)).ok(), unavailable) << code;
    // Lack of memory is RESOURCE_EXHAUSTED without a hint: a retry cannot help.
    EXPECT_EQ(hinted.Run({}, milliseconds(30000)).ok(),
              unavailable || status.code() == kResourceExhausted)
        << code;
  }
}

TEST(Retry, CallsThatAreNotIdempotentAreMadeOnce) {
  Script script(Times(1, kDraining, milliseconds(1)));
  EXPECT_THAT(script.Run({}, milliseconds(30000), /*idempotent=*/false), StatusIs(kUnavailable));
  EXPECT_EQ(script.tries(), 1u);
  EXPECT_TRUE(script.sleeps().empty());
}

TEST(Retry, WaitsDoubleUpToTheirMaximum) {
  Script script(Times(8, kDraining));
  EXPECT_OK(script.Run(
      {.tries_max = 10, .backoff_first = milliseconds(100), .backoff_max = milliseconds(1000)},
      milliseconds(60000)));
  ASSERT_EQ(script.sleeps().size(), 8u);
  int64_t full = 100;
  for (const milliseconds sleep : script.sleeps()) {
    EXPECT_GE(sleep.count(), full / 2);
    EXPECT_LE(sleep.count(), full);
    full = std::min<int64_t>(full * 2, 1000);
  }
}

TEST(Retry, TheServersHintIsTheLeastWait) {
  Script script(Times(1, kExhausted, milliseconds(7000)));
  EXPECT_OK(script.Run({.backoff_first = milliseconds(10)}, milliseconds(30000)));
  EXPECT_EQ(script.sleeps(), std::vector<milliseconds>{milliseconds(7000)});
}

// Otherwise every client would immediately retry against a server that underestimates its recovery.
TEST(Retry, AShortHintDoesNotShortenTheWait) {
  Script script(Times(1, kExhausted, milliseconds(1)));
  EXPECT_OK(script.Run({.backoff_first = milliseconds(1000), .backoff_max = milliseconds(1000)},
                       milliseconds(30000)));
  ASSERT_EQ(script.sleeps().size(), 1u);
  EXPECT_GE(script.sleeps()[0], milliseconds(500));
}

TEST(Retry, AWaitThatWouldPassTheDeadlineIsNotBegun) {
  Script script(Times(1, kExhausted, milliseconds(30000)));
  EXPECT_THAT(script.Run({}, milliseconds(30000)), StatusIs(kResourceExhausted, "queue full"));
  EXPECT_EQ(script.tries(), 1u);
  EXPECT_TRUE(script.sleeps().empty());
}

TEST(Retry, NoTryBeginsAfterTheDeadline) {
  for (int try_cost = 0; try_cost <= 600; try_cost += 50) {
    Script script(Times(1000, kDraining));
    const TimePoint deadline = FakeClock().Now() + milliseconds(1000);
    EXPECT_FALSE(script
                     .Run({.tries_max = 1000, .backoff_first = milliseconds(20)},
                          milliseconds(1000), true, milliseconds(try_cost))
                     .ok());
    EXPECT_LT(script.last_try(), deadline) << try_cost;
    EXPECT_GT(script.tries(), 1u) << try_cost;
  }
}

TEST(Retry, AbsurdHintsAndPoliciesDoNotOverflow) {
  Script script(Times(3, kDraining, milliseconds(std::numeric_limits<uint32_t>::max())));
  EXPECT_FALSE(script.Run({.tries_max = 5}, milliseconds(1000)).ok());
  Script still(Times(3, kDraining));
  EXPECT_OK(
      still.Run({.tries_max = 5, .backoff_first = milliseconds(0), .backoff_max = milliseconds(0)},
                milliseconds(1000)));
}

}  // namespace
}  // namespace nearfield::client
