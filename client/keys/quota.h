// Quotas: the resources of a server that a principal may be limited in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nearfield {

enum class Quota : uint8_t {
  kDeviceBytes,
  kHostBytes,
  kAttributeBytes,
  kDiskBytes,
  kCollections,
  kAliases,
  kSnapshots,
};

struct QuotaKind {
  Quota quota;
  // Its name in the key file. The setting of its default is "principal_" and this name.
  std::string_view name;
  std::string_view unit;  // "1,000 bytes of device memory"
};

// In the order of the enumerators.
inline constexpr std::array kQuotaKinds = {
    QuotaKind{Quota::kDeviceBytes, "device_bytes", "bytes of device memory"},
    QuotaKind{Quota::kHostBytes, "host_bytes", "bytes of host memory"},
    QuotaKind{Quota::kAttributeBytes, "attribute_bytes", "bytes of attribute memory"},
    QuotaKind{Quota::kDiskBytes, "disk_bytes", "bytes of disk"},
    QuotaKind{Quota::kCollections, "collections", "collections"},
    QuotaKind{Quota::kAliases, "aliases", "aliases"},
    QuotaKind{Quota::kSnapshots, "snapshots", "snapshots"}};

// An amount of each resource; as a limit, 0 is no limit.
class QuotaAmounts {
 public:
  int64_t& operator[](Quota quota) { return amounts_[static_cast<size_t>(quota)]; }
  int64_t operator[](Quota quota) const { return amounts_[static_cast<size_t>(quota)]; }
  bool operator==(const QuotaAmounts&) const = default;

 private:
  std::array<int64_t, kQuotaKinds.size()> amounts_ = {};
};

}  // namespace nearfield
