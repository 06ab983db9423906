// SlabPieces: divides slabs into pieces of one size each, for bitmaps that are much smaller than a
// slab.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace nearfield::gpu {

// Thread safety: not thread-safe.
class SlabPieces {
 public:
  static constexpr int64_t kPieceBytesMin = 4096;

  // Returns the bytes of a piece for `bytes` bytes: a power of two; 0 if that is a whole slab.
  static int64_t PieceBytes(int64_t bytes, int64_t slab_bytes);

  // Returns a free piece, or null: then AddSlab makes some.
  char* Take(int64_t piece_bytes);
  void AddSlab(char* slab, int64_t slab_bytes, int64_t piece_bytes);
  // Returns true if all pieces of the slab are free now: the slab is given back.
  bool Release(char* slab, int64_t slab_bytes, char* piece, int64_t piece_bytes);

 private:
  using FreePieces = std::map<char*, std::vector<char*>>;  // by slab
  std::map<int64_t, FreePieces> free_;                     // by size; only slabs with free pieces
};

}  // namespace nearfield::gpu
