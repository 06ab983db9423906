#include "server/rpc/call_guard.h"

#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace nearfield::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const FieldDescriptor* FieldOf(const Message& message, std::string_view name) {
  const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(std::string(name));
  CHECK(field != nullptr);  // a test compares the access table with the descriptors
  return field;
}

// Returns the text at `path`, "a.b"; null if a message on the path is absent.
const std::string* TextAt(const Message& message, std::string_view path, std::string* scratch) {
  const size_t dot = path.find('.');
  const FieldDescriptor* const field = FieldOf(message, path.substr(0, dot));
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  if (dot == std::string_view::npos) {
    return &reflection.GetStringReference(message, field, scratch);
  }
  if (!reflection.HasField(message, field)) return nullptr;
  return TextAt(reflection.GetMessage(message, field), path.substr(dot + 1), scratch);
}

}  // namespace

absl::Status CheckRequest(const CallGuard& guard, const KeyPtr& key, const Message& request) {
  if (key == nullptr) return absl::OkStatus();
  ABSL_RETURN_IF_ERROR(guard.control->CheckStillValid(key));
  if (guard.method->target == AccessTarget::kHidden) return absl::OkStatus();  // the call checks it
  for (const std::string_view field : guard.method->fields) {
    if (field.empty()) continue;
    std::string scratch;
    const std::string* const name = TextAt(request, field, &scratch);
    if (name != nullptr) ABSL_RETURN_IF_ERROR(CheckCollection(key, field, *name));
  }
  return absl::OkStatus();
}

}  // namespace nearfield::server
