// Tests the pieces of slabs: they do not overlap, and a slab is given back with its last piece.
#include "engine/gpu/memory/slab_pieces.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace nearfield::gpu {
namespace {

constexpr int64_t kSlab = int64_t{1} << 18;

TEST(SlabPiecesTest, APieceIsThePowerOfTwoThatHoldsTheBytes) {
  EXPECT_EQ(SlabPieces::PieceBytes(1, kSlab), 4096);
  EXPECT_EQ(SlabPieces::PieceBytes(4096, kSlab), 4096);
  EXPECT_EQ(SlabPieces::PieceBytes(4097, kSlab), 8192);
  EXPECT_EQ(SlabPieces::PieceBytes(kSlab / 2, kSlab), kSlab / 2);
  EXPECT_EQ(SlabPieces::PieceBytes(kSlab / 2 + 1, kSlab), 0);
}

TEST(SlabPiecesTest, ASlabIsGivenBackWithItsLastPiece) {
  std::vector<char> memory(static_cast<size_t>(2 * kSlab));
  char* const first = memory.data();
  char* const second = first + kSlab;
  constexpr int64_t kPiece = kSlab / 4;
  SlabPieces pieces;
  EXPECT_EQ(pieces.Take(kPiece), nullptr);
  pieces.AddSlab(first, kSlab, kPiece);
  EXPECT_EQ(pieces.Take(2 * kPiece), nullptr);
  std::set<char*> taken;
  for (int i = 0; i < 4; ++i) taken.insert(pieces.Take(kPiece));
  EXPECT_EQ(taken,
            (std::set<char*>{first, first + kPiece, first + 2 * kPiece, first + 3 * kPiece}));
  EXPECT_EQ(pieces.Take(kPiece), nullptr);
  pieces.AddSlab(second, kSlab, kPiece);
  char* const other = pieces.Take(kPiece);
  EXPECT_GE(other, second);
  EXPECT_FALSE(pieces.Release(first, kSlab, first + kPiece, kPiece));
  EXPECT_EQ(pieces.Take(kPiece), first + kPiece);
  for (char* const piece : taken) {
    EXPECT_EQ(pieces.Release(first, kSlab, piece, kPiece), piece == *taken.rbegin());
  }
  EXPECT_TRUE(pieces.Release(second, kSlab, other, kPiece));
  EXPECT_EQ(pieces.Take(kPiece), nullptr);
}

}  // namespace
}  // namespace nearfield::gpu
