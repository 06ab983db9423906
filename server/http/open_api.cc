#include "server/http/open_api.h"

#include <google/protobuf/descriptor.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/http/routes.h"

namespace nearfield::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::MethodDescriptor;
using Json = nlohmann::ordered_json;

constexpr char kJsonType[] = "application/json";
constexpr char kLinesType[] = "application/x-ndjson";
constexpr char kDescription[] =
    "The calls of nearfield as HTTP and JSON. The meaning, the limits and the errors of each call "
    "and "
    "field are those of proto/nearfield/v1. A field with its default value is left out; integers "
    "of "
    "64 bits are texts; application/x-ndjson is one message on each line.";

const MethodDescriptor& MethodOf(const Route& route) {
  return *DescriptorPool::generated_pool()->FindMethodByName(std::string(route.rpc));
}

std::string Reference(const std::string& name) {
  return absl::StrCat("#/components/schemas/", name);
}

Json SchemaOfValue(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: return {{"type", "integer"}, {"format", "int32"}};
    case FieldDescriptor::CPPTYPE_UINT32: return {{"type", "integer"}, {"minimum", 0}};
    case FieldDescriptor::CPPTYPE_INT64: return {{"type", "string"}, {"format", "int64"}};
    case FieldDescriptor::CPPTYPE_UINT64: return {{"type", "string"}, {"format", "uint64"}};
    case FieldDescriptor::CPPTYPE_FLOAT:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return {{"oneOf",
               {{{"type", "number"}},
                {{"type", "string"}, {"enum", {"Infinity", "-Infinity", "NaN"}}}}}};
    case FieldDescriptor::CPPTYPE_BOOL: return {{"type", "boolean"}};
    case FieldDescriptor::CPPTYPE_ENUM: return {{"$ref", Reference(field.enum_type()->name())}};
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return {{"$ref", Reference(field.message_type()->name())}};
    case FieldDescriptor::CPPTYPE_STRING: break;
  }
  if (field.type() == FieldDescriptor::TYPE_BYTES) {
    return {{"type", "string"}, {"format", "byte"}};
  }
  return {{"type", "string"}};
}

Json SchemaOf(const FieldDescriptor& field) {
  if (!field.is_repeated()) return SchemaOfValue(field);
  return {{"type", "array"}, {"items", SchemaOfValue(field)}};
}

Json SchemaOf(const EnumDescriptor& type) {
  Json names = Json::array();
  for (int i = 0; i < type.value_count(); ++i) names.push_back(type.value(i)->name());
  return {{"type", "string"}, {"enum", std::move(names)}};
}

// Adds the schema of a message and of those in it.
void AddSchemas(const Descriptor& type, Json* schemas) {
  if (schemas->contains(type.name())) return;
  (*schemas)[type.name()] = nullptr;  // its place
  Json properties = Json::object();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    properties[field.name()] = SchemaOf(field);
    if (field.message_type() != nullptr) AddSchemas(*field.message_type(), schemas);
    if (field.enum_type() != nullptr) {
      (*schemas)[field.enum_type()->name()] = SchemaOf(*field.enum_type());
    }
  }
  (*schemas)[type.name()] = {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

Json Content(const char* type, const std::string& schema) {
  return {{type, {{"schema", {{"$ref", Reference(schema)}}}}}};
}

// Returns the path with the names of its parameters, and adds these.
std::string PathOf(const Route& route, Json* parameters) {
  std::string path(route.path);
  for (size_t begin = path.find('{'); begin != std::string::npos;
       begin = path.find('{', begin + 1)) {
    const size_t end = path.find('}', begin);
    const std::string field = path.substr(begin + 1, end - begin - 1);
    const std::string name = field.substr(field.rfind('.') + 1);  // npos + 1 is 0
    path.replace(begin + 1, field.size(), name);
    parameters->push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  return path;
}

// Adds the fields of the request that are no part of the path.
void AddQueryParameters(const Route& route, const Descriptor& request, Json* parameters) {
  for (int i = 0; i < request.field_count(); ++i) {
    const FieldDescriptor& field = *request.field(i);
    if (route.path.find("{" + field.name() + "}") != std::string_view::npos) continue;
    parameters->push_back({{"name", field.name()},
                           {"in", "query"},
                           {"required", false},
                           {"schema", SchemaOf(field)}});
  }
}

Json OperationOf(const Route& route, Json parameters) {
  const MethodDescriptor& method = MethodOf(route);
  if (!route.takes_body()) AddQueryParameters(route, *method.input_type(), &parameters);
  Json operation = {{"operationId", method.name()},
                    {"summary", absl::StrCat("The call ", method.full_name())},
                    {"tags", {method.service()->name()}},
                    {"parameters", std::move(parameters)}};
  if (route.takes_body()) {
    operation["requestBody"] = {
        {"content",
         Content(method.client_streaming() ? kLinesType : kJsonType, method.input_type()->name())}};
  }
  // The last of the replies to an upload is the only one that is sent.
  const bool has_lines = method.server_streaming() && method.name() != "Upload";
  operation["responses"] = {
      {"200",
       {{"description",
         has_lines ? "the replies, or a last line {\"error\": Status}" : "the reply"},
        {"content", Content(has_lines ? kLinesType : kJsonType, method.output_type()->name())}}},
      {"default", {{"description", "an error"}, {"content", Content(kJsonType, "Status")}}}};
  return operation;
}

std::string MakeOpenApi() {
  Json paths = Json::object();
  Json schemas = Json::object();
  for (const Route& route : Routes()) {
    Json parameters = Json::array();
    const std::string path = PathOf(route, &parameters);
    paths[path][absl::AsciiStrToLower(std::string(route.verb))] =
        OperationOf(route, std::move(parameters));
    AddSchemas(*MethodOf(route).input_type(), &schemas);
    AddSchemas(*MethodOf(route).output_type(), &schemas);
  }
  schemas["Status"] = {{"type", "object"},
                       {"description", "google.rpc.Status"},
                       {"properties",
                        {{"code", {{"type", "integer"}}},
                         {"message", {{"type", "string"}}},
                         {"details", {{"type", "array"}, {"items", {{"type", "object"}}}}}}}};
  const Json document = {
      {"openapi", "3.0.3"},
      {"info",
       {{"title", "nearfield"}, {"version", NEARFIELD_VERSION}, {"description", kDescription}}},
      {"security", Json::array({Json::object(), {{"key", Json::array()}}})},
      {"paths", std::move(paths)},
      {"components",
       {{"schemas", std::move(schemas)},
        {"securitySchemes",
         {{"key", {{"type", "http"}, {"scheme", "bearer"}, {"description", "an API key"}}}}}}}};
  return document.dump() + "\n";
}

}  // namespace

const std::string& OpenApiJson() {
  static const auto* const document =
      new std::string(MakeOpenApi());  // lives as long as the process
  return *document;
}

}  // namespace nearfield::server
