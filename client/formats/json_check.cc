// CheckJson and JsonString of json_text.h: the only functions that use a JSON library (nlohmann).
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "client/cpp/text.h"
#include "client/formats/json_text.h"

namespace nearfield::client {
namespace {

// Accepts all values and keeps the first error.
class Checker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    // The library's message begins with its name and the place: "[...] parse error at ...: reason".
    std::string reason = error.what();
    if (const size_t cut = reason.find(": "); cut != std::string::npos) reason.erase(0, cut + 2);
    if (error.id == kOutOfRange) reason = "a number beyond the range of a double";
    error_ = absl::InvalidArgumentError(Cat("column ", position, ": ", reason));
    return false;
  }

  const absl::Status& error() const { return error_; }

 private:
  static constexpr int kOutOfRange = 406;
  absl::Status error_;
};

}  // namespace

absl::Status CheckJson(std::string_view text) {
  // The library treats a NUL as the end of the text, and skips a byte order mark.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(Cat("column ", nul + 1, ": a NUL byte"));
  }
  if (text.substr(0, 3) == "\xef\xbb\xbf") {
    return absl::InvalidArgumentError("column 1: a byte order mark");
  }
  Checker checker;
  if (nlohmann::json::sax_parse(text.begin(), text.end(), &checker)) return absl::OkStatus();
  return checker.error().ok() ? absl::InvalidArgumentError("not JSON") : checker.error();
}

std::optional<std::string> JsonString(std::string_view text) {
  const std::string_view trimmed = TrimJson(text);
  if (trimmed.empty() || trimmed.front() != '"') return std::nullopt;
  nlohmann::json value = nlohmann::json::parse(trimmed.begin(), trimmed.end(), nullptr,
                                               /*allow_exceptions=*/false);
  if (!value.is_string()) return std::nullopt;
  return std::move(value.get_ref<std::string&>());
}

}  // namespace nearfield::client
