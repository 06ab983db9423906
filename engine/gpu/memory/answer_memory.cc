#include "engine/gpu/memory/answer_memory.h"

#include <utility>

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"

namespace nearfield::gpu {
namespace {

constexpr int kAnswerMemories = 2;

}  // namespace

absl::Status AnswerMemory::Create(DeviceHealth& health, int64_t rows_max, int64_t queries_max) {
  rows_max_ = RoundUp(rows_max, 2);  // ids, which come first, keep the others aligned
  return memory_.Create(health, rows_max_ * int64_t{sizeof(uint64_t) + sizeof(float)} +
                                    queries_max * int64_t{sizeof(int32_t)});
}

AnswerArrays AnswerMemory::ArraysAt(char* base) const {
  char* const scores = base + rows_max_ * int64_t{sizeof(uint64_t)};
  return {.scores = reinterpret_cast<float*>(scores),
          .ids = reinterpret_cast<uint64_t*>(base),
          .counts = reinterpret_cast<int32_t*>(scores + rows_max_ * int64_t{sizeof(float)})};
}

absl::Status AnswerMemoryPool::Create(DeviceHealth& health, int64_t rows_max, int64_t queries_max) {
  const MutexLock lock(mutex_);
  for (int i = 0; i < kAnswerMemories; ++i) {
    auto memory = std::make_unique<AnswerMemory>();
    ABSL_RETURN_IF_ERROR(memory->Create(health, rows_max, queries_max));
    free_.push_back(memory.get());
    all_.push_back(std::move(memory));
  }
  return absl::OkStatus();
}

std::shared_ptr<AnswerMemory> AnswerMemoryPool::Take() {
  MutexLock lock(mutex_);
  while (free_.empty()) given_back_.Wait(lock);
  AnswerMemory* const taken = free_.back();
  free_.pop_back();
  return {taken, [this](AnswerMemory* memory) { GiveBack(memory); }};
}

void AnswerMemoryPool::GiveBack(AnswerMemory* memory) {
  const MutexLock lock(mutex_);
  free_.push_back(memory);
  given_back_.NotifyOne();
}

}  // namespace nearfield::gpu
