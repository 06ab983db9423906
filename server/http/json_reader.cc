#include "server/http/json_reader.h"

#include <google/protobuf/descriptor.h>

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "server/convert/text.h"
#include "server/http/json_text.h"

namespace nearfield::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;

constexpr size_t kShownMax = 64;    // bytes of a value in an error
constexpr int64_t kListGrowth = 4;  // a list that grows holds its elements at most this many times
constexpr int64_t kReserveStep = 4096;

// Sets a field, or adds an element to a list.
class Slot {
 public:
  Slot(Message* message, const FieldDescriptor* field)
      : message_(message), field_(field), reflection_(message->GetReflection()) {}

  const FieldDescriptor& field() const { return *field_; }

#define NEARFIELD_SLOT(Name, Type)                                \
  void Put##Name(Type value) const {                              \
    if (field_->is_repeated()) {                                  \
      reflection_->Add##Name(message_, field_, std::move(value)); \
    } else {                                                      \
      reflection_->Set##Name(message_, field_, std::move(value)); \
    }                                                             \
  }
  NEARFIELD_SLOT(Int32, int32_t)
  NEARFIELD_SLOT(Int64, int64_t)
  NEARFIELD_SLOT(UInt32, uint32_t)
  NEARFIELD_SLOT(UInt64, uint64_t)
  NEARFIELD_SLOT(Float, float)
  NEARFIELD_SLOT(Double, double)
  NEARFIELD_SLOT(Bool, bool)
  NEARFIELD_SLOT(EnumValue, int)
  NEARFIELD_SLOT(String, std::string)
#undef NEARFIELD_SLOT

  Message* PutMessage() const {
    return field_->is_repeated() ? reflection_->AddMessage(message_, field_)
                                 : reflection_->MutableMessage(message_, field_);
  }

 private:
  Message* const message_;
  const FieldDescriptor* const field_;
  const Reflection* const reflection_;
};

// Returns the names of the values of an enum: "A, B".
std::string NamesOf(const google::protobuf::EnumDescriptor& type) {
  std::string names;
  for (int i = 0; i < type.value_count(); ++i) {
    absl::StrAppend(&names, i == 0 ? "" : ", ", type.value(i)->name());
  }
  return names;
}

// Returns what a value of the field must be, for an error.
std::string KindOf(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return "a whole number of 32 bits";
    case FieldDescriptor::CPPTYPE_UINT32: return "a whole number, 0 .. 4294967295";
    case FieldDescriptor::CPPTYPE_INT64: return "a whole number of 64 bits";
    case FieldDescriptor::CPPTYPE_UINT64: return "a whole number, 0 .. 18446744073709551615";
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "a number of 32 bits, \"Infinity\", \"-Infinity\" or \"NaN\"";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number of 64 bits, \"Infinity\", \"-Infinity\" or \"NaN\"";
    case FieldDescriptor::CPPTYPE_BOOL: return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM: return "one of " + NamesOf(*field.enum_type());
    case FieldDescriptor::CPPTYPE_MESSAGE: return "an object";
    case FieldDescriptor::CPPTYPE_STRING:
      return field.type() == FieldDescriptor::TYPE_BYTES ? "a text in base64" : "a text";
  }
  return "";
}

class Reader {
 public:
  Reader(std::string_view json, const ReserveBytes& reserve) : json_(json), reserve_(reserve) {}

  absl::Status Read(Message* message) {
    ABSL_RETURN_IF_ERROR(ReadMessage(message));
    return AtEnd() ? absl::OkStatus() : NotJson("there is text after the object");
  }

 private:
  struct Level {
    const FieldDescriptor* field = nullptr;
    int index = -1;  // in a list
  };

