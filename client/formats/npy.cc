#include "client/formats/npy.h"

#include <charconv>
#include <string_view>

#include "client/cpp/status_macros.h"

namespace nearfield::client {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAxesMax = 32;  // NumPy's own limit

// Parses the header, a Python literal: a dict of three known keys.
class LiteralParser {
 public:
  LiteralParser(const NamedBytes& file, uint64_t begin, uint64_t end)
      : name_(file.name), text_(file.bytes.substr(0, end)), at_(begin) {}

  absl::Status Parse(NpyHeader* header) {
    bool seen[3] = {};
    NF_RETURN_IF_ERROR(Expect('{'));
    while (!Take('}')) {
      NF_ASSIGN_OR_RETURN(const std::string key, String());
      NF_RETURN_IF_ERROR(Expect(':'));
      NF_RETURN_IF_ERROR(Value(key, seen, header));
      if (!Take(',')) {
        NF_RETURN_IF_ERROR(Expect('}'));
        break;
      }
    }
    SkipSpace();
    if (at_ != text_.size()) return Wrong("the end of the header");
    if (!seen[0] || !seen[1] || !seen[2]) {
      return BadFile(name_, "header", "lacks one of descr, fortran_order and shape");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Value(std::string_view key, bool* seen, NpyHeader* header) {
    const size_t which = key == "descr" ? 0 : key == "fortran_order" ? 1 : 2;
    if (which == 2 && key != "shape") return Wrong("descr, fortran_order or shape as key");
    if (seen[which]) return Wrong("each key once");
    seen[which] = true;
    if (which == 0) {
      SkipSpace();
      if (at_ < text_.size() && text_[at_] == '[') {
        return Wrong("a plain element type; structured dtypes are not supported");
      }
      NF_ASSIGN_OR_RETURN(header->descr, String());
      return absl::OkStatus();
    }
    return which == 1 ? Bool(&header->fortran_order) : Shape(&header->shape);
  }

  absl::StatusOr<std::string> String() {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return Wrong("a quoted string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return Wrong("a closing quote");
    std::string value(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  absl::Status Bool(bool* value) {
    SkipSpace();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      *value = word == "True";
      return absl::OkStatus();
    }
    return Wrong("True or False");
  }

  absl::Status Shape(std::vector<uint64_t>* shape) {
    NF_RETURN_IF_ERROR(Expect('('));
    while (!Take(')')) {
      SkipSpace();
      uint64_t axis = 0;
      const char* begin = text_.data() + at_;
      const auto parsed = std::from_chars(begin, text_.data() + text_.size(), axis);
      if (parsed.ec != std::errc()) return Wrong("a length of the shape");
      at_ += static_cast<size_t>(parsed.ptr - begin);
      if (shape->size() == kAxesMax) return Wrong("at most 32 axes");
      shape->push_back(axis);
      if (!Take(',')) {
        NF_RETURN_IF_ERROR(Expect(')'));
        break;
      }
    }
    return absl::OkStatus();
  }

  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  absl::Status Expect(char c) {
    return Take(c) ? absl::OkStatus() : Wrong(std::string("'") + c + "'");
  }

  absl::Status Wrong(std::string_view expected) const {
    return BadFile(name_, Cat("byte ", at_), "bad .npy header: expected ", expected);
  }

  std::string_view name_;
  std::string_view text_;
  size_t at_;
};

uint32_t LittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

}  // namespace

bool IsNpy(std::string_view bytes) { return bytes.starts_with(kMagic); }

absl::StatusOr<NpyHeader> ParseNpyHeader(const NamedBytes& file) {
  const std::string_view bytes = file.bytes;
  if (!IsNpy(bytes)) {
    return BadFile(file.name, "byte 0", "not a .npy file: it must begin with \\x93NUMPY");
  }
  const size_t length_at = kMagic.size() + 2;
  const uint8_t version = bytes.size() < length_at ? 0 : static_cast<uint8_t>(bytes[6]);
  if (version < 1 || version > 3) {
    return BadFile(file.name, "byte 6", ".npy version ", version, "; versions 1 to 3 are known");
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < length_at + length_bytes) {
    return BadFile(file.name, "byte 8", "the file ends inside its header");
  }
  const uint64_t begin = length_at + length_bytes;
  const uint64_t length = LittleEndian(bytes.substr(length_at, length_bytes));
  if (length > bytes.size() - begin) {
    return BadFile(file.name, "byte 8", "the header claims ", length, " bytes, but ",
                   bytes.size() - begin, " follow");
  }
  NpyHeader header;
  header.data_offset = begin + length;
  NF_RETURN_IF_ERROR(LiteralParser(file, begin, begin + length).Parse(&header));
  return header;
}

}  // namespace nearfield::client
