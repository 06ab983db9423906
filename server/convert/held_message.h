// A decoded message that holds the reservation of its memory.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"
#include "server/scheduler/memory_ledger.h"

namespace nearfield::server {

// An object that may be kept for ever.
struct Keepable {
  std::shared_ptr<Keepable> self;
  Keepable* next = nullptr;  // of all that are kept, so that they stay reachable
};

// Keeps `object` until the process ends. Allocates nothing.
void KeepForEver(const std::shared_ptr<Keepable>& object) noexcept;

template <typename Message>
struct HeldMessage : Keepable {
  ByteAccount::Hold hold;  // destroyed after the message
  Message message;
};

// Returns a message that `read` has filled, with its reservation. `read` takes a HeldMessage*. A
// message whose memory ran out while it was read is kept for ever, without a reservation: protobuf
// sets the case of a oneof before it allocates the message there, so the pointer may be no pointer,
// and must not be deleted. Errors: those of `read`.
template <typename Message, typename Read>
absl::StatusOr<std::shared_ptr<const Message>> ReadHeld(const Read& read) {
  const auto held = std::make_shared<HeldMessage<Message>>();
  absl::Status status;
  try {
    status = read(held.get());
  } catch (...) {
    held->hold = {};
    KeepForEver(held);
    throw;
  }
  ABSL_RETURN_IF_ERROR(status);
  return std::shared_ptr<const Message>(held, &held->message);
}

}  // namespace nearfield::server
