// Takes arbitrary bytes as requests of the HTTP port: a route, a path, a query and a body. A
// request is read or refused with the name of a field; what is read has the memory that was
// reserved, is what protobuf reads if that accepts it as well, and reads back from its own JSON.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/argument_error.h"
#include "server/http/json_reader.h"
#include "server/http/json_writer.h"
#include "server/http/routes.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/message_builder.h"
#include "tests/fuzz/require.h"

namespace nearfield::server {
namespace {

using google::protobuf::Message;

std::unique_ptr<Message> NewRequest(const Route& route) {
  const auto* const method =
      google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(std::string(route.rpc));
  return std::unique_ptr<Message>(google::protobuf::MessageFactory::generated_factory()
                                      ->GetPrototype(method->input_type())
                                      ->New());
}

std::string JsonOf(const Message& message) {
  std::string json;
  const absl::Status written = ToJson(
      message, [](int64_t /*bytes*/) { return absl::OkStatus(); }, &json);
  Require(written.ok());
  return json;
}

// Returns the JSON of a message that the input describes, perhaps edited.
std::string Body(const Message& prototype, fuzz::InputReader& input) {
  if (input.Take(1) % 4 == 0) return std::string(input.TakeBytes(255));
  const std::unique_ptr<Message> message(prototype.New());
  fuzz::MessageBuilder builder({"c", "", "\"\\\n\x01", "\u00e9\U0001f600"}, &input);
  builder.Fill(6, message.get());
  std::string json = JsonOf(*message);
  if (input.Take(1) % 2 == 0) input.Edit(&json);
  return json;
}

void RequireRefusal(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) && !ArgumentFactsOf(status).field.empty());
}

void ReadBody(const std::string& json, Message* message) {
  int64_t reserved = 0;
  const absl::Status read = FromJson(
      json,
      [&](int64_t bytes) {
        Require(bytes > reserved);
        reserved = bytes;
        return absl::OkStatus();
      },
      message);
  if (!read.ok()) {
    RequireRefusal(read);
    return message->Clear();
  }
  const std::unique_ptr<Message> empty(message->New());
  Require(reserved + static_cast<int64_t>(empty->SpaceUsedLong()) >=
          static_cast<int64_t>(message->SpaceUsedLong()));
  const std::string bytes = message->SerializeAsString();
  // Protobuf takes the number -0 for the integer 0.
  const std::unique_ptr<Message> reference(message->New());
  if (json.find("-0") == std::string::npos &&
      google::protobuf::util::JsonStringToMessage(json, reference.get()).ok()) {
    Require(reference->SerializeAsString() == bytes);
  }
  const std::unique_ptr<Message> again(message->New());
  Require(FromJson(
              JsonOf(*message), [](int64_t /*bytes*/) { return absl::OkStatus(); }, again.get())
              .ok());
  Require(again->SerializeAsString() == bytes);
}

void Run(std::string_view bytes) {
  fuzz::InputReader input(bytes);
  const Route& route = Routes()[input.Take(1) % Routes().size()];
  std::string path(route.path);
  for (size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) {
    path.replace(at, path.find('}', at) + 1 - at,
                 input.Take(1) % 4 == 0 ? input.TakeBytes(20) : "c");
  }
  if (input.Take(1) % 8 == 0) input.Edit(&path);
  const RouteMatch match = FindRoute(route.verb, path);
  if (match.route == nullptr) return;
  const std::unique_ptr<Message> request = NewRequest(*match.route);
  if (match.route->takes_body()) {
    ReadBody(Body(*request, input), request.get());
  } else {
    const absl::Status read = FromQuery(
        input.TakeBytes(100), [](int64_t /*bytes*/) { return absl::OkStatus(); }, request.get());
    if (!read.ok()) RequireRefusal(read);
  }
  const absl::Status named = SetPathFields(match.fields, request.get());
  if (!named.ok()) return RequireRefusal(named);
  Require(SetPathFields(match.fields, request.get()).ok());
}

}  // namespace
}  // namespace nearfield::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::server::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
