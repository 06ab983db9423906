// AttributeModelTest: a server with a collection of rows with random attributes, which random calls
// change, and a map with the rows that it must have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/convert/attributes.h"
#include "tests/server/attributes/attribute_rows.h"
#include "tests/server/attributes/filter_maker.h"
#include "tests/server/attributes/filter_messages.h"
#include "tests/server/attributes/filter_printer.h"
#include "tests/server/pages_fixture.h"
#include "tests/server/store/model_store.h"

namespace nearfield::server {

class AttributeModelTest : public PagesServiceTest {
 protected:
  static constexpr int64_t kIdsMax = 120;

  ~AttributeModelTest() override { Drain(); }  // before its folder is removed

  struct Row {
    float value = 0;  // its vector
    PlainRow attributes;
  };

  // Serves an empty collection "c" of one dimension and metric dot. Its data survive Restart().
  void ServeDeclared() {
    Set(settings_.data_dir, dir_ / "data");
    Serve();
    pb::CreateCollectionRequest create = FromText("name: 'c' dim: 1 metric: METRIC_DOT");
    create.set_dtype(pb::DATA_TYPE_FLOAT32);
    create.set_id_type(pb::ID_TYPE_UINT64);
    ToProto(schema_, create.mutable_attributes());
    ASSERT_OK(Call(&Admin::CreateCollection, create));
  }
  void Restart() {
    Drain();
    Serve();
  }

  std::vector<PlainRow> DrawRows(size_t count) {
    return RandomRows(random_, specs_, static_cast<int64_t>(count));
  }
  // Few values, so that scores tie.
  float DrawValue() { return static_cast<float>(random_.Between(-6, 7)); }

  void Upload(pb::UploadMode mode, const std::vector<uint64_t>& ids,
              const std::vector<PlainRow>& attributes) {
    pb::UploadRequest begin = Begin("c", std::max<size_t>(1, ids.size()));
    begin.mutable_begin()->set_mode(mode);
    pb::UploadRequest request;
    pb::UploadBlock* const block = request.mutable_block();
    std::vector<float> values;
    if (mode == pb::UPLOAD_MODE_REPLACE) model_.clear();
    for (size_t i = 0; i < ids.size(); ++i) {
      block->mutable_ids()->add_numbers(ids[i]);
      values.push_back(DrawValue());
      model_[ids[i]] = {.value = values.back(), .attributes = attributes[i]};
    }
    block->mutable_vectors()->set_dtype(pb::DATA_TYPE_FLOAT32);
    block->mutable_vectors()->set_data(Bytes(values));
    ToMessages(schema_, BlockOf(schema_, attributes), block->mutable_attributes());
    if (ids.empty()) {
      ASSERT_OK(Send({begin, Commit()}));
    } else {
      ASSERT_OK(Send({begin, request, Commit()}));
    }
  }
  void UploadSome() {
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < kIdsMax; ++id) {
      if (random_.OneIn(4)) ids.push_back(id);
    }
    random_.Shuffle(ids);
    const bool replaces = random_.OneIn(6);
    Upload(replaces ? pb::UPLOAD_MODE_REPLACE : pb::UPLOAD_MODE_UPSERT, ids, DrawRows(ids.size()));
  }
  void DeleteSome() {
    pb::DeleteRequest request = Of("c");
    for (int i = 0; i < 12; ++i) {
      const auto id = static_cast<uint64_t>(random_.Between(0, kIdsMax));
      request.mutable_ids()->add_numbers(id);
      model_.erase(id);
    }
    ASSERT_OK(Call(&Ingest::Delete, request));
  }
  // Gives some rows other values of one attribute.
  void UpdateSome() {
    if (specs_.empty()) return;
    const auto attribute = random_.Between(0, std::ssize(specs_));
    pb::UpdateRequest request = Of("c");
    std::vector<PlainRow> rows = DrawRows(10);
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint64_t id = 12 * i + static_cast<uint64_t>(random_.Between(0, 12));
      request.mutable_ids()->add_numbers(id);
      const auto row = model_.find(id);
      if (row == model_.end()) continue;
      row->second.attributes.attributes[static_cast<size_t>(attribute)] =
          rows[i].attributes[static_cast<size_t>(attribute)];
    }
    google::protobuf::RepeatedPtrField<pb::AttributeColumn> columns;
    ToMessages(schema_, BlockOf(schema_, rows), &columns);
    *request.add_attributes()->mutable_column() = columns[static_cast<int>(attribute)];
    ASSERT_OK(Call(&Ingest::Update, request));
  }
  void Change() {
    switch (random_.Between(0, 8)) {
      case 0:
      case 1: return DeleteSome();
      case 2:
      case 3: return UpdateSome();
      case 4: ASSERT_OK(Call(&Admin::Compact, Of("c"))); return;
      case 5:
        if (random_.OneIn(4)) Restart();
        return;
      default: return UploadSome();
    }
  }

  FilterTree DrawFilter() {
    for (;;) {
      FilterTree tree = RandomFilter(random_, specs_, 3, kIdsMax);
      if (FitsAsText(tree)) return tree;
    }
  }
  // Returns the ids of the rows that pass (null: all), ascending.
  std::vector<uint64_t> Passing(const FilterTree* tree) const {
    std::vector<uint64_t> ids;
    for (const auto& [id, row] : model_) {
      if (tree == nullptr || Passes(*tree, specs_, row.attributes, id)) ids.push_back(id);
    }
    return ids;
  }

  testing::Random random_{seed_};
  const store::TempDir dir_;
  std::vector<AttributeSpec> specs_ = RandomSpecs(random_);
  AttributeSchema schema_ = *AttributeSchema::Create(specs_, {});
  std::map<uint64_t, Row> model_;
};

}  // namespace nearfield::server
