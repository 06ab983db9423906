#include "server/attributes/row_encoding.h"

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"

namespace nearfield::server {
namespace {

constexpr char kVersion = 1;
constexpr uint8_t kListFlag = 128;

uint8_t TagOf(const AttributeSpec& spec) {
  return static_cast<uint8_t>(static_cast<uint8_t>(spec.type) | (spec.is_list ? kListFlag : 0));
}

void PutCount(uint64_t count, std::string* bytes) {
  for (; count >= 128; count >>= 7) bytes->push_back(static_cast<char>((count & 127) | 128));
  bytes->push_back(static_cast<char>(count));
}

void PutValue(const ValueColumn& values, int64_t index, std::string* bytes) {
  if (values.is_keyword()) {
    const std::string_view keyword = values.keyword(index);
    PutCount(keyword.size(), bytes);
    bytes->append(keyword);
  } else if (values.type() == AttributeType::kBool) {
    bytes->push_back(static_cast<char>(values.bits(index)));
  } else {
    const auto bits = static_cast<uint64_t>(values.bits(index));
    for (int byte = 0; byte < 8; ++byte) bytes->push_back(static_cast<char>(bits >> (8 * byte)));
  }
}

// Reads values from the front of a row's bytes. Returns nullopt for values that are missing or
// malformed.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }
  std::optional<std::string_view> Take(uint64_t count) {
    if (count > left_.size()) return std::nullopt;
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  std::optional<uint8_t> TakeByte() {
    const std::optional<std::string_view> byte = Take(1);
    if (!byte.has_value()) return std::nullopt;
    return static_cast<uint8_t>(byte->front());
  }
  std::optional<uint64_t> TakeCount() {
    uint64_t count = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      const std::optional<uint8_t> byte = TakeByte();
      if (!byte.has_value()) return std::nullopt;
      count |= uint64_t{*byte & 127u} << shift;
      if (*byte >= 128) continue;
      if (*byte == 0 && shift > 0) return std::nullopt;  // not the shortest encoding
      return count;
    }
    return std::nullopt;
  }
  std::optional<int64_t> TakeInteger() {
    const std::optional<std::string_view> bytes = Take(8);
    if (!bytes.has_value()) return std::nullopt;
    uint64_t bits = 0;
    for (size_t byte = 0; byte < 8; ++byte) {
      bits |= uint64_t{static_cast<uint8_t>((*bytes)[byte])} << (8 * byte);
    }
    return static_cast<int64_t>(bits);
  }

 private:
  std::string_view left_;
};

// Appends the next value to `values`. Returns what is wrong with it; empty on success.
std::string TakeValue(Reader* reader, ValueColumn* values) {
  switch (values->type()) {
    case AttributeType::kKeyword: {
      const std::optional<uint64_t> size = reader->TakeCount();
      if (!size.has_value()) return "a keyword without a length";
      const std::optional<std::string_view> keyword = reader->Take(*size);
      if (!keyword.has_value()) return "a keyword past the end";
      values->AppendKeyword(*keyword);
      return "";
    }
    case AttributeType::kBool: {
      const std::optional<uint8_t> byte = reader->TakeByte();
      if (!byte.has_value() || *byte > 1) return "a bool that is neither 0 nor 1";
      values->AppendBool(*byte == 1);
      return "";
    }
    case AttributeType::kDouble: {
      const std::optional<int64_t> bits = reader->TakeInteger();
      if (!bits.has_value()) return "a value past the end";
      const auto number = std::bit_cast<double>(*bits);
      if (std::isnan(number)) return "a NaN";
      values->AppendDouble(number);
      return "";
    }
    case AttributeType::kInt64:
    case AttributeType::kTimestamp: {
      const std::optional<int64_t> number = reader->TakeInteger();
      if (!number.has_value()) return "a value past the end";
      values->AppendInteger(*number);
      return "";
    }
  }
  return "an unknown type";
}

// Appends one row to columns whose last row is marked as not present. Returns what is wrong; empty
// on success.
std::string TakeRow(const AttributeSchema& schema, std::string_view bytes, AttributeBlock* block) {
  Reader reader(bytes);
  if (bytes.empty()) return "";
  if (reader.TakeByte() != static_cast<uint8_t>(kVersion)) return "an unknown version";
  if (reader.empty()) return "no attribute after the version";
  uint64_t next = 0;
  while (!reader.empty()) {
    const std::optional<uint64_t> number = reader.TakeCount();
    if (!number.has_value() || *number < next || *number >= static_cast<uint64_t>(schema.size())) {
      return "an attribute that the schema does not have there";
    }
    next = *number + 1;
    const AttributeSpec& spec = schema.at(static_cast<int32_t>(*number));
    if (reader.TakeByte() != TagOf(spec)) {
      return absl::StrCat("\"", spec.name, "\" is not of type ", Describe(spec));
    }
    AttributeColumn ignored = EmptyColumn(spec);
    AttributeColumn& column = spec.dropped ? ignored : block->columns[*number];
    if (!spec.dropped) column.present.back() = true;
    uint64_t count = 1;
    if (spec.is_list) {
      const std::optional<uint64_t> size = reader.TakeCount();
      if (!size.has_value() || *size > bytes.size()) return "a list past the end";
      count = *size;
      column.list_sizes.push_back(static_cast<uint32_t>(count));
    }
    for (uint64_t i = 0; i < count; ++i) {
      std::string problem = TakeValue(&reader, &column.values);
      if (!problem.empty()) return problem;
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<BytesColumn> EncodeRowAttributes(const AttributeSchema& schema,
                                                const AttributeBlock& block,
                                                const AttributeLimits& limits) {
  BytesColumn rows;
  BlockCursor cursor(&block);
  std::string bytes;
  for (int64_t row = 0; row < block.rows_count; ++row) {
    bytes.clear();
    for (int32_t attribute = 0; attribute < schema.size(); ++attribute) {
      const BlockCursor::Values values = cursor.Take(row, attribute);
      if (!values.present) continue;
      if (bytes.empty()) bytes.push_back(kVersion);
      const AttributeSpec& spec = schema.at(attribute);
      PutCount(static_cast<uint64_t>(attribute), &bytes);
      bytes.push_back(static_cast<char>(TagOf(spec)));
      if (spec.is_list) PutCount(static_cast<uint64_t>(values.end - values.begin), &bytes);
      for (int64_t value = values.begin; value < values.end; ++value) {
        PutValue(block.columns[static_cast<size_t>(attribute)].values, value, &bytes);
      }
    }
    if (static_cast<int64_t>(bytes.size()) > limits.row_bytes_max) {
      return ArgumentError(
          "block.attributes",
          absl::StrCat("row ", row, " has ", bytes.size(), " bytes of attributes, must be at most ",
                       limits.row_bytes_max),
          absl::StrCat(bytes.size(), " bytes"), absl::StrCat(limits.row_bytes_max));
    }
    rows.Append(bytes);
  }
  return rows;
}

absl::StatusOr<AttributeBlock> DecodeRowAttributes(const AttributeSchema& schema,
                                                   const BytesColumn& rows) {
  AttributeBlock block = EmptyBlock(schema);
  for (int64_t row = 0; row < rows.size(); ++row) {
    for (AttributeColumn& column : block.columns) column.present.push_back(false);
    const std::string problem = TakeRow(schema, rows.at(row), &block);
    if (!problem.empty()) {
      return absl::DataLossError(absl::StrCat("stored attributes of row ", row, " (",
                                              rows.at(row).size(), " bytes): ", problem));
    }
    ++block.rows_count;
  }
  return block;
}

}  // namespace nearfield::server
