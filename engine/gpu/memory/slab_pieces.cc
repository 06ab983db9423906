#include "engine/gpu/memory/slab_pieces.h"

#include <algorithm>
#include <bit>

namespace nearfield::gpu {

int64_t SlabPieces::PieceBytes(int64_t bytes, int64_t slab_bytes) {
  const auto piece =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(bytes, kPieceBytesMin))));
  return piece < slab_bytes ? piece : 0;
}

char* SlabPieces::Take(int64_t piece_bytes) {
  FreePieces& slabs = free_[piece_bytes];
  if (slabs.empty()) return nullptr;
  const auto first = slabs.begin();
  char* const piece = first->second.back();
  first->second.pop_back();
  if (first->second.empty()) slabs.erase(first);
  return piece;
}

void SlabPieces::AddSlab(char* slab, int64_t slab_bytes, int64_t piece_bytes) {
  std::vector<char*>& pieces = free_[piece_bytes][slab];
  for (int64_t at = slab_bytes - piece_bytes; at >= 0; at -= piece_bytes) {
    pieces.push_back(slab + at);
  }
}

bool SlabPieces::Release(char* slab, int64_t slab_bytes, char* piece, int64_t piece_bytes) {
  FreePieces& slabs = free_[piece_bytes];
  std::vector<char*>& pieces = slabs[slab];
  pieces.push_back(piece);
  if (static_cast<int64_t>(pieces.size()) * piece_bytes < slab_bytes) return false;
  slabs.erase(slab);
  return true;
}

}  // namespace nearfield::gpu
