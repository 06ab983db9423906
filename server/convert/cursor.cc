#include "server/convert/cursor.h"

#include <cstddef>
#include <cstring>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"

namespace nearfield::server {
namespace {

constexpr char kVersion = 1;      // of a search
constexpr char kScanVersion = 2;  // of a scan
constexpr size_t kNumbersCount = 3;
constexpr size_t kBytes = 1 + kNumbersCount * sizeof(uint64_t);

// FNV-1a hash.
class Hash {
 public:
  void Add(const void* bytes, size_t count) {
    const auto* const each = static_cast<const unsigned char*>(bytes);
    for (size_t i = 0; i < count; ++i) value_ = (value_ ^ each[i]) * 0x100000001b3u;
  }
  void AddNumber(uint64_t number) { Add(&number, sizeof number); }
  void AddText(std::string_view text) {
    AddNumber(text.size());
    Add(text.data(), text.size());
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace

std::string EncodeCursor(const Cursor& cursor) {
  const uint64_t numbers[kNumbersCount] = {cursor.epoch, static_cast<uint64_t>(cursor.position),
                                           cursor.search_fingerprint};
  std::string bytes(kBytes, kVersion);
  std::memcpy(bytes.data() + 1, numbers, sizeof numbers);
  return bytes;
}

absl::StatusOr<Cursor> DecodeCursor(std::string_view bytes) {
  uint64_t numbers[kNumbersCount] = {};
  if (!bytes.empty() && bytes.front() == kScanVersion) {
    return ArgumentError("cursor", "of a scan, not of a search: ScanResponse.next_cursor");
  }
  if (bytes.size() != kBytes || bytes.front() != kVersion) {
    return ArgumentError("cursor",
                         absl::StrCat(bytes.size(),
                                      " bytes that are no cursor of this server: "
                                      "QueryResult.next_cursor"),
                         absl::StrCat(bytes.size(), " bytes"));
  }
  std::memcpy(numbers, bytes.data() + 1, sizeof numbers);
  const Cursor cursor = {.epoch = numbers[0],
                         .position = static_cast<int64_t>(numbers[1]),
                         .search_fingerprint = numbers[2]};
  if (cursor.position >= 0) return cursor;
  return ArgumentError("cursor", "damaged: its place is negative");
}

std::string EncodeScanCursor(const ScanCursor& cursor) {
  const uint64_t numbers[kNumbersCount] = {cursor.epoch, static_cast<uint64_t>(cursor.position),
                                           cursor.scan_fingerprint};
  std::string bytes(kBytes, kScanVersion);
  std::memcpy(bytes.data() + 1, numbers, sizeof numbers);
  if (const auto* const text = std::get_if<std::string>(&cursor.last)) return bytes + *text;
  const uint64_t number = *std::get_if<uint64_t>(&cursor.last);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  return bytes;
}

absl::StatusOr<ScanCursor> DecodeScanCursor(std::string_view bytes, IdType id_type) {
  if (!bytes.empty() && bytes.front() == kVersion) {
    return ArgumentError("cursor", "of a search, not of a scan: QueryResult.next_cursor");
  }
  const size_t id_bytes = bytes.size() < kBytes ? 0 : bytes.size() - kBytes;
  const bool fits = id_type == IdType::kUint64 ? id_bytes == sizeof(uint64_t)
                                               : id_bytes >= 1 && id_bytes <= size_t{kIdBytesMax};
  if (!fits || bytes.front() != kScanVersion) {
    return ArgumentError("cursor",
                         absl::StrCat(bytes.size(),
                                      " bytes that are no cursor of this collection: "
                                      "ScanResponse.next_cursor"),
                         absl::StrCat(bytes.size(), " bytes"));
  }
  uint64_t numbers[kNumbersCount] = {};
  std::memcpy(numbers, bytes.data() + 1, sizeof numbers);
  ScanCursor cursor = {.epoch = numbers[0],
                       .position = static_cast<int64_t>(numbers[1]),
                       .scan_fingerprint = numbers[2]};
  const std::string_view last = bytes.substr(kBytes);
  if (id_type == IdType::kString) {
    cursor.last = std::string(last);
  } else {
    uint64_t number = 0;
    std::memcpy(&number, last.data(), sizeof number);
    cursor.last = number;
  }
  if (cursor.position >= 0) return cursor;
  return ArgumentError("cursor", "damaged: its place is negative");
}

uint64_t ScanFingerprint(uint64_t incarnation, std::string_view filter) {
  Hash hash;
  hash.AddNumber(incarnation);
  hash.AddText(filter);
  return hash.value();
}

uint64_t SearchFingerprint(uint64_t incarnation, const Query& query, const SearchOrder& order) {
  Hash hash;
  hash.AddNumber(incarnation);
  hash.AddText(
      {reinterpret_cast<const char*>(query.vector.data()), query.vector.size() * sizeof(float)});
  if (query.row_id.has_value()) {
    if (const auto* const number = std::get_if<uint64_t>(&*query.row_id)) hash.AddNumber(*number);
    if (const auto* const text = std::get_if<std::string>(&*query.row_id)) hash.AddText(*text);
  }
  if (query.score_threshold.has_value()) hash.Add(&*query.score_threshold, sizeof(float));
  hash.AddText(order.filter);
  if (!order.group_by.empty() || !order.terms.empty()) hash.AddText(order.group_by);
  if (!order.terms.empty()) hash.AddText(order.terms);
  return hash.value();
}

}  // namespace nearfield::server
