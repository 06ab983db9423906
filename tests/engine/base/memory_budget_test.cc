#include "engine/base/memory_budget.h"

#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/prelude.h"

namespace nearfield {
namespace {

TEST(MemoryBudget, GivesUntilFullAndNamesNeededAndFreeBytes) {
  const std::shared_ptr<MemoryBudget> budget = MemoryBudget::Make(100, "test memory");
  ASSERT_OK_AND_ASSIGN(auto first, budget->Reserve(60));
  EXPECT_THAT(budget->Reserve(41),
              StatusIs(kResourceExhausted, AllOf(HasSubstr("41 bytes"), HasSubstr("40 of 100"))));
  EXPECT_OK(budget->Reserve(40));
  EXPECT_EQ(budget->bytes_used(), 60);
}

TEST(MemoryBudget, MovedAndShrunkReservationsGiveBackOnce) {
  const std::shared_ptr<MemoryBudget> budget = MemoryBudget::Make(100, "test memory");
  {
    MemoryReservation a = *budget->Reserve(50);
    MemoryReservation b = std::move(a);
    EXPECT_EQ(b.bytes(), 50);
    b.ShrinkTo(30);
    b.ShrinkTo(40);  // never grows
    EXPECT_EQ(budget->bytes_used(), 30);
    MemoryReservation c = *budget->Reserve(20);
    c = std::move(b);
    EXPECT_EQ(budget->bytes_used(), 30);
  }
  EXPECT_EQ(budget->bytes_used(), 0);
}

TEST(MemoryBudget, AReservationGrowsOnlyIntoFreeBytes) {
  const std::shared_ptr<MemoryBudget> budget = MemoryBudget::Make(100, "test memory");
  {
    MemoryReservation held = *budget->Reserve(50);
    EXPECT_OK(held.Grow(30));
    EXPECT_THAT(held.Grow(21),
                StatusIs(kResourceExhausted, AllOf(HasSubstr("21 bytes"), HasSubstr("20 of 100"))));
    EXPECT_EQ(held.bytes(), 80);
    EXPECT_EQ(budget->bytes_used(), 80);
  }
  EXPECT_EQ(budget->bytes_used(), 0);
}

TEST(MemoryBudget, OutlivesItsOwnerWhileAReservationIsHeld) {
  std::shared_ptr<MemoryBudget> budget = MemoryBudget::Make(10, "test memory");
  MemoryReservation held = *budget->Reserve(10);
  budget.reset();
  held.ShrinkTo(0);
  EXPECT_EQ(held.bytes(), 0);
}

TEST(MemoryBudget, ThreadsNeverTakeMoreThanThereIs) {
  const std::shared_ptr<MemoryBudget> budget = MemoryBudget::Make(3, "test memory");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const auto held = budget->Reserve(1);
        const int64_t used = budget->bytes_used();
        EXPECT_TRUE(used >= 0 && used <= 3) << used;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget->bytes_used(), 0);
}

}  // namespace
}  // namespace nearfield
