// AuditFixture: an engine over a fake device, a clock that tests control, and options of an
// alarm that record its calls.
#pragma once

#include <atomic>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/audit/audit.h"
#include "server/collections/collection_upload.h"
#include "tests/server/fake_clock.h"
#include "tests/server/prelude.h"
#include "tests/server/store/model_store.h"
#include "tests/testing/fake_engine.h"

namespace nearfield::server {

struct Raised {
  std::string what;
  absl::StatusOr<std::string> record;
};

class AuditFixture : public ::testing::Test {
 protected:
  Alarm::Options AlarmOptions(const std::string& record_dir) {
    Alarm::Options options;
    options.server_version = "1.2.3";
    options.engine = fake_.engine->Info();
    options.record_dir = record_dir;
    options.stop = [this] { ++stops_; };
    options.report = [this](const std::string& what, const absl::StatusOr<std::string>& record) {
      const std::lock_guard lock(mutex_);
      raised_.push_back({.what = what, .record = record});
    };
    options.unix_seconds = [] { return int64_t{1700000000}; };
    return options;
  }

  std::vector<Raised> raised() {
    const std::lock_guard lock(mutex_);
    return raised_;
  }

  static nlohmann::json ReadRecord(const Raised& raised) {
    EXPECT_OK(raised.record);
    std::ifstream file(*raised.record);
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  }

  // Returns a collection with these rows of dim 2: (value, 1).
  std::shared_ptr<Collection> CollectionOf(const std::vector<uint64_t>& ids,
                                           const std::vector<float>& values) {
    std::shared_ptr<Collection> collection = *fake_.engine->CreateCollection(testing::kPlainSpec);
    EXPECT_OK(UploadAll(*collection, testing::PlainRows(ids, values)));
    return collection;
  }

  // Returns the answer to `vector` with k neighbors, in the form that the auditor gets.
  AuditedAnswer Answer(const std::shared_ptr<Collection>& collection,
                       const std::vector<float>& vector, int32_t k) {
    SearchBatch batch;
    batch.queries = {{.vector = vector, .row_id = {}, .k = k}};
    batch.at = collection->PinEpoch();
    absl::StatusOr<SearchResult> found = fake_.engine->Search(*collection, batch);
    EXPECT_OK(found);
    return {.collection_name = "docs",
            .collection = collection,
            .at = batch.at,
            .query = OwnedQuery(batch.queries.front()),
            .answer = WithoutParts(found->queries.front()),
            .request_id = "request-7"};
  }

  store::TempDir place_;
  testing::FakeEngine fake_ = testing::MakeFakeEngine();
  FakeClock clock_;
  std::atomic<int64_t> stops_{0};

 private:
  std::mutex mutex_;
  std::vector<Raised> raised_;
};

}  // namespace nearfield::server
