// RowStore: the scripted engine's rows, in plain vectors.
#ifndef NEARFIELD_TESTS_SERVER_SCRIPTED_ROWS_H_
#define NEARFIELD_TESTS_SERVER_SCRIPTED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "nearfield/engine/collection.h"
#include "nearfield/engine/row_codec.h"

namespace nearfield::server {

// The rows of a collection, in order of arrival.
struct RowStore {
  explicit RowStore(IdType type) : ids(type) {}
  IdColumn ids;
  std::vector<uint8_t> bytes;
  std::vector<std::vector<float>> values;
  BytesColumn payloads;

  void Append(const UploadBlock& block, const CollectionSpec& spec) {
    const size_t row_bytes =
        static_cast<size_t>(spec.dim) * static_cast<size_t>(BytesPerElement(spec.row_type));
    for (int64_t i = 0; i < block.ids->size(); ++i) {
      const auto row = block.rows.subspan(static_cast<size_t>(i) * row_bytes, row_bytes);
      std::vector<float> widened;
      static_cast<void>(WidenToFloat(spec.row_type, row, &widened).ok());
      ids.AppendFrom(*block.ids, i);
      bytes.insert(bytes.end(), row.begin(), row.end());
      values.push_back(std::move(widened));
      payloads.Append(block.payloads == nullptr ? "" : block.payloads->at(i));
    }
  }
  // Appends the row of `other` at `index`.
  void AppendFrom(const RowStore& other, int64_t index) {
    const size_t row_bytes = other.bytes.size() / static_cast<size_t>(other.ids.size());
    const auto begin =
        other.bytes.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(index) * row_bytes);
    ids.AppendFrom(other.ids, index);
    bytes.insert(bytes.end(), begin, begin + static_cast<std::ptrdiff_t>(row_bytes));
    values.push_back(other.values[static_cast<size_t>(index)]);
    payloads.Append(other.payloads.at(index));
  }
  int64_t IndexOf(const IdColumn& wanted, int64_t at) const {
    for (int64_t i = 0; i < ids.size(); ++i) {
      if (ids.Compare(i, wanted, at) == 0) return i;
    }
    return -1;
  }
};

}  // namespace nearfield::server

#endif  // NEARFIELD_TESTS_SERVER_SCRIPTED_ROWS_H_
