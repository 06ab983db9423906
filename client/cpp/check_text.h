// Text that a message cannot carry is refused before it is sent: the server would never see it, and
// the caller would get no message.
#ifndef NEARFIELD_CLIENT_CPP_CHECK_TEXT_H_
#define NEARFIELD_CLIENT_CPP_CHECK_TEXT_H_

#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/replies.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// All: InvalidArgument naming `field`, and the text as far as it can be shown, where it is not
// UTF-8.
absl::Status CheckText(std::string_view field, std::string_view text);
absl::Status CheckText(std::string_view field, const IdColumn& ids);
absl::Status CheckText(std::span<const AttributeColumn> attributes);
absl::Status CheckText(std::string_view collection, std::span<const Query> queries);

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CPP_CHECK_TEXT_H_
