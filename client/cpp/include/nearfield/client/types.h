// Plain types of the client library. They need no gRPC and no protobuf header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace nearfield::client {

// How a score is computed; higher is better for each. Formulas: proto/nearfield/v1/retrieval.proto,
// "Score".
enum class Metric : uint8_t { kDot = 1, kCosine = 2, kL2 = 3 };

// Element type of vectors that are sent or returned as bytes: little-endian, row-major, no padding.
enum class DataType : uint8_t { kFloat32 = 1, kFloat16 = 2, kBFloat16 = 3 };

// Fixed when a collection is created.
enum class IdType : uint8_t { kUint64 = 1, kString = 2 };

// The device that computed an answer.
enum class Backend : uint8_t { kUnknown = 0, kCpu = 1, kGpu = 2 };

// The data that the scan read to find candidates. The answer is the same to the bit for each.
enum class ScanPrecision : uint8_t { kUnknown = 0, kRows = 1, kInt8 = 2 };

// The data that a collection keeps for its scans, and the place of its rows; fixed when it is
// created. The choice affects only speed and memory: the answer is the same to the bit for each.
// proto/nearfield/v1/common.proto has the costs. kUnknown: the server did not report it.
enum class ScanChoice : uint8_t { kUnknown = 0, kAuto = 1, kInt8 = 2, kRows = 4, kInt16 = 5 };
enum class RowPlacement : uint8_t { kUnknown = 0, kDevice = 1, kHost = 2 };

// The memory for rows of one of several devices.
struct DeviceUse {
  std::string name;
  uint64_t bytes_total = 0;
  uint64_t bytes_used = 0;
};

// The names in the command and in its JSON: "dot", "float16", "uint64", "gpu", "int8", "host", ...
std::string_view Name(Metric metric);
std::string_view Name(DataType dtype);
std::string_view Name(IdType type);
std::string_view Name(Backend backend);
std::string_view Name(ScanPrecision precision);
std::string_view Name(ScanChoice scan);
std::string_view Name(RowPlacement rows);

// The value with that name, or nullopt.
std::optional<Metric> ParseMetric(std::string_view name);
std::optional<DataType> ParseDataType(std::string_view name);
std::optional<IdType> ParseIdType(std::string_view name);

constexpr size_t ElementBytes(DataType dtype) { return dtype == DataType::kFloat32 ? 4 : 2; }

// The user's name for a row. Numbers compare as unsigned integers, strings bytewise.
using Id = std::variant<uint64_t, std::string>;

// Ids of one type: a collection never mixes them.
using IdColumn = std::variant<std::vector<uint64_t>, std::vector<std::string>>;

IdType TypeOf(const Id& id);
IdType TypeOf(const IdColumn& ids);
IdColumn EmptyIds(IdType type);
size_t Count(const IdColumn& ids);
Id At(const IdColumn& ids, size_t i);
IdColumn Slice(const IdColumn& ids, size_t begin, size_t end);  // ids [begin, end)
void Append(const Id& id, IdColumn* ids);  // requires TypeOf(id) == TypeOf(*ids)
std::string ToString(const Id& id);        // the number in decimal, or the string itself

// Rows as bytes: rows * dim * ElementBytes(dtype).
struct EncodedVectors {
  DataType dtype = DataType::kFloat32;
  std::string bytes;
};

// Returns the values of encoded vectors. Exact: every fp16 and bf16 value is an fp32 value.
std::vector<float> Widen(DataType dtype, std::string_view bytes);

// Appends `values` to `bytes` as `dtype`, each rounded to nearest even. Returns false if a rounded
// value is not finite; what was appended before it remains.
bool Narrow(DataType dtype, std::span<const float> values, std::string* bytes);

// The amount of one resource that a principal holds: QuotaUse in common.proto.
struct QuotaUse {
  std::string name;  // "device_bytes"
  uint64_t used = 0;
  uint64_t max = 0;  // 0: no limit
};
struct PrincipalUse {
  std::string principal;
  std::vector<QuotaUse> quotas;
};

}  // namespace nearfield::client
