#include "tests/testing/fake_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/engine_core.h"

namespace nearfield::testing {

FakeEngine MakeFakeEngine(const FakeEngineOptions& options) {
  FakeEngine fake;
  fake.device = std::make_shared<FakeDevice>(options.device);
  auto engine = MakeEngine(MakeFakeBackend(fake.device), options.engine, "for a test");
  EXPECT_TRUE(engine.ok()) << engine.status();
  if (engine.ok()) fake.engine = *std::move(engine);
  return fake;
}

std::string Payload(const Id& id) {
  if (const auto* number = std::get_if<uint64_t>(&id)) {
    return *number % 3 == 0 ? "" : absl::StrCat("payload of ", *number);
  }
  return absl::StrCat("payload of ", *std::get_if<std::string>(&id));
}

absl::StatusOr<CommitResult> UploadAll(Collection& collection, const Corpus& rows) {
  BytesColumn payloads;
  for (int64_t row = 0; row < rows.rows_count(); ++row) payloads.Append(Payload(rows.ids.at(row)));
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<Upload> upload,
                        collection.BeginUpload({.rows_max = std::max<int64_t>(1, rows.rows_count()),
                                                .payload_bytes_max = payloads.value_bytes()}));
  int64_t block_rows = 1;
  for (int64_t begin = 0; begin < rows.rows_count(); begin += block_rows, block_rows += 7) {
    const int64_t end = std::min(begin + block_rows, rows.rows_count());
    IdColumn ids(rows.ids.type());
    BytesColumn block_payloads;
    for (int64_t row = begin; row < end; ++row) {
      ids.AppendFrom(rows.ids, row);
      block_payloads.Append(payloads.at(row));
    }
    const auto bytes = absl::MakeConstSpan(rows.rows).subspan(
        static_cast<size_t>(begin * rows.row_bytes()),
        static_cast<size_t>((end - begin) * rows.row_bytes()));
    ABSL_RETURN_IF_ERROR(upload->Append({.ids = &ids, .rows = bytes, .payloads = &block_payloads}));
    block_rows = end - begin;
  }
  return upload->Commit();
}

absl::StatusOr<Neighbors> SearchOne(Engine& engine, const Collection& collection,
                                    absl::Span<const float> vector, int32_t k) {
  SearchBatch batch;
  batch.queries = {{.vector = vector, .row_id = {}, .k = k}};
  ABSL_ASSIGN_OR_RETURN(SearchResult result, engine.Search(collection, batch));
  return std::move(result.queries.front());
}

IdColumn Ids(std::vector<uint64_t> numbers) { return IdColumn::OfNumbers(std::move(numbers)); }

Corpus PlainRows(std::vector<uint64_t> ids, std::vector<float> values) {
  Corpus rows;
  rows.spec = kPlainSpec;
  for (const float value : values) {
    const float row[2] = {value, 1.0f};
    const auto* const bytes = reinterpret_cast<const uint8_t*>(row);
    rows.rows.insert(rows.rows.end(), bytes, bytes + sizeof(row));
  }
  rows.ids = Ids(std::move(ids));
  return rows;
}

}  // namespace nearfield::testing
