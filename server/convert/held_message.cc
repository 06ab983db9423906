#include "server/convert/held_message.h"

#include <atomic>

namespace nearfield::server {

void KeepForEver(const std::shared_ptr<Keepable>& object) noexcept {
  static std::atomic<Keepable*> first{nullptr};
  object->next = first.load();
  while (!first.compare_exchange_weak(object->next, object.get())) {
  }
  object->self = object;
}

}  // namespace nearfield::server
