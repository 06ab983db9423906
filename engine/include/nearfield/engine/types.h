// The plain types of the engine's interface. Host C++20, no CUDA, no protobuf.
#ifndef NEARFIELD_ENGINE_TYPES_H_
#define NEARFIELD_ENGINE_TYPES_H_

#include <cstdint>
#include <string>
#include <variant>

namespace nearfield {

// How a score is computed; higher is better for each. Formulas: proto/nearfield/v1/retrieval.proto,
// "Score".
enum class Metric : uint8_t { kDot = 1, kCosine = 2, kL2 = 3 };

// Element type of stored rows. Queries are always fp32.
enum class RowType : uint8_t { kFloat32 = 1, kFloat16 = 2, kBFloat16 = 3 };

enum class IdType : uint8_t { kUint64 = 1, kString = 2 };

enum class BackendKind : uint8_t { kCpu = 1, kGpu = 2 };

// What the scan read. kRows: the exact rows themselves, scored canonically.
enum class ScanPrecision : uint8_t { kRows = 1 };

// The user's name for a row. Numbers compare as unsigned integers, strings bytewise.
using Id = std::variant<uint64_t, std::string>;

// Hard limits of the design; a server may set lower ones.
inline constexpr int32_t kDimMax = 8192;         // dimensions of a row
inline constexpr int32_t kKMax = 4096;           // neighbors a query may ask for
inline constexpr int64_t kRowsMax = 0xfffffffe;  // rows in one generation (ranks are 32 bits)
inline constexpr int32_t kGenerationsMax = 16;   // immutable parts of one corpus
inline constexpr int32_t kIdBytesMax = 512;      // bytes of a string id

constexpr int32_t BytesPerElement(RowType type) { return type == RowType::kFloat32 ? 4 : 2; }

}  // namespace nearfield

#endif  // NEARFIELD_ENGINE_TYPES_H_