  // Skips blanks. Returns true at the end of the text.
  bool AtEnd() {
    while (at_ < json_.size() &&
           (json_[at_] == ' ' || json_[at_] == '\n' || json_[at_] == '\r' || json_[at_] == '\t')) {
      ++at_;
    }
    return at_ == json_.size();
  }
  // Takes the character if it comes next, after blanks.
  bool Take(char c) {
    if (AtEnd() || json_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool IsNext(char c) { return !AtEnd() && json_[at_] == c; }
  bool TakeWord(std::string_view word) {
    if (AtEnd() || json_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  // Returns the field that is read: "queries[3].vector.values[7]".
  std::string Path() const {
    std::string path;
    for (const Level& level : levels_) {
      absl::StrAppend(&path, path.empty() ? "" : ".", level.field->name());
      if (level.index >= 0) absl::StrAppend(&path, "[", level.index, "]");
    }
    return path;
  }
  absl::Status NotJson(const char* problem) const {
    const std::string path = Path();
    return ArgumentError(path.empty() ? "body" : path,
                         absl::StrCat("not JSON at byte ", at_, ": ", problem));
  }
  absl::Status NotOfType(std::string_view value) const {
    std::string shown = Quote(value.substr(0, kShownMax));
    if (value.size() > kShownMax) shown += "...";
    return MustBe(Path(), shown, KindOf(*levels_.back().field));
  }

  absl::Status Charge(int64_t bytes) {
    used_ += bytes;
    if (used_ <= reserved_) return absl::OkStatus();
    reserved_ = used_ + used_ / 4 + kReserveStep;
    return reserve_(reserved_);
  }
  // Charges a message of this type in its container.
  absl::Status ChargeMessage(const Message& prototype) {
    const auto [found, is_new] = message_bytes_.try_emplace(prototype.GetDescriptor(), 0);
    if (is_new) found->second = static_cast<int64_t>(prototype.SpaceUsedLong());
    return Charge(found->second + kListGrowth * static_cast<int64_t>(sizeof(void*)));
  }

  absl::Status ReadMessage(Message* message) {
    if (!Take('{')) {
      return levels_.empty() ? NotJson("an object must begin here") : NotOfType(NextText());
    }
    if (Take('}')) return absl::OkStatus();
    uint64_t seen = 0;  // by the index of a field
    do {
      ABSL_RETURN_IF_ERROR(ReadMember(message, &seen));
    } while (Take(','));
    return Take('}') ? absl::OkStatus() : NotJson("',' or '}' must follow");
  }

  // Reads a name and a value.
  absl::Status ReadMember(Message* message, uint64_t* seen) {
    std::string name;
    if (!IsNext('"')) return NotJson("the name of a field must begin here");
    ABSL_RETURN_IF_ERROR(ReadText(&name));
    if (name.empty()) return NotJson("a field without a name");
    if (!Take(':')) return NotJson("':' must follow");
    const Descriptor& type = *message->GetDescriptor();
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) field = type.FindFieldByCamelcaseName(name);
    if (field == nullptr) {
      const std::string path = Path();
      return ArgumentError(absl::StrCat(path, path.empty() ? "" : ".", name.substr(0, kShownMax)),
                           absl::StrCat(type.name(), " has no such field"));
    }
    levels_.push_back({.field = field});
    const uint64_t bit = uint64_t{1} << field->index();
    if ((*seen & bit) != 0) return ArgumentError(Path(), "given more than once");
    *seen |= bit;
    const auto* const oneof = field->real_containing_oneof();
    if (oneof != nullptr && !TakeWord("null")) {
      const Reflection& reflection = *message->GetReflection();
      if (reflection.HasOneof(*message, oneof)) {
        return ArgumentError(
            Path(), absl::StrCat(reflection.GetOneofFieldDescriptor(*message, oneof)->name(),
                                 " is given as well"));
      }
      ABSL_RETURN_IF_ERROR(ReadValue(Slot(message, field)));
    } else if (oneof == nullptr && !TakeWord("null")) {
      ABSL_RETURN_IF_ERROR(field->is_repeated() ? ReadList(Slot(message, field))
                                                : ReadValue(Slot(message, field)));
    }
    levels_.pop_back();
    return absl::OkStatus();
  }

  absl::Status ReadList(const Slot& slot) {
    if (!Take('[')) return MustBe(Path(), Quote(NextText()), "a list");
    if (Take(']')) return absl::OkStatus();
    do {
      ++levels_.back().index;
      ABSL_RETURN_IF_ERROR(Charge(kListGrowth * static_cast<int64_t>(sizeof(double))));
      ABSL_RETURN_IF_ERROR(ReadValue(slot));
    } while (Take(','));
    return Take(']') ? absl::OkStatus() : NotJson("',' or ']' must follow");
  }

  absl::Status ReadValue(const Slot& slot) {
    if (slot.field().cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ABSL_RETURN_IF_ERROR(ChargeMessage(
          *MessageFactory::generated_factory()->GetPrototype(slot.field().message_type())));
      return ReadMessage(slot.PutMessage());
    }
    if (IsNext('"')) {
      std::string text;
      ABSL_RETURN_IF_ERROR(ReadText(&text));
      return PutText(slot, std::move(text));
    }
    const std::string_view word = NextText();
    if (word.empty()) return NotJson("a value must begin here");
    if (!PutWord(slot, word)) return NotOfType(word);
    at_ += word.size();
    return absl::OkStatus();
  }

  // Returns the text up to the next blank or mark, which is a number, true, false or an error.
  std::string_view NextText() {
    if (AtEnd()) return {};
    const std::string_view rest = json_.substr(at_);
    const size_t number = JsonNumberSize(rest);
    if (number > 0) return rest.substr(0, number);
    return rest.substr(0, rest.find_first_of(" \n\r\t,:]}", 1));
  }

  // Stores a value that was written as a text.
  absl::Status PutText(const Slot& slot, std::string text) {
    const FieldDescriptor& field = slot.field();
    if (field.type() == FieldDescriptor::TYPE_STRING) {
      slot.PutString(std::move(text));
      return absl::OkStatus();
    }
    if (field.type() == FieldDescriptor::TYPE_BYTES) {
      std::string bytes;
      ABSL_RETURN_IF_ERROR(Charge(static_cast<int64_t>(text.size())));
      const bool is_url_safe = text.find_first_of("-_") != std::string::npos;
      if (!(is_url_safe ? absl::WebSafeBase64Unescape(text, &bytes)
                        : absl::Base64Unescape(text, &bytes))) {
        return NotOfType(text);
      }
      slot.PutString(std::move(bytes));
      return absl::OkStatus();
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const auto* const value = field.enum_type()->FindValueByName(text);
      if (value == nullptr) return NotOfType(text);
      slot.PutEnumValue(value->number());
      return absl::OkStatus();
    }
    return PutWord(slot, text) || PutSpecial(slot, text) ? absl::OkStatus() : NotOfType(text);
  }

  // Stores an infinity or a NaN.
  static bool PutSpecial(const Slot& slot, std::string_view text) {
    using Limits = std::numeric_limits<double>;
    double value = 0;
    if (text == "Infinity") {
      value = Limits::infinity();
    } else if (text == "-Infinity") {
      value = -Limits::infinity();
    } else if (text == "NaN") {
      value = Limits::quiet_NaN();
    } else {
      return false;
    }
    if (slot.field().cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
      slot.PutFloat(static_cast<float>(value));
    } else if (slot.field().cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      slot.PutDouble(value);
    } else {
      return false;
    }
    return true;
  }

  // Stores a number, true or false. Returns false if the field takes no such value.
  static bool PutWord(const Slot& slot, std::string_view word) {
    switch (slot.field().cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: {
        const std::optional<int32_t> value = JsonWhole<int32_t>(word);
        if (value.has_value()) slot.PutInt32(*value);
        return value.has_value();
      }
      case FieldDescriptor::CPPTYPE_UINT32: {
        const std::optional<uint32_t> value = JsonWhole<uint32_t>(word);
        if (value.has_value()) slot.PutUInt32(*value);
        return value.has_value();
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        const std::optional<int64_t> value = JsonWhole<int64_t>(word);
        if (value.has_value()) slot.PutInt64(*value);
        return value.has_value();
      }
      case FieldDescriptor::CPPTYPE_UINT64: {
        const std::optional<uint64_t> value = JsonWhole<uint64_t>(word);
        if (value.has_value()) slot.PutUInt64(*value);
        return value.has_value();
      }
      case FieldDescriptor::CPPTYPE_ENUM: {
        const std::optional<int32_t> value = JsonWhole<int32_t>(word);
        if (value.has_value()) slot.PutEnumValue(*value);
        return value.has_value();
      }
      case FieldDescriptor::CPPTYPE_FLOAT: {
        const std::optional<double> value = JsonReal(word);
        const bool fits = value.has_value() && std::abs(*value) <= double{FLT_MAX};
        if (fits) slot.PutFloat(static_cast<float>(*value));
        return fits;
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const std::optional<double> value = JsonReal(word);
        if (value.has_value()) slot.PutDouble(*value);
        return value.has_value();
      }
      case FieldDescriptor::CPPTYPE_BOOL: {
        if (word != "true" && word != "false") return false;
        slot.PutBool(word == "true");
        return true;
      }
      default: return false;
    }
  }

  // Reads a text in quotes. Requires: a quote is next.
  absl::Status ReadText(std::string* text) {
    ++at_;
    const size_t begin = at_;
    bool is_plain = true;
    for (; at_ < json_.size() && json_[at_] != '"'; ++at_) {
      if (absl::ascii_iscntrl(static_cast<unsigned char>(json_[at_])) && json_[at_] != '\x7f') {
        return NotJson("a control character in a text");
      }
      if (json_[at_] != '\\') continue;
      is_plain = false;
      ++at_;
    }
    if (at_ >= json_.size()) return NotJson("the text does not end");
    const std::string_view raw = json_.substr(begin, at_ - begin);
    ++at_;
    // The text itself, and its object in a list or in a message.
    ABSL_RETURN_IF_ERROR(Charge(static_cast<int64_t>(raw.size() + sizeof(std::string) + 1)));
    if (is_plain) {
      text->assign(raw);
    } else if (!UnescapeJson(raw, text)) {
      return NotJson("an unknown escape in the text before");
    }
    return IsUtf8(*text) ? absl::OkStatus() : NotJson("the text before is not UTF-8");
  }

  const std::string_view json_;
  const ReserveBytes& reserve_;
  size_t at_ = 0;
  std::vector<Level> levels_;
  int64_t used_ = 0;
  int64_t reserved_ = 0;
  std::unordered_map<const Descriptor*, int64_t> message_bytes_;
};

}  // namespace

absl::Status FromJson(std::string_view json, const ReserveBytes& reserve, Message* message) {
  return Reader(json, reserve).Read(message);
}

}  // namespace nearfield::server
