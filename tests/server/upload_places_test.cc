// Tests of upload places on a fake clock: limits, and which upload loses its place.
#include "server/scheduler/upload_places.h"

#include <chrono>
#include <string>

#include "server/scheduler/retry_hint.h"
#include "tests/server/fake_clock.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

using std::chrono::seconds;

class UploadPlacesTest : public ::testing::Test {
 protected:
  // By default, 100 bytes a second over 10 s.
  UploadPlaces Make(int64_t places_max, int64_t caller_places_max, int64_t rate = 100) {
    return UploadPlaces({.places_max = places_max,
                         .caller_places_max = caller_places_max,
                         .bytes_per_second_min = rate,
                         .window = seconds(10)},
                        &clock_);
  }
  // Returns a callback that appends `name` to lost_ when the upload loses its place.
  UploadPlaces::Lose Note(const std::string& name) {
    return [this, name](const absl::Status& status) {
      EXPECT_THAT(status, FailsWith(kResourceExhausted, "upload_bytes_per_second_min, 100"));
      EXPECT_TRUE(RetryAfterMs(status).has_value());
      lost_ += name;
    };
  }

  // Takes a place, which must be refused. Returns the names of the uploads that lost their place
  // until now.
  std::string LostAfterRefusal(UploadPlaces& places, const std::string& caller = "y") {
    EXPECT_FALSE(places.Take(caller, Note("new")).ok());
    return lost_;
  }
  // The server works for the upload, and then receives these bytes.
  static void Receive(UploadPlaces::Place& upload, int64_t bytes) {
    upload.Pause();
    upload.Resume(bytes);
  }

  FakeClock clock_;
  std::string lost_;
};

TEST_F(UploadPlacesTest, APlaceIsFreeOnceItIsDestroyed) {
  UploadPlaces places = Make(2, 2);
  auto a = places.Take("x", Note("a"));
  const auto b = places.Take("x", Note("b"));
  ASSERT_OK(a);
  ASSERT_OK(b);
  const absl::Status refused = places.Take("y", Note("c")).status();
  EXPECT_THAT(refused,
              FailsWith(kResourceExhausted, "too many uploads at once: 2, the limit uploads_max"));
  EXPECT_TRUE(RetryAfterMs(refused).has_value());
  a->reset();
  EXPECT_OK(places.Take("y", Note("c")));
  EXPECT_EQ(lost_, "");
}

// Regression: one caller could hold every place indefinitely, so that all others were refused.
TEST_F(UploadPlacesTest, ACallerLeavesPlacesToOthers) {
  EXPECT_EQ(CallerShareOf(8, 80), 6);
  EXPECT_EQ(CallerShareOf(2, 80), 1);
  EXPECT_EQ(CallerShareOf(1, 80), 1);
  EXPECT_EQ(CallerShareOf(8, 100), 8);
  UploadPlaces places = Make(3, 2);
  const auto a = places.Take("x", Note("a"));
  const auto b = places.Take("x", Note("b"));
  EXPECT_THAT(places.Take("x", Note("c")), FailsWith(kResourceExhausted, "of this caller"));
  EXPECT_OK(places.Take("y", Note("d")));
}

// Regression: eight uploads that sent a few bytes now and then held all places permanently.
TEST_F(UploadPlacesTest, ATricklingUploadLosesItsPlaceWhenAnotherIsRefused) {
  UploadPlaces places = Make(2, 2);
  const auto fast = places.Take("x", Note("fast"));
  const auto slow = places.Take("x", Note("slow"));
  for (int i = 0; i < 6; ++i) {
    clock_.Advance(seconds(5));
    Receive(**fast, 500);
    Receive(**slow, 499);
  }
  EXPECT_EQ(lost_, "") << "no one was refused";
  EXPECT_EQ(LostAfterRefusal(places), "") << "499 of 500 bytes leave credit for most of a window";
  for (int i = 0; i < 4; ++i) {
    clock_.Advance(seconds(5));
    Receive(**fast, 500);
    Receive(**slow, 10);
  }
  clock_.Advance(seconds(1));
  EXPECT_EQ(LostAfterRefusal(places), "slow");
  EXPECT_EQ(LostAfterRefusal(places), "slow") << "told once, and the fast one never";
}

TEST_F(UploadPlacesTest, TheSlowestLosesItsPlaceFirst) {
  UploadPlaces places = Make(2, 2);
  const auto a = places.Take("x", Note("a"));
  clock_.Advance(seconds(1));
  const auto b = places.Take("x", Note("b"));
  clock_.Advance(seconds(8));
  EXPECT_EQ(LostAfterRefusal(places), "") << "each has a window of silence";
  clock_.Advance(seconds(5));
  EXPECT_EQ(LostAfterRefusal(places), "a");
}

TEST_F(UploadPlacesTest, TimeInWhichTheServerWorksDoesNotCount) {
  UploadPlaces places = Make(1, 1);
  const auto upload = places.Take("x", Note("upload"));
  clock_.Advance(seconds(4));
  (*upload)->Pause();
  clock_.Advance(seconds(1000));
  EXPECT_FALSE(places.Take("y", Note("new")).ok());
  (*upload)->Resume(0);
  clock_.Advance(seconds(5));
  EXPECT_EQ(LostAfterRefusal(places), "") << "9 s of its 10";
  clock_.Advance(seconds(1));
  EXPECT_EQ(LostAfterRefusal(places), "upload");
}

TEST_F(UploadPlacesTest, ABigBlockEarnsNoMoreThanOneWindow) {
  UploadPlaces places = Make(1, 1);
  const auto upload = places.Take("x", Note("upload"));
  Receive(**upload, int64_t{1} << 62);
  clock_.Advance(seconds(10));
  EXPECT_EQ(LostAfterRefusal(places), "upload");
}

TEST_F(UploadPlacesTest, AMinimumOfZeroTakesNoPlaceAway) {
  UploadPlaces places = Make(1, 1, /*rate=*/0);
  const auto upload = places.Take("x", Note("upload"));
  Receive(**upload, 0);
  clock_.Advance(seconds(100000));
  EXPECT_EQ(LostAfterRefusal(places), "");
}

// A caller at its own limit takes a place from its own uploads, never from those of others.
TEST_F(UploadPlacesTest, ACallerAtItsLimitOnlyLosesItsOwnSlowUpload) {
  UploadPlaces places = Make(3, 1);
  const auto other = places.Take("y", Note("other"));
  clock_.Advance(seconds(1));
  const auto own = places.Take("x", Note("own"));
  clock_.Advance(seconds(20));
  EXPECT_EQ(LostAfterRefusal(places, "x"), "own");
}

}  // namespace
}  // namespace nearfield::server
