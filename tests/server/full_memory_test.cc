// Tests that a restart loads everything that was served, however full the host memory was.
#include <string>

#include "engine/base/status_macros.h"
#include "tests/server/durable_rows.h"

namespace nearfield::server {
namespace {

struct FullMemoryCase {
  IdType id_type = IdType::kUint64;
  int64_t payload_bytes = 0;
};

class CatalogLoadMemoryTest : public DurableCatalogFixture,
                              public ::testing::WithParamInterface<FullMemoryCase> {
 protected:
  CatalogLoadMemoryTest() { host_memory_bytes_ = 4 << 20; }

  double Used() const {
    const Capacity capacity = engine_->GetCapacity();
    return static_cast<double>(capacity.host_bytes_used) /
           static_cast<double>(capacity.host_bytes_total);
  }

  absl::Status UploadNext(const std::shared_ptr<NamedCollection>& named, int64_t rows_count) {
    IdColumn ids(GetParam().id_type);
    BytesColumn payloads;
    std::vector<float> values;
    for (int64_t row = rows_; row < rows_ + rows_count; ++row) {
      if (GetParam().id_type == IdType::kUint64) {
        ids.AppendNumber(static_cast<uint64_t>(row));
      } else {
        ids.AppendString("row " + std::to_string(row));
      }
      payloads.Append(std::string(static_cast<size_t>(GetParam().payload_bytes), 'p'));
      for (int32_t d = 0; d < kDim; ++d) values.push_back(static_cast<float>((row * 7 + d) % 13));
    }
    const UploadReservation reservation = {
        .rows_max = rows_count,
        .payload_bytes_max = rows_count * GetParam().payload_bytes,
        .values_reserved = false};
    ABSL_ASSIGN_OR_RETURN(auto upload,
                          CollectionUpload::Begin(named, {.reservation = reservation}));
    const absl::Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(values.data()),
                                          values.size() * sizeof(float));
    ABSL_RETURN_IF_ERROR(upload->Append({.ids = &ids, .rows = bytes, .payloads = &payloads},
                                        {.rows_count = rows_count}));
    ABSL_RETURN_IF_ERROR(upload->Commit().status());
    rows_ += rows_count;
    return absl::OkStatus();
  }

  int64_t rows_ = 0;
};

// Regression: loading took 42 bytes of host memory per row, serving 14. A collection that was
// uploaded in small parts could not be loaded after a restart.
TEST_P(CatalogLoadMemoryTest, ACollectionThatFillsTheMemoryIsThereAfterARestart) {
  const auto named = *catalog_->Create("a", {.dim = kDim, .id_type = GetParam().id_type});
  for (int64_t rows_count = 65'536; rows_count > 0 && Used() < 0.95;) {
    const absl::Status status = UploadNext(named, rows_count);
    ASSERT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    if (!status.ok()) rows_count /= 2;
  }
  ASSERT_GE(Used(), 0.95) << rows_ << " rows";
  const std::string before = Answer(*named);
  Open();
  ASSERT_OK_AND_ASSIGN(const auto again, catalog_->Find("a"));
  ASSERT_OK(again->load_status);
  EXPECT_EQ(again->collection->Stats().rows_count, rows_);
  EXPECT_EQ(Answer(*again), before);
}

INSTANTIATE_TEST_SUITE_P(Values, CatalogLoadMemoryTest,
                         ::testing::Values(FullMemoryCase{}, FullMemoryCase{.payload_bytes = 100},
                                           FullMemoryCase{.id_type = IdType::kString},
                                           FullMemoryCase{.id_type = IdType::kString,
                                                          .payload_bytes = 30}),
                         [](const ::testing::TestParamInfo<FullMemoryCase>& tested) {
                           return std::string(tested.param.id_type == IdType::kString ? "Strings"
                                                                                      : "Numbers") +
                                  std::to_string(tested.param.payload_bytes);
                         });

}  // namespace
}  // namespace nearfield::server
