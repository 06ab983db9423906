// AccessTest: a server with a key file, and calls of any method by its descriptor.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "client/keys/key_file.h"
#include "server/security/access_table.h"
#include "tests/server/server_fixture.h"

namespace nearfield::server {

using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

// The services that the port serves. Reflection, off by default, is gRPC's own.
inline std::vector<const MethodDescriptor*> AllMethods() {
  std::vector<const MethodDescriptor*> methods;
  for (const char* const service : {"nearfield.v1.Retrieval", "nearfield.v1.Ingest",
                                    "nearfield.v1.Admin", "grpc.health.v1.Health"}) {
    const auto* const descriptor =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
    for (int i = 0; i < descriptor->method_count(); ++i) methods.push_back(descriptor->method(i));
  }
  return methods;
}

inline const MethodAccess& AccessOf(const MethodDescriptor& method) {
  return *FindAccess(method.full_name());
}

// Sets the text field at `path`, "a.b", of a message.
inline void SetText(Message* message, std::string_view path, const std::string& text) {
  const size_t dot = path.find('.');
  const auto* const field =
      message->GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
  ASSERT_NE(field, nullptr) << path;
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  if (dot != std::string_view::npos) {
    return SetText(reflection.MutableMessage(message, field), path.substr(dot + 1), text);
  }
  reflection.SetString(message, field, text);
}

// A server with a key file. The collections are c and other; the alias c-alias names other.
class AccessTest : public ServerFixture {
 protected:
  AccessTest() {
    dir_ = ::testing::TempDir() + "/access_XXXXXX";
    EXPECT_NE(mkdtemp(dir_.data()), nullptr);
    path_ = dir_ + "/keys.json";
    admin_key_ = AddKey({.scopes = 15});
    Set(settings_.key_file, path_);
  }

  // Adds a key to the file; a running server reads it with ReloadKeys. Returns its text.
  std::string AddKey(ApiKey key) {
    if (key.principal.empty()) key.principal = "someone";
    std::string text = DrawSecret(&key).value();
    EXPECT_OK(ChangeKeyFile(path_, [&](KeyFile* file) {
      file->keys.push_back(key);
      return absl::OkStatus();
    }));
    return text;
  }
  void RemoveKey(const std::string& text) {
    EXPECT_OK(ChangeKeyFile(path_, [&](KeyFile* file) {
      std::erase_if(file->keys, [&](const ApiKey& key) { return key.id == IdIn(text); });
      return absl::OkStatus();
    }));
  }

  void ReloadKeys() { server_->ApplyKeys(ReadKeyFile(path_)); }

  void ServeTwo() {
    Serve();
    for (const char* const name : {"c", "other"}) {
      EXPECT_OK(As(admin_key_, &Admin::CreateCollection,
                   FromText("name: '" + std::string(name) +
                            "' dim: 2 metric: METRIC_DOT dtype: DATA_TYPE_FLOAT32 id_type: "
                            "ID_TYPE_UINT64")));
    }
    EXPECT_OK(As(admin_key_, &Admin::SetAlias, FromText("alias: 'c-alias' collection: 'other'")));
  }

  // Calls a unary method with a key.
  template <typename Stub, typename Request, typename Response>
  grpc::Status As(const std::string& key, Unary<Stub, Request, Response> method,
                  const std::type_identity_t<Request>& request,
                  std::type_identity_t<Response>* response = nullptr) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + key);
    return Call(method, request, response, &context);
  }

  // Makes a call of any method by its descriptor, with one request whose collections are named
  // `collection`. `authorization`: empty for none. Without `sends`, no request is sent.
  grpc::Status CallAny(const MethodDescriptor& method, const std::string& authorization,
                       const std::string& collection, bool sends = true) {
    google::protobuf::DynamicMessageFactory factory;
    const std::unique_ptr<Message> request(factory.GetPrototype(method.input_type())->New());
    for (const std::string_view field : AccessOf(method).fields) {
      if (!field.empty()) SetText(request.get(), field, collection);
    }
    grpc::ByteBuffer bytes;
    bool own = false;
    const grpc::Status serialized =
        grpc::GenericSerialize<grpc::ProtoBufferWriter, Message>(*request, &bytes, &own);
    EXPECT_OK(serialized);
    grpc::ClientContext context;
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    const std::string path = "/" + method.service()->full_name() + "/" + method.name();
    const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>> stream(
        grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
            channel_.get(),
            grpc::internal::RpcMethod(path.c_str(), grpc::internal::RpcMethod::BIDI_STREAMING),
            &context));
    if (sends) {
      stream->Write(bytes);
      stream->WritesDone();
    }
    for (grpc::ByteBuffer reply; stream->Read(&reply);) {
      if (method.name() == "Watch") context.TryCancel();
    }
    return stream->Finish();
  }

  std::string dir_;
  std::string path_;
  std::string admin_key_;
};

}  // namespace nearfield::server
