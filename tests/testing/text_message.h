// FromText: a protobuf message from its text format.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <concepts>
#include <string>
#include <utility>

namespace nearfield::testing {

// Converts to the message type that its user needs: Call(&Retrieval::Count, FromText("min_epoch:
// 2")).
class FromText {
 public:
  explicit FromText(std::string text) : text_(std::move(text)) {}

  template <std::derived_from<google::protobuf::Message> Message>
  operator Message()
      const {  // NOLINT(google-explicit-constructor): the text stands for the message
    Message message;
    EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text_, &message)) << text_;
    return message;
  }

 private:
  std::string text_;
};

}  // namespace nearfield::testing
