// The methods of the services that the HTTP port serves, and messages of their types.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <vector>

namespace nearfield::server {

inline std::vector<const google::protobuf::MethodDescriptor*> ServiceMethods() {
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const char* const name : {"Retrieval", "Ingest", "Admin"}) {
    const auto* const service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
            std::string("nearfield.v1.").append(name));
    for (int i = 0; i < service->method_count(); ++i) methods.push_back(service->method(i));
  }
  return methods;
}

inline std::unique_ptr<google::protobuf::Message> NewMessage(
    const google::protobuf::Descriptor& type) {
  return std::unique_ptr<google::protobuf::Message>(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
}

}  // namespace nearfield::server
