#include "server/convert/decoded_bytes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/mutex.h"

namespace nearfield::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// The decoder's limit: deeper messages are refused.
constexpr int kDepthMax = 100;
// Bytes that an allocator adds to one allocation, including rounding; up to a page for a large one.
constexpr int64_t kAllocationBytes = 16;
constexpr int64_t kPageBytes = 4096;
// The first array of a repeated field. Later arrays double. During a copy, the old and the new
// array hold the same elements, so each element counts twice.
constexpr int64_t kFirstArrayBytes = 96;
constexpr int64_t kPointerBytes = 2 * sizeof(void*);
constexpr int64_t kStringBytes = sizeof(std::string) + kAllocationBytes;
// Up to this size the decoder allocates a text once; a longer text grows like an array.
constexpr int64_t kReservedTextBytes = 50'000'000;
// Maximum bytes for each unknown field: its share of the set of unknown fields and of its array, or
// a nested set.
constexpr int64_t kUnknownBytes = 128;

// The memory that an object of a type and its fields take.
struct TypeCosts {
  struct Field {
    enum class Kind : uint8_t { kUnknown, kScalar, kText, kMessage };
    Kind kind = Kind::kUnknown;
    bool repeated = false;
    WireFormatLite::WireType wire_type = WireFormatLite::WIRETYPE_VARINT;  // of a single scalar
    int64_t element_bytes = 0;
    const TypeCosts* type = nullptr;  // for kMessage
  };
  int64_t object_bytes = 0;
  std::vector<Field> fields;  // by field number
};

// The costs of all types that were requested so far. Thread-safe.
class CostTable {
 public:
  const TypeCosts& Of(const Descriptor* type) {
    const MutexLock lock(mutex_);
    return Add(type);
  }

 private:
  const TypeCosts& Add(const Descriptor* type) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto [it, added] = types_.try_emplace(type);
    TypeCosts& costs = it->second;  // references stay valid
    if (!added) return costs;
    const Message* const prototype = MessageFactory::generated_factory()->GetPrototype(type);
    costs.object_bytes = static_cast<int64_t>(prototype->SpaceUsedLong()) + kAllocationBytes;
    for (int i = 0; i < type->field_count(); ++i) {
      const auto number = static_cast<size_t>(type->field(i)->number());
      if (costs.fields.size() <= number) costs.fields.resize(number + 1);
      costs.fields[number] = FieldOf(*type->field(i));
    }
    return costs;
  }

  TypeCosts::Field FieldOf(const FieldDescriptor& field) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    using Kind = TypeCosts::Field::Kind;
    const auto type = static_cast<WireFormatLite::FieldType>(field.type());
    TypeCosts::Field costs = {.repeated = field.is_repeated(),
                              .wire_type = WireFormatLite::WireTypeForFieldType(type)};
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        costs.kind = Kind::kMessage;
        costs.type = &Add(field.message_type());
        return costs;
      case FieldDescriptor::CPPTYPE_STRING: costs.kind = Kind::kText; return costs;
      case FieldDescriptor::CPPTYPE_BOOL: costs.element_bytes = 1; break;
      case FieldDescriptor::CPPTYPE_INT32:
      case FieldDescriptor::CPPTYPE_UINT32:
      case FieldDescriptor::CPPTYPE_FLOAT:
      case FieldDescriptor::CPPTYPE_ENUM: costs.element_bytes = 4; break;
      default: costs.element_bytes = 8;
    }
    costs.kind = Kind::kScalar;
    return costs;
  }

  Mutex mutex_;
  std::unordered_map<const Descriptor*, TypeCosts> types_ ABSL_GUARDED_BY(mutex_);
};

CostTable& Costs() {
  static auto* const table = new CostTable();
  return *table;
}

int64_t TextBytes(int64_t size) {
  return kStringBytes + (size <= kReservedTextBytes ? 1 : 2) * size +
         (size < kPageBytes ? kAllocationBytes : kPageBytes);
}

// Iterates over the fields of one message, and sums up their memory.
class Scan {
 public:
  Scan(CodedInputStream* wire, int64_t bytes_max) : wire_(*wire), bytes_max_(bytes_max) {}

  int64_t bytes() const { return bytes_; }
  bool full() const { return bytes_ > bytes_max_; }

