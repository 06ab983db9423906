// Tests DecodedBytesMax against the memory that decoding takes: counts every allocation.
#include "server/convert/decoded_bytes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/wire_format_lite.h>
#include <malloc.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <utility>

#include "nearfield/v1/admin.pb.h"
#include "nearfield/v1/ingest.pb.h"
#include "nearfield/v1/retrieval.pb.h"
#include "tests/server/prelude.h"
#include "tests/testing/seed.h"

namespace {

// Allocations of at least this size have their own pages, of which only written ones count.
constexpr size_t kLargeBytes = 64 * 1024;
constexpr size_t kPageBytes = 4096;

struct Large {
  void* memory = nullptr;
  size_t size = 0;
};
std::array<Large, 64> larges;
int64_t small_bytes = 0;
int64_t peak_bytes = 0;

int64_t WrittenBytes() {
  static unsigned char pages[(size_t{1} << 30) / kPageBytes];
  int64_t bytes = small_bytes;
  for (const Large& large : larges) {
    if (large.memory == nullptr) continue;
    const size_t count = (large.size + kPageBytes - 1) / kPageBytes;
    if (mincore(large.memory, large.size, pages) != 0) std::abort();
    for (size_t i = 0; i < count; ++i) bytes += (pages[i] & 1) * static_cast<int64_t>(kPageBytes);
  }
  return bytes;
}

void* Allocate(size_t size) {
  const auto place = std::find_if(larges.begin(), larges.end(),
                                  [](const Large& large) { return large.memory == nullptr; });
  if (size < kLargeBytes || place == larges.end()) {
    void* const memory = std::malloc(size);
    if (memory == nullptr) throw std::bad_alloc();
    small_bytes += static_cast<int64_t>(malloc_usable_size(memory));
    return memory;
  }
  void* const memory =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, size, MADV_NOHUGEPAGE);
  *place = {.memory = memory, .size = size};
  return memory;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  const auto place = std::find_if(larges.begin(), larges.end(),
                                  [&](const Large& large) { return large.memory == memory; });
  if (place == larges.end()) {
    small_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
    return std::free(memory);
  }
  peak_bytes = std::max(peak_bytes, WrittenBytes());  // the old and the new array, when one grows
  munmap(memory, std::exchange(*place, {}).size);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { Free(memory); }
void operator delete[](void* memory, size_t /*size*/) noexcept { Free(memory); }

namespace nearfield::server {
namespace {

namespace pb = ::nearfield::v1;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr int kPieceBytes = 8192;  // like the pieces of a transport

absl::StatusOr<int64_t> BoundOf(const Message& message, const std::string& wire,
                                int64_t bytes_max = kNoLimit, int piece_bytes = kPieceBytes) {
  ArrayInputStream stream(wire.data(), static_cast<int>(wire.size()), piece_bytes);
  return DecodedBytesMax(message, &stream, bytes_max);
}

// Returns the peak memory of decoding `wire`, including the message.
int64_t BytesToDecode(const Message& prototype, const std::string& wire) {
  const int64_t before = WrittenBytes();
  peak_bytes = before;
  const std::unique_ptr<Message> message(prototype.New());
  ArrayInputStream stream(wire.data(), static_cast<int>(wire.size()), kPieceBytes);
  EXPECT_TRUE(message->ParseFromZeroCopyStream(&stream));
  return std::max(peak_bytes, WrittenBytes()) - before;
}

// Returns one length-delimited field: its tag, the length and `content`.
std::string Field(int number, const std::string& content) {
  std::string wire;
  {
    StringOutputStream stream(&wire);
    CodedOutputStream out(&stream);
    out.WriteTag(WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
    out.WriteVarint32(static_cast<uint32_t>(content.size()));
    out.WriteString(content);
  }
  return wire;
}

std::string Times(int count, const std::string& text) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

template <typename M>
void ExpectBounded(const std::string& wire) {
  const M message;
  ASSERT_OK_AND_ASSIGN(const int64_t bound, BoundOf(message, wire));
  EXPECT_LE(BytesToDecode(message, wire), bound)
      << M::descriptor()->full_name() << ", " << wire.size() << " bytes";
}

// 64 MiB of empty texts took more than 1 GB before the server saw the message.
TEST(DecodedBytesTest, NothingThatGrowsWhenItIsDecodedTakesMoreThanTheBound) {
  constexpr int kMany = 70'000;
  ExpectBounded<pb::IdList>(Times(kMany, Field(2, "")));
  ExpectBounded<pb::IdList>(Times(kMany, Field(2, "sixteen bytes it is")));
  ExpectBounded<pb::SearchRequest>(Times(kMany, Field(2, "")));
  ExpectBounded<pb::SearchRequest>(Times(kMany, Field(2, Field(1, ""))));
  ExpectBounded<pb::SearchRequest>(Times(kMany, Field(2, Field(1, Field(1, "four")))));
  ExpectBounded<pb::CountRequest>(Times(kMany, Field(7, "")));
  ExpectBounded<pb::CountRequest>(Times(kMany, Field(7, Field(1, Field(4, "")))));
  ExpectBounded<pb::UploadBlock>(Times(kMany, Field(4, "")));
  ExpectBounded<pb::UploadBlock>(Times(kMany, Field(4, Field(2, Field(1, "\1")))));
  ExpectBounded<pb::UploadBlock>(Times(kMany, Field(4, Field(2, "\x08\1"))));  // not packed
  ExpectBounded<pb::UploadBlock>(Times(kMany, Field(3, "")));
  ExpectBounded<pb::AttributeValues>(Field(1, Times(kMany, "\1")));    // packed
  ExpectBounded<pb::AttributeValues>(Times(kMany, "\x08\1"));          // not packed
  ExpectBounded<pb::AttributeValues>(Times(kMany, Field(1, "\1")));    // one by one
  ExpectBounded<pb::AttributeValues>(Field(3, Times(kMany, "\1")));    // bools
  ExpectBounded<pb::AttributeColumn>(Field(4, Times(kMany, "\1")));    // uint32
  ExpectBounded<pb::SearchRequest>(Times(kMany, "\xf8\x7f\1"));        // unknown numbers
  ExpectBounded<pb::SearchRequest>(Times(kMany, Field(2047, "")));     // unknown texts
  ExpectBounded<pb::SearchRequest>(Times(kMany, "\xfb\x7f\xfc\x7f"));  // unknown groups
  ExpectBounded<pb::SearchRequest>(Times(kMany, Field(2, "\xf8\x7f\1")));
  ExpectBounded<pb::SearchRequest>(Times(kMany, Field(1, "a collection's name, again")));
}

// Above 50 MB the decoder does not allocate a text once: old and new memory exist together.
TEST(DecodedBytesTest, ALongTextThatGrowsTakesNoMoreThanTheBound) {
  ExpectBounded<pb::VectorBlock>(Field(2, std::string(60'000'000, 'x')));
  ExpectBounded<pb::VectorBlock>(Field(2, std::string(49'000'000, 'x')));
}

// A bound far above the actual memory would refuse normal messages.
TEST(DecodedBytesTest, VectorsAreBoundedByTwiceTheirBytes) {
  pb::SearchRequest search;
  search.set_collection("c");
  for (int i = 0; i < 16; ++i) {
    search.add_queries()->mutable_vector()->mutable_values()->Resize(1024, 1.0f);
  }
  const std::string wire = search.SerializeAsString();
  EXPECT_LE(*BoundOf(search, wire), 2 * static_cast<int64_t>(wire.size()) + 16 * 512);
  pb::VectorBlock block;
  block.set_data(std::string(1 << 20, 'x'));
  EXPECT_LE(*BoundOf(block, block.SerializeAsString()), (1 << 20) + 5000);
}

TEST(DecodedBytesTest, StopsSoonAfterItsLimit) {
  const std::string wire = Times(100'000, Field(2, ""));
  const int64_t bound = *BoundOf(pb::IdList(), wire, 1000);
  EXPECT_GT(bound, 1000);
  EXPECT_LT(bound, 2000);
  EXPECT_EQ(*BoundOf(pb::IdList(), wire, *BoundOf(pb::IdList(), wire)),
            *BoundOf(pb::IdList(), wire));
}

TEST(DecodedBytesTest, WhatIsNoMessageIsRefused) {
  const auto invalid = StatusIs(kInvalidArgument);
  EXPECT_THAT(BoundOf(pb::IdList(), "\x12"), invalid);                // no length
  EXPECT_THAT(BoundOf(pb::IdList(), "\x12\5ab"), invalid);            // too short
  EXPECT_THAT(BoundOf(pb::IdList(), std::string(1, '\0')), invalid);  // field 0
  EXPECT_THAT(BoundOf(pb::IdList(), "\xfb\x7f"), invalid);            // a group without an end
  EXPECT_THAT(BoundOf(pb::IdList(), "\xfc\x7f"), invalid);            // an end without a group
  EXPECT_THAT(BoundOf(pb::IdList(), "\x17"), invalid);                // no such wire type
  EXPECT_OK(BoundOf(pb::IdList(), ""));
  std::string nested;
  for (int i = 0; i < 40; ++i) nested = Field(3, nested);  // nested_type
  EXPECT_OK(BoundOf(google::protobuf::DescriptorProto(), nested));
  for (int i = 0; i < 80; ++i) nested = Field(3, nested);
  EXPECT_THAT(BoundOf(google::protobuf::DescriptorProto(), nested), invalid);
}

// Writes random fields of `type`, some of them of other wire types than declared, some unknown.
class RandomWire {
 public:
  explicit RandomWire(uint64_t seed) : random_(seed) {}

  std::string Of(const Descriptor& type, int depth) {
    std::string wire;
    const uint64_t fields = random_() % (depth == 0 ? 40 : 6);
    for (uint64_t i = 0; i < fields; ++i) wire += FieldOf(type, depth);
    return wire;
  }

 private:
  std::string FieldOf(const Descriptor& type, int depth) {
    const bool known = random_() % 8 != 0 && type.field_count() > 0;
    if (!known) return Scalar(static_cast<int>(100 + random_() % 3));
    const FieldDescriptor& field =
        *type.field(static_cast<int>(random_() % static_cast<uint64_t>(type.field_count())));
    if (random_() % 8 == 0) return Scalar(field.number());
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      return Field(field.number(), depth > 5 ? "" : Of(*field.message_type(), depth + 1));
    }
    // Texts and packed lists: one-byte varints, and a size that fits fixed-size fields.
    return Field(field.number(), std::string(8 * (random_() % 8), 'a'));
  }

  std::string Scalar(int number) {
    constexpr std::array kTypes = {WireFormatLite::WIRETYPE_VARINT,
                                   WireFormatLite::WIRETYPE_FIXED32,
                                   WireFormatLite::WIRETYPE_FIXED64};
    const auto type = kTypes[random_() % kTypes.size()];
    std::string wire;
    {
      StringOutputStream stream(&wire);
      CodedOutputStream out(&stream);
      out.WriteTag(WireFormatLite::MakeTag(number, type));
      if (type == WireFormatLite::WIRETYPE_VARINT) out.WriteVarint64(random_());
      if (type == WireFormatLite::WIRETYPE_FIXED32) out.WriteLittleEndian32(7);
      if (type == WireFormatLite::WIRETYPE_FIXED64) out.WriteLittleEndian64(7);
    }
    return wire;
  }

  std::mt19937_64 random_;
};

TEST(DecodedBytesTest, AnyMessageTakesAtMostItsBoundHoweverItIsCut) {
  const uint64_t seed = nearfield::testing::TestSeed();
  RandomWire random(seed);
  const pb::SearchRequest search;
  const pb::UploadRequest upload;
  const pb::VerifyRequest verify;
  const pb::CreateCollectionRequest create;
  for (int i = 0; i < 2000; ++i) {
    for (const Message* message :
         {static_cast<const Message*>(&search), static_cast<const Message*>(&upload),
          static_cast<const Message*>(&verify), static_cast<const Message*>(&create)}) {
      const std::string wire = random.Of(*message->GetDescriptor(), 0);
      ASSERT_OK_AND_ASSIGN(const int64_t bound, BoundOf(*message, wire));
      ASSERT_LE(BytesToDecode(*message, wire), bound) << seed << ", " << i;
      ASSERT_EQ(*BoundOf(*message, wire, kNoLimit, 1 + i % 13), bound) << seed << ", " << i;
    }
  }
}

}  // namespace
}  // namespace nearfield::server
