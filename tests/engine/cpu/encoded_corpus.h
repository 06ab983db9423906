// EncodedCorpus: the codes and bounds of a corpus, computed by the kernels of one instruction set
// without a backend.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/bound/rotation.h"
#include "engine/cpu/kernels/scan_kernels.h"
#include "engine/cpu/workspace.h"
#include "tests/testing/corpora.h"

namespace nearfield::testing {

// Dimensions around every width that a kernel treats differently.
inline constexpr int32_t kEncodedDims[] = {1,  2,  7,  8,   15,  16,  17,  31,   32,
                                           33, 63, 64, 100, 130, 384, 768, 1000, 2049};

// Returns a few rows of a random metric and row type.
inline Corpus AnyCorpus(Random& random, int32_t dim, CorpusFamily family) {
  const CollectionSpec spec = {.dim = dim,
                               .metric = static_cast<Metric>(random.Between(1, 4)),
                               .row_type = static_cast<RowType>(random.Between(1, 4))};
  return MakeCorpus(spec, family, random.Between(1, 6), random.Bits());
}

struct EncodedCorpus {
  EncodedCorpus(const cpu::ScanKernels& kernels, const Corpus& corpus,
                const bound::Rotation& rotation) {
    const int32_t dim = corpus.spec.dim;
    const int64_t stride = cpu::CodeStride(dim);
    const int64_t rows_count = corpus.rows_count();
    const int64_t row_stride = int64_t{cpu::PaddedDim(dim)} * BytesPerElement(corpus.spec.row_type);
    ScratchBuffer<std::byte> row_buffer;
    std::byte* const rows = row_buffer.Ensure(rows_count * row_stride);
    std::fill(rows, rows + rows_count * row_stride, std::byte{0});
    for (int64_t r = 0; r < rows_count; ++r) {
      const auto row = corpus.row(r);
      std::copy(row.begin(), row.end(), reinterpret_cast<uint8_t*>(rows) + r * row_stride);
    }
    std::vector<double> squares(static_cast<size_t>(rows_count) + cpu::kRowGroup);
    kernels.square_rows(
        {rows, static_cast<int32_t>(rows_count), cpu::PaddedDim(dim), corpus.spec.row_type},
        squares.data());
    bounds.resize(static_cast<size_t>(rows_count));
    ScratchBuffer<double> scratch;
    cpu::EncodeRows encode;
    encode.rotation = &rotation;
    encode.dim = dim;
    encode.metric = corpus.spec.metric;
    encode.row_type = corpus.spec.row_type;
    encode.rows = rows;
    encode.rows_count = static_cast<int32_t>(rows_count);
    encode.squares = squares.data();
    encode.codes = codes.Ensure(rows_count * stride);
    std::fill(encode.codes, encode.codes + rows_count * stride, uint8_t{0xee});
    encode.bounds = bounds.data();
    encode.scratch = scratch.Ensure(cpu::EncodeScratchDoubles(dim));
    kernels.codes.encode_rows(encode);
  }

  std::vector<bound::RowBound> bounds;
  ScratchBuffer<uint8_t> codes;  // [rows, CodeStride(dim)]
};

}  // namespace nearfield::testing
