#include "engine/gpu/memory/slab_range.h"

#include "engine/base/checked_math.h"
#include "engine/base/status_macros.h"

namespace nearfield::gpu {

SlabRange::~SlabRange() {
  if (piece_bytes_ > 0) {
    core_->arena().ReleasePiece(slabs_.front(), piece_bytes_);
  } else {
    core_->arena().Release(slabs_);
  }
}

absl::Status SlabRange::Take(int64_t bytes) {
  Arena& arena = core_->arena();
  // The table of the slabs comes first, 8 bytes per slab. It needs at most one slab more itself.
  offset_ = 8 * (CeilDiv(bytes, arena.slab_bytes()) + 1);
  if (SlabPieces::PieceBytes(offset_ + bytes, arena.slab_bytes()) > 0) {
    ABSL_ASSIGN_OR_RETURN(char* const piece, arena.TakePiece(offset_ + bytes));
    piece_bytes_ = offset_ + bytes;
    slabs_ = {piece};
  } else {
    ABSL_ASSIGN_OR_RETURN(slabs_, arena.TakeSlabs(CeilDiv(offset_ + bytes, arena.slab_bytes())));
  }
  view_ = {.slabs = reinterpret_cast<char* const*>(slabs_.front()),
           .slab_shift = arena.slab_shift()};
  return core_->WriteExtent({.slabs = &slabs_, .offset = 0}, slabs_.data(),
                            static_cast<int64_t>(slabs_.size() * sizeof(char*)));
}

int64_t SlabRange::device_bytes() const {
  const int64_t slab_bytes = core_->arena().slab_bytes();
  if (piece_bytes_ > 0) return SlabPieces::PieceBytes(piece_bytes_, slab_bytes);
  return static_cast<int64_t>(slabs_.size()) * slab_bytes;
}

absl::Status SlabRange::Write(int64_t at, const void* data, int64_t bytes) {
  return core_->WriteExtent({.slabs = &slabs_, .offset = offset_ + at}, data, bytes);
}

}  // namespace nearfield::gpu
