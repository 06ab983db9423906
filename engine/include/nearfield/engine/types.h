// Plain types of the engine's interface. Host C++20, no CUDA, no protobuf.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace nearfield {

// How a score is computed; higher is better for each. Formulas: proto/nearfield/v1/retrieval.proto,
// "Score".
enum class Metric : uint8_t { kDot = 1, kCosine = 2, kL2 = 3 };

// Element type of stored rows, and of the scores that a top-k selection (topk/select.h) reads.
// Queries are always fp32.
enum class RowType : uint8_t { kFloat32 = 1, kFloat16 = 2, kBFloat16 = 3 };

enum class IdType : uint8_t { kUint64 = 1, kString = 2 };

enum class BackendKind : uint8_t { kCpu = 1, kGpu = 2 };

// The data that a scan reads. kRows: the exact rows, scored canonically. kInt8: codes with a
// quarter of the bytes of fp32 rows, whose proven bounds exclude all but a few rows; those are
// scored canonically. The answer is the same to the bit.
enum class ScanPrecision : uint8_t { kRows = 1, kInt8 = 2 };

// The data that a collection keeps for its scans. kAuto: the fastest on the backend. kInt16: int8
// codes as for kInt8, and on a GPU a second int8 code of what the first leaves, which excludes
// nearly all other rows before a row is read; the CPU backend keeps the first code only, because
// its rows are as near as a code. The numbers are those of proto/nearfield/v1/common.proto, where 3
// is reserved.
enum class ScanChoice : uint8_t { kAuto = 1, kInt8 = 2, kRows = 4, kInt16 = 5 };

// Where a collection's exact rows are stored. kHost: in host memory, so that the device holds
// several times as many rows: scans read codes, and only candidates cross the link. The CPU backend
// has no other memory; the GPU backend has EngineOptions::host_rows_bytes. Requires a scan of
// codes.
enum class RowPlacement : uint8_t { kDevice = 1, kHost = 2 };

// Queries whose candidates did not fit into the space reserved for them, by the fallback that was
// used.
struct ScanEscalations {
  int64_t tighter = 0;    // collected again, with a threshold of exact scores
  int64_t canonical = 0;  // scanned over the exact rows

  ScanEscalations& operator+=(const ScanEscalations& other) {
    tighter += other.tighter;
    canonical += other.canonical;
    return *this;
  }
};

// The user's name for a row. Numbers compare as unsigned integers, strings bytewise.
using Id = std::variant<uint64_t, std::string>;

// Hard limits of the design; a server may set lower ones.
inline constexpr int32_t kDimMax = 8192;         // dimensions of a row
inline constexpr int32_t kKMax = 4096;           // neighbors per query
inline constexpr int64_t kRowsMax = 0xfffffffe;  // rows in one generation (ranks are 32 bits)
inline constexpr int32_t kGenerationsMax = 16;   // immutable parts of one corpus
inline constexpr int32_t kIdBytesMax = 512;      // bytes of a string id

constexpr int32_t BytesPerElement(RowType type) { return type == RowType::kFloat32 ? 4 : 2; }

// Returns the type as users spell it: "float32", "float16", "bfloat16".
constexpr const char* NameOf(RowType type) {
  return type == RowType::kFloat32 ? "float32" : type == RowType::kFloat16 ? "float16" : "bfloat16";
}

}  // namespace nearfield