  // Returns false if the bytes are not a message of this type.
  bool Fields(const TypeCosts& type, int depth) {
    uint64_t seen = 0;  // repeated fields with numbers below 64
    while (!full()) {
      const uint32_t tag = wire_.ReadTag();
      if (tag == 0) return wire_.ConsumedEntireMessage();
      const auto number = static_cast<size_t>(WireFormatLite::GetTagFieldNumber(tag));
      if (number == 0) return false;
      const auto wire_type = WireFormatLite::GetTagWireType(tag);
      if (number >= type.fields.size() || !IsOf(type.fields[number], wire_type)) {
        if (!Unknown(tag, depth)) return false;
        continue;
      }
      const TypeCosts::Field& field = type.fields[number];
      const uint64_t bit = number < 64 ? uint64_t{1} << number : 0;
      if (field.repeated && (seen & bit) == 0) bytes_ += kFirstArrayBytes;
      seen |= bit;
      if (!Known(field, wire_type, depth)) return false;
    }
    return true;
  }

 private:
  using Kind = TypeCosts::Field::Kind;

  static bool IsOf(const TypeCosts::Field& field, WireFormatLite::WireType wire_type) {
    const bool has_length = wire_type == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (field.kind == Kind::kUnknown) return false;
    if (field.kind != Kind::kScalar) return has_length;
    return wire_type == field.wire_type || (has_length && field.repeated);
  }

  bool Known(const TypeCosts::Field& field, WireFormatLite::WireType wire_type, int depth) {
    if (wire_type != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (field.repeated) bytes_ += 2 * field.element_bytes;
      return SkipScalar(wire_type);
    }
    int size = 0;
    if (!wire_.ReadVarintSizeAsInt(&size)) return false;
    if (field.repeated && field.kind != Kind::kScalar) bytes_ += kPointerBytes;
    switch (field.kind) {
      case Kind::kScalar: {
        const int64_t wire_bytes = field.wire_type == WireFormatLite::WIRETYPE_VARINT    ? 1
                                   : field.wire_type == WireFormatLite::WIRETYPE_FIXED32 ? 4
                                                                                         : 8;
        bytes_ += 2 * field.element_bytes * (size / wire_bytes + 1);
        return wire_.Skip(size);
      }
      case Kind::kMessage:
        bytes_ += field.type->object_bytes;
        return Nested(*field.type, size, depth + 1);
      default: bytes_ += TextBytes(size); return wire_.Skip(size);
    }
  }

  bool Nested(const TypeCosts& type, int size, int depth) {
    if (depth > kDepthMax) return false;
    const CodedInputStream::Limit limit = wire_.PushLimit(size);
    const bool good = Fields(type, depth);
    if (full()) return true;
    const bool whole = good && wire_.BytesUntilLimit() == 0;
    wire_.PopLimit(limit);
    return whole;
  }

  bool Unknown(uint32_t tag, int depth) {
    bytes_ += kUnknownBytes;
    const auto wire_type = WireFormatLite::GetTagWireType(tag);
    switch (wire_type) {
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        int size = 0;
        if (!wire_.ReadVarintSizeAsInt(&size)) return false;
        bytes_ += TextBytes(size);
        return wire_.Skip(size);
      }
      case WireFormatLite::WIRETYPE_START_GROUP:
        return Group(WireFormatLite::GetTagFieldNumber(tag), depth + 1);
      default: return SkipScalar(wire_type);
    }
  }

  bool Group(int number, int depth) {
    if (depth > kDepthMax) return false;
    while (!full()) {
      const uint32_t tag = wire_.ReadTag();
      if (WireFormatLite::GetTagFieldNumber(tag) == 0) return false;
      if (WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_END_GROUP) {
        return WireFormatLite::GetTagFieldNumber(tag) == number;
      }
      if (!Unknown(tag, depth)) return false;
    }
    return true;
  }

  bool SkipScalar(WireFormatLite::WireType wire_type) {
    uint64_t value = 0;
    switch (wire_type) {
      case WireFormatLite::WIRETYPE_VARINT: return wire_.ReadVarint64(&value);
      case WireFormatLite::WIRETYPE_FIXED64: return wire_.Skip(8);
      case WireFormatLite::WIRETYPE_FIXED32: return wire_.Skip(4);
      default: return false;
    }
  }

  CodedInputStream& wire_;
  const int64_t bytes_max_;
  int64_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> DecodedBytesMax(const Message& message,
                                        google::protobuf::io::ZeroCopyInputStream* wire,
                                        int64_t bytes_max) {
  CodedInputStream stream(wire);
  stream.SetTotalBytesLimit(INT32_MAX);
  Scan scan(&stream, bytes_max);
  const TypeCosts& type = Costs().Of(message.GetDescriptor());
  if (!scan.Fields(type, /*depth=*/0)) {
    return absl::InvalidArgumentError("the bytes are no message of this type");
  }
  return type.object_bytes + scan.bytes();
}

}  // namespace nearfield::server
