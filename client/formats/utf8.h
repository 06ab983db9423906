// Well-formed text, told from any other bytes.
#ifndef NEARFIELD_CLIENT_FORMATS_UTF8_H_
#define NEARFIELD_CLIENT_FORMATS_UTF8_H_

#include <cstddef>
#include <string_view>

namespace nearfield::client {

// Whether the bytes are UTF-8 (no overlong form, no surrogate).
bool IsUtf8(std::string_view bytes);

// The length of the UTF-8 character at the front of `bytes`; 0 where there is none or it is
// malformed.
size_t Utf8Length(std::string_view bytes);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_FORMATS_UTF8_H_
