// Validation of UTF-8 text.
#pragma once

#include <cstddef>
#include <string_view>

namespace nearfield::client {

// Returns true if the bytes are UTF-8 (no overlong form, no surrogate).
bool IsUtf8(std::string_view bytes);

// Returns the length of the UTF-8 character at the front of `bytes`; 0 if `bytes` is empty or the
// character is malformed.
size_t Utf8Length(std::string_view bytes);

}  // namespace nearfield::client
