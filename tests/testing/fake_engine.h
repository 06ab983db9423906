// An engine over a fake device, and helpers for common steps of tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "nearfield/engine/engine.h"
#include "tests/testing/corpora.h"
#include "tests/testing/fake_backend.h"

namespace nearfield::testing {

struct FakeEngine {
  std::shared_ptr<FakeDevice> device;
  std::unique_ptr<Engine> engine;
};

struct FakeEngineOptions {
  FakeDeviceOptions device;
  EngineOptions engine = {.host_memory_bytes = int64_t{256} << 20};
};

FakeEngine MakeFakeEngine(const FakeEngineOptions& options = {});

// Uploads all rows in blocks of different sizes, with Payload(id) as payloads, and commits them.
absl::StatusOr<CommitResult> UploadAll(Collection& collection, const Corpus& rows);

// Returns a payload that identifies its row; empty for some rows.
std::string Payload(const Id& id);

// Searches for one vector and returns the answer's ids and scores.
absl::StatusOr<Neighbors> SearchOne(Engine& engine, const Collection& collection,
                                    absl::Span<const float> vector, int32_t k);

IdColumn Ids(std::vector<uint64_t> numbers);

// Returns rows of a plain collection (dot, fp32, two dimensions): row i is (values[i], 1) with id
// ids[i].
Corpus PlainRows(std::vector<uint64_t> ids, std::vector<float> values);
inline const CollectionSpec kPlainSpec = {
    .dim = 2, .metric = Metric::kDot, .row_type = RowType::kFloat32, .id_type = IdType::kUint64};

}  // namespace nearfield::testing
