#include "server/http/json_writer.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Maximum characters of a number in quotes, with the mark after it.
constexpr size_t kNumberSize = 32;

class Writer {
 public:
  Writer(const ReserveBytes& reserve, std::string* json) : reserve_(reserve), json_(*json) {}

  void WriteLine(const Message& message) {
    Write(message);
    Put("\n");
  }

  const absl::Status& status() const { return status_; }

 private:
  void Write(const Message& message) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    Put("{");
    for (const FieldDescriptor* const field : fields) {
      if (field != fields.front()) Put(",");
      Put("\"");
      Put(field->name());
      Put("\":");
      if (field->is_repeated()) {
        WriteList(message, *field);
      } else {
        WriteValue(message, *field, -1);
      }
    }
    Put("}");
  }

  // Makes room for `size` more bytes. Returns false if there is no memory for them.
  bool Ensure(size_t size) {
    if (!status_.ok()) return false;
    if (json_.capacity() - json_.size() >= size) return true;
    const size_t capacity = json_.size() + std::max(size, json_.size());
    // Both texts exist while one is copied to the other.
    status_ = reserve_(static_cast<int64_t>(capacity + json_.capacity()));
    if (status_.ok()) json_.reserve(capacity);
    return status_.ok();
  }
  void Put(std::string_view text) {
    if (Ensure(text.size())) json_.append(text);
  }

  void WriteList(const Message& message, const FieldDescriptor& field) {
    Put("[");
    const int size = message.GetReflection()->FieldSize(message, &field);
    for (int i = 0; i < size && status_.ok(); ++i) {
      if (i > 0) Put(",");
      WriteValue(message, field, i);
    }
    Put("]");
  }

  // Writes a field, or an element of a list: `index` is not -1.
  void WriteValue(const Message& message, const FieldDescriptor& field, int index) {
    const Reflection& reflection = *message.GetReflection();
#define NEARFIELD_VALUE(Name)                        \
  (index < 0 ? reflection.Get##Name(message, &field) \
             : reflection.GetRepeated##Name(message, &field, index))
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: return WriteNumber(NEARFIELD_VALUE(Int32), "");
      case FieldDescriptor::CPPTYPE_UINT32: return WriteNumber(NEARFIELD_VALUE(UInt32), "");
      case FieldDescriptor::CPPTYPE_INT64: return WriteNumber(NEARFIELD_VALUE(Int64), "\"");
      case FieldDescriptor::CPPTYPE_UINT64: return WriteNumber(NEARFIELD_VALUE(UInt64), "\"");
      case FieldDescriptor::CPPTYPE_FLOAT: return WriteReal(NEARFIELD_VALUE(Float));
      case FieldDescriptor::CPPTYPE_DOUBLE: return WriteReal(NEARFIELD_VALUE(Double));
      case FieldDescriptor::CPPTYPE_BOOL: return Put(NEARFIELD_VALUE(Bool) ? "true" : "false");
      case FieldDescriptor::CPPTYPE_ENUM: return WriteEnum(field, NEARFIELD_VALUE(EnumValue));
      case FieldDescriptor::CPPTYPE_MESSAGE: return Write(NEARFIELD_VALUE(Message));
      case FieldDescriptor::CPPTYPE_STRING: break;
    }
#undef NEARFIELD_VALUE
    std::string scratch;
    const std::string& text =
        index < 0 ? reflection.GetStringReference(message, &field, &scratch)
                  : reflection.GetRepeatedStringReference(message, &field, index, &scratch);
    field.type() == FieldDescriptor::TYPE_BYTES ? WriteBytes(text) : WriteText(text);
  }

  template <typename Number>
  void WriteNumber(Number value, std::string_view quote) {
    if (!Ensure(kNumberSize)) return;
    std::array<char, kNumberSize> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    json_.append(quote).append(digits.data(), end).append(quote);
  }
  template <typename Real>
  void WriteReal(Real value) {
    if (std::isnan(value)) return Put("\"NaN\"");
    if (std::isinf(value)) return Put(value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    if (value == 0 && std::signbit(value)) return Put("-0.0");
    WriteNumber(value, "");
  }
  void WriteEnum(const FieldDescriptor& field, int number) {
    const auto* const value = field.enum_type()->FindValueByNumber(number);
    if (value == nullptr) return WriteNumber(number, "");
    Put("\"");
    Put(value->name());
    Put("\"");
  }
  void WriteBytes(const std::string& bytes) {
    constexpr size_t kPart = 3 * 4096;  // a multiple of three: only the last part is padded
    Put("\"");
    for (size_t at = 0; at < bytes.size() && status_.ok(); at += kPart) {
      Put(absl::Base64Escape(absl::string_view(bytes).substr(at, kPart)));
    }
    Put("\"");
  }
  void WriteText(std::string_view text) {
    Put("\"");
    size_t written = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const bool is_mark = c == '"' || c == '\\';
      if (!is_mark && static_cast<unsigned char>(c) >= 0x20) continue;
      Put(text.substr(written, i - written));
      Put(is_mark ? std::string{'\\', c} : absl::StrFormat("\\u%04x", static_cast<unsigned>(c)));
      written = i + 1;
    }
    Put(text.substr(written));
    Put("\"");
  }

  const ReserveBytes& reserve_;
  std::string& json_;
  absl::Status status_;
};

}  // namespace

absl::Status ToJson(const Message& message, const ReserveBytes& reserve, std::string* json) {
  Writer writer(reserve, json);
  writer.WriteLine(message);
  return writer.status();
}

}  // namespace nearfield::server
