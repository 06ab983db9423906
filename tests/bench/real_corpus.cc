#include "tests/bench/real_corpus.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/formats/vector_file.h"
#include "engine/base/status_macros.h"
#include "engine/score/row_types.h"

namespace nearfield::bench {
namespace {

// Reads a matrix of fp16 or fp32 as fp32.
absl::StatusOr<std::vector<float>> ReadMatrix(const std::string& path, int32_t* dim) {
  ABSL_ASSIGN_OR_RETURN(const client::VectorFile file,
                        client::VectorFile::Open(path, client::FileFormat::kNpy, std::nullopt));
  const client::VectorLayout& layout = file.layout();
  std::string bytes;
  ABSL_RETURN_IF_ERROR(file.AppendRows(0, layout.rows_count, &bytes));
  *dim = static_cast<int32_t>(layout.dim);
  std::vector<float> matrix(layout.rows_count * layout.dim);
  if (layout.dtype == client::DataType::kFloat32) {
    std::memcpy(matrix.data(), bytes.data(), bytes.size());
    return matrix;
  }
  for (size_t i = 0; i < matrix.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof(bits));
    matrix[i] = score::FloatFromHalfBits(bits);
  }
  return matrix;
}

}  // namespace

absl::StatusOr<RealCorpus> ReadRealCorpus(const std::string& folder) {
  RealCorpus corpus;
  int32_t query_dim = 0;
  ABSL_ASSIGN_OR_RETURN(corpus.rows, ReadMatrix(folder + "/packages.fp16.npy", &corpus.dim));
  ABSL_ASSIGN_OR_RETURN(corpus.queries, ReadMatrix(folder + "/queries.f32.npy", &query_dim));
  if (query_dim != corpus.dim) {
    return absl::InvalidArgumentError(
        absl::StrCat("queries of ", query_dim, " dimensions, rows of ", corpus.dim));
  }
  return corpus;
}

}  // namespace nearfield::bench
