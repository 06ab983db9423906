#include "tests/server/store/model_store.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "engine/base/status_macros.h"
#include "server/store/segment_format.h"
#include "tests/fault/crash_check.h"

namespace nearfield::store {

TempDir::TempDir() : path_(std::filesystem::temp_directory_path() / "nearfield-store-XXXXXX") {
  if (::mkdtemp(path_.data()) == nullptr) std::abort();
}

TempDir::~TempDir() {
  // A store that is still open may delete files at the same time.
  std::error_code error;
  do {
    std::filesystem::remove_all(path_, error);
  } while (error == std::errc::no_such_file_or_directory);
}

void FlipByte(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char old = static_cast<char>(file.get());
  file.seekp(at);
  file.put(static_cast<char>(old ^ 1));
}

std::set<std::string> SegmentsIn(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (entry.path().extension() == ".seg") names.insert(entry.path().filename());
  }
  return names;
}

ModelStore::ModelStore(const std::string& dir) : dir_(dir) { Reopen(); }

StoreOptions ModelStore::Options() const {
  return {.dir = dir_,
          .on_fatal = [](const absl::Status& status) { ADD_FAILURE() << status; },
          .free_bytes_min = 0};
}

std::string ModelStore::SegmentPath(int64_t segment) const {
  return dir_ + "/" + SegmentFileName(segment);
}

void ModelStore::Reopen(const StoreOptions& options) {
  store_ = nullptr;
  absl::StatusOr<std::unique_ptr<Store>> opened = Store::Open(options);
  if (!opened.ok()) {
    ADD_FAILURE() << opened.status();
    std::abort();
  }
  store_ = *std::move(opened);
}

int64_t ModelStore::Create(const std::string& name, int64_t number) {
  const fault::Operation operation = {
      .kind = fault::Operation::Kind::kCreate, .number = number, .collection = name};
  const absl::StatusOr<int64_t> id =
      store_->CreateCollection(name, fault::SpecOf(number), "schema");
  EXPECT_TRUE(id.ok()) << id.status();
  model_.Apply(operation);
  return id.value_or(0);
}

int64_t ModelStore::IdOf(const std::string& name) const {
  for (const StoredCollection& collection : store_->Collections()) {
    if (collection.name == name) return collection.id;
  }
  return 0;
}

absl::StatusOr<std::unique_ptr<SegmentWriter>> ModelStore::Begin(const std::string& name,
                                                                 int64_t number,
                                                                 const std::string& token) {
  const fault::UploadData data = fault::UploadData::Make(model_.collections.at(name).spec, number);
  ABSL_ASSIGN_OR_RETURN(std::unique_ptr<SegmentWriter> writer,
                        store_->BeginUpload(IdOf(name), {.mode = data.mode, .token = token}));
  for (size_t i = 0; i < data.blocks.size(); ++i) {
    ABSL_RETURN_IF_ERROR(writer->Append(data.blocks[i].View(static_cast<int64_t>(i))));
  }
  return writer;
}

absl::Status ModelStore::Commit(const std::string& name, int64_t number, SegmentWriter* writer) {
  const fault::ModelCollection& collection = model_.collections.at(name);
  const fault::UploadData data = fault::UploadData::Make(collection.spec, number);
  const fault::CommitEffect effect = fault::EffectOf(collection, data);
  ABSL_RETURN_IF_ERROR(writer->Sync());
  ABSL_RETURN_IF_ERROR(store_->CommitUpload(writer, {.epoch = collection.epoch + 1,
                                                     .replaced_ids = &effect.replaced,
                                                     .superseded_rows = effect.superseded}));
  model_.Apply({.kind = fault::Operation::Kind::kCommit, .collection = name, .upload = number});
  return absl::OkStatus();
}

absl::Status ModelStore::Upload(const std::string& name, int64_t number) {
  ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<SegmentWriter> writer, Begin(name, number));
  return Commit(name, number, writer.get());
}

absl::Status ModelStore::Delete(const std::string& name, int64_t number) {
  const fault::ModelCollection& collection = model_.collections.at(name);
  ABSL_RETURN_IF_ERROR(
      store_->CommitDelete(IdOf(name), collection.epoch + 1, fault::DeletedBy(collection, number)));
  model_.Apply({.kind = fault::Operation::Kind::kDelete, .number = number, .collection = name});
  return absl::OkStatus();
}

absl::Status ModelStore::Update(const std::string& name, int64_t number, const std::string& token) {
  const fault::ModelCollection& collection = model_.collections.at(name);
  const std::vector<fault::UpdateData> updates = fault::UpdatesOf(collection, number);
  std::vector<std::vector<const std::string*>> pointers(updates.size());
  std::vector<StoredUpdate> views;
  for (size_t i = 0; i < updates.size(); ++i) {
    views.push_back(updates[i].View(collection.epoch + 1 + i, &pointers[i]));
  }
  views.back().token = token;
  views.back().reply = "reply of " + token;
  ABSL_RETURN_IF_ERROR(store_->CommitUpdates(IdOf(name), views));
  model_.Apply({.kind = fault::Operation::Kind::kUpdate, .number = number, .collection = name});
  return absl::OkStatus();
}

::testing::AssertionResult ModelStore::Same() {
  const absl::StatusOr<fault::Model> found = fault::Read(*store_, model_);
  if (!found.ok()) return ::testing::AssertionFailure() << found.status();
  std::vector<fault::Operation> happened;
  const fault::Findings findings = fault::Compare(*found, model_, {}, &happened);
  if (findings.none()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << findings.first;
}

}  // namespace nearfield::store
