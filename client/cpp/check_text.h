// Checks of text before it is sent. The server would never see a message with invalid text, and the
// caller would get no error message.
#pragma once

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/replies.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// All return InvalidArgument if a text is not UTF-8, with `field` and the printable part of the
// text.
absl::Status CheckText(std::string_view field, std::string_view text);
absl::Status CheckText(std::string_view field, const IdColumn& ids);
absl::Status CheckText(std::string_view field, const AttributeColumn& column);
absl::Status CheckText(std::span<const AttributeColumn> attributes);
absl::Status CheckText(std::string_view collection, std::span<const Query> queries);

}  // namespace nearfield::client
