// MessageBuilder: makes protobuf messages of any type from a fuzzer's input, so that inputs get
// past the decoding and most of the checks.
#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "tests/fuzz/input_reader.h"

namespace nearfield::fuzz {

class MessageBuilder {
 public:
  // `texts`: values of text fields that the callee knows. `input` is borrowed.
  MessageBuilder(std::vector<std::string> texts, InputReader* input)
      : texts_(std::move(texts)), input_(input) {}

  // Sets up to 11 fields, and those of the messages in them, at most `levels` deep.
  void Fill(int levels, google::protobuf::Message* message);
  // Remembers the values of all `bytes` fields of a reply, such as cursors. Later messages may hold
  // them.
  void Learn(const google::protobuf::Message& reply);

 private:
  using Field = google::protobuf::FieldDescriptor;

  void Set(int levels, const Field& field, google::protobuf::Message* message);
  void SetNumber(const Field& field, google::protobuf::Message* message);
  std::string Text();
  std::string Bytes();
  double Real();
  uint64_t Whole();

  const std::vector<std::string> texts_;
  std::vector<std::string> learned_;
  InputReader* const input_;
};

}  // namespace nearfield::fuzz
