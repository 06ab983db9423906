#include "tests/fuzz/message_builder.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace nearfield::fuzz {
namespace {

using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kLearnedMax = 64;

}  // namespace

void MessageBuilder::Fill(int levels, Message* message) {
  const google::protobuf::Descriptor& type = *message->GetDescriptor();
  if (type.field_count() == 0) return;
  for (uint64_t count = input_->Take(1) % 12; count > 0 && !input_->empty(); --count) {
    const Field& field = *type.field(static_cast<int>(input_->Take(1)) % type.field_count());
    uint64_t values = field.is_repeated() ? input_->Take(1) % 8 : 1;
    for (; values > 0; --values) Set(levels, field, message);
  }
}

void MessageBuilder::Learn(const Message& reply) {
  const Reflection& reflection = *reply.GetReflection();
  std::vector<const Field*> fields;
  reflection.ListFields(reply, &fields);
  for (const Field* const field : fields) {
    if (learned_.size() >= kLearnedMax) return;
    const int count = field->is_repeated() ? reflection.FieldSize(reply, field) : 1;
    if (field->cpp_type() == Field::CPPTYPE_MESSAGE) {
      for (int i = 0; i < count; ++i) {
        Learn(field->is_repeated() ? reflection.GetRepeatedMessage(reply, field, i)
                                   : reflection.GetMessage(reply, field));
      }
    } else if (field->type() == Field::TYPE_BYTES && !field->is_repeated()) {
      learned_.push_back(reflection.GetString(reply, field));
    }
  }
}

void MessageBuilder::Set(int levels, const Field& field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  if (field.cpp_type() == Field::CPPTYPE_MESSAGE) {
    if (levels <= 0) return;
    Fill(levels - 1, field.is_repeated() ? reflection.AddMessage(message, &field)
                                         : reflection.MutableMessage(message, &field));
  } else if (field.cpp_type() == Field::CPPTYPE_STRING) {
    std::string value = field.type() == Field::TYPE_BYTES ? Bytes() : Text();
    field.is_repeated() ? reflection.AddString(message, &field, std::move(value))
                        : reflection.SetString(message, &field, std::move(value));
  } else {
    SetNumber(field, message);
  }
}

void MessageBuilder::SetNumber(const Field& field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const auto put = [&](auto set, auto add, auto value) {
    field.is_repeated() ? (reflection.*add)(message, &field, value)
                        : (reflection.*set)(message, &field, value);
  };
  using R = Reflection;
  switch (field.cpp_type()) {
    case Field::CPPTYPE_FLOAT: return put(&R::SetFloat, &R::AddFloat, static_cast<float>(Real()));
    case Field::CPPTYPE_DOUBLE: return put(&R::SetDouble, &R::AddDouble, Real());
    case Field::CPPTYPE_BOOL: return put(&R::SetBool, &R::AddBool, Whole() % 2 == 1);
    case Field::CPPTYPE_ENUM:
      return put(&R::SetEnumValue, &R::AddEnumValue, static_cast<int>(input_->Take(1) % 8));
    case Field::CPPTYPE_INT32:
      return put(&R::SetInt32, &R::AddInt32, static_cast<int32_t>(Whole()));
    case Field::CPPTYPE_INT64:
      return put(&R::SetInt64, &R::AddInt64, static_cast<int64_t>(Whole()));
    case Field::CPPTYPE_UINT32:
      return put(&R::SetUInt32, &R::AddUInt32, static_cast<uint32_t>(Whole()));
    default: return put(&R::SetUInt64, &R::AddUInt64, Whole());
  }
}

std::string MessageBuilder::Text() {
  const uint64_t which = input_->Take(1);
  if (which < 240) return texts_[which % texts_.size()];
  return std::string(input_->TakeBytes(40));
}

// Returns bytes of a reply, or a few small floats, as vectors are sent, or any bytes.
std::string MessageBuilder::Bytes() {
  const uint64_t which = input_->Take(1);
  if (which < 64 && !learned_.empty()) return learned_[which % learned_.size()];
  if (which >= 200) return std::string(input_->TakeBytes(40));
  std::string bytes;
  for (uint64_t floats = which % 16; floats > 0; --floats) {
    const auto value = std::bit_cast<uint32_t>(static_cast<float>(Real()));
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  return bytes;
}

double MessageBuilder::Real() {
  const uint64_t which = input_->Take(1);
  if (which < 240) return (static_cast<double>(which % 24) - 12) / 4;
  if (which < 244) return std::numeric_limits<double>::infinity();
  if (which < 247) return std::numeric_limits<double>::quiet_NaN();
  const double any = std::bit_cast<double>(input_->Take(8));
  // A conversion of a larger number to float is undefined.
  return any > -3e38 && any < 3e38 ? any : 3e38;
}

uint64_t MessageBuilder::Whole() {
  const uint64_t which = input_->Take(1);
  if (which < 224) return which % 16;
  if (which < 236) return uint64_t{0} - which % 4;
  if (which < 244) return uint64_t{1} << (input_->Take(1) % 64);
  return input_->Take(8);
}

}  // namespace nearfield::fuzz
