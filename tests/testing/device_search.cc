#include "tests/testing/device_search.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/score/element.h"
#include "engine/score/row_types.h"

namespace nearfield::testing {
namespace {

constexpr size_t kGuardBytes = 256;
constexpr uint8_t kPoison = 0xa5;

uint16_t NarrowBits(float value, RowType type) {
  const bool half = type == RowType::kFloat16;
  const uint16_t bits =
      half ? score::HalfBitsFromFloat(value) : score::Bfloat16BitsFromFloat(value);
  const uint16_t infinity = half ? 0x7c00u : 0x7f80u;
  return (bits & 0x7fffu) < infinity ? bits : static_cast<uint16_t>(bits - 1);
}

}  // namespace

SearchBatch DeviceQueries::Batch() const {
  SearchBatch batch;
  const size_t dim = vectors.size() / static_cast<size_t>(count);
  for (size_t q = 0; q < static_cast<size_t>(count); ++q) {
    batch.queries.push_back({.vector = absl::MakeConstSpan(vectors.data() + q * dim, dim),
                             .row_id = {},
                             .k = k,
                             .filter = filter,
                             .score_threshold = score_threshold});
  }
  return batch;
}

DeviceQueries MakeDeviceQueries(absl::Span<const float> vectors, int64_t count, RowType type) {
  DeviceQueries queries = {.type = type, .elements = {}, .vectors = {}, .count = count};
  const auto size = static_cast<size_t>(BytesPerElement(type));
  queries.elements.resize(vectors.size() * size);
  for (size_t i = 0; i < vectors.size(); ++i) {
    uint8_t* const to = queries.elements.data() + i * size;
    if (type == RowType::kFloat32) {
      std::memcpy(to, &vectors[i], size);
    } else {
      const uint16_t bits = NarrowBits(vectors[i], type);
      std::memcpy(to, &bits, size);
    }
    queries.vectors.push_back(score::ElementAt(type, queries.elements.data(), i));
  }
  return queries;
}

DeviceBuffers::DeviceBuffers(const DeviceQueries& queries, DeviceCopy copy)
    : asked_(queries), copy_(std::move(copy)) {
  const auto count = static_cast<size_t>(queries.count);
  const size_t places = count * static_cast<size_t>(queries.k);
  for (const size_t bytes : {queries.elements.size(), places * sizeof(float),
                             places * sizeof(uint64_t), count * sizeof(int32_t)}) {
    const size_t at = bytes_ + kGuardBytes;
    parts_.push_back({.at = at, .bytes = bytes});
    bytes_ = (at + bytes + kGuardBytes + 255) / 256 * 256;
  }
}

absl::StatusOr<std::unique_ptr<DeviceBuffers>> DeviceBuffers::Make(Engine& engine,
                                                                   const DeviceQueries& queries,
                                                                   DeviceCopy copy) {
  std::unique_ptr<DeviceBuffers> buffers(new DeviceBuffers(queries, std::move(copy)));
  ABSL_ASSIGN_OR_RETURN(buffers->memory_,
                        engine.TakeDeviceMemory(static_cast<int64_t>(buffers->bytes_)));
  std::vector<uint8_t> content(buffers->bytes_, kPoison);
  std::memcpy(content.data() + buffers->parts_[0].at, queries.elements.data(),
              queries.elements.size());
  buffers->copy_(buffers->memory_->data(), content.data(), content.size());
  return buffers;
}

DeviceSearch DeviceBuffers::Search() const {
  char* const base = memory_->data();
  DeviceSearch search;
  search.queries = queries();
  search.query_type = asked_.type;
  search.queries_count = asked_.count;
  search.dim = static_cast<int32_t>(asked_.vectors.size() / static_cast<size_t>(asked_.count));
  search.k = asked_.k;
  search.stream = asked_.stream;
  search.filter = asked_.filter;
  search.score_threshold = asked_.score_threshold;
  search.scores = reinterpret_cast<float*>(base + parts_[1].at);
  search.ids = reinterpret_cast<uint64_t*>(base + parts_[2].at);
  search.counts = reinterpret_cast<int32_t*>(base + parts_[3].at);
  return search;
}

absl::StatusOr<std::vector<Neighbors>> DeviceBuffers::Read() const {
  std::vector<uint8_t> content(bytes_);
  copy_(content.data(), memory_->data(), content.size());
  size_t end = 0;  // of the last part
  for (const Part& part : parts_) {
    for (size_t i = end; i < part.at; ++i) {
      if (content[i] != kPoison) return absl::DataLossError(absl::StrCat("byte ", i, " written"));
    }
    end = part.at + part.bytes;
  }
  const auto k = static_cast<size_t>(asked_.k);
  std::vector<Neighbors> answers(static_cast<size_t>(asked_.count));
  for (size_t q = 0; q < answers.size(); ++q) {
    int32_t count = 0;
    std::memcpy(&count, content.data() + parts_[3].at + q * sizeof(count), sizeof(count));
    for (size_t i = 0; i < k; ++i) {
      const size_t place = q * k + i;
      float score = 0;
      uint64_t id = 0;
      std::memcpy(&score, content.data() + parts_[1].at + place * sizeof(score), sizeof(score));
      std::memcpy(&id, content.data() + parts_[2].at + place * sizeof(id), sizeof(id));
      if (static_cast<int64_t>(i) < count) {
        answers[q].ids.AppendNumber(id);
        answers[q].scores.push_back(score);
      } else if (!std::isnan(score) || id != ~uint64_t{0}) {
        return absl::DataLossError(
            absl::StrCat("query ", q, ": place ", i, " of ", count, " neighbors is not empty"));
      }
    }
  }
  return answers;
}

absl::StatusOr<std::vector<Neighbors>> SearchOnDevice(Engine& engine, const Collection& collection,
                                                      const DeviceQueries& queries,
                                                      const DeviceCopy& copy) {
  ABSL_ASSIGN_OR_RETURN(const auto buffers, DeviceBuffers::Make(engine, queries, copy));
  ABSL_RETURN_IF_ERROR(engine.SearchOnDevice(collection, buffers->Search()).status());
  return buffers->Read();
}

}  // namespace nearfield::testing
