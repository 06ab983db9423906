#include "client/cpp/block_cutter.h"

#include <string>
#include <variant>

#include "client/formats/text.h"

namespace nearfield::client {
namespace {

// Tags and lengths of the block's own fields: seven, of at most 11 bytes each.
constexpr uint64_t kBlockOverheadBytes = 77;
// A tag and a length before each element of a repeated string.
constexpr uint64_t kElementOverheadBytes = 6;

uint64_t IdBytes(const IdColumn& ids, size_t i) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&ids)) {
    return (*texts)[i].size() + kElementOverheadBytes;
  }
  return sizeof(uint64_t);
}

}  // namespace

absl::Status CheckColumns(const RowBlock& rows) {
  const size_t count = rows.ids == nullptr ? 0 : Count(*rows.ids);
  if (!rows.payloads.empty() && rows.payloads.size() != count) {
    return absl::InvalidArgumentError(
        Cat("payloads: ", rows.payloads.size(), " for ", count, " ids; give none, or one a row"));
  }
  const size_t row_unit = count * ElementBytes(rows.dtype);
  if (count == 0 ? !rows.vectors.empty()
                 : rows.vectors.empty() || rows.vectors.size() % row_unit != 0) {
    return absl::InvalidArgumentError(Cat("vectors: ", rows.vectors.size(), " bytes are not ",
                                          count, " rows of ", Name(rows.dtype)));
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> BlockEnd(const RowBlock& rows, size_t begin, uint64_t bytes_max) {
  const size_t count = Count(*rows.ids);
  const uint64_t vector_bytes = rows.vectors.size() / count;
  uint64_t bytes = kBlockOverheadBytes;
  size_t end = begin;
  while (end < count) {
    uint64_t row_bytes = vector_bytes + IdBytes(*rows.ids, end);
    if (!rows.payloads.empty()) row_bytes += rows.payloads[end].size() + kElementOverheadBytes;
    if (row_bytes > bytes_max || bytes > bytes_max - row_bytes) {
      if (end > begin) break;
      return absl::InvalidArgumentError(Cat("the row with id ", ToString(At(*rows.ids, begin)),
                                            " takes ", row_bytes + kBlockOverheadBytes,
                                            " bytes, a block at most ", bytes_max));
    }
    bytes += row_bytes;
    ++end;
  }
  return end;
}

}  // namespace nearfield::client
