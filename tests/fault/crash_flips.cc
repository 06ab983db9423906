#include "tests/fault/crash_flips.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"
#include "server/store/file.h"
#include "server/store/store.h"
#include "tests/fault/crash_check.h"
#include "tests/fault/crash_exit.h"
#include "tests/fault/crash_model.h"

namespace nearfield::fault {
namespace {

using File = DamagedStore::File;
using Outcome = DamagedStore::Outcome;

store::StoreOptions OptionsFor(const std::string& dir) {
  return {.dir = dir, .on_fatal = [](const absl::Status&) {}, .free_bytes_min = 0};
}

absl::Status Upload(store::Store& store, Model* model, const std::string& collection,
                    int64_t number, bool commit) {
  const ModelCollection& target = model->collections.at(collection);
  const UploadData data = UploadData::Make(target.spec, number);
  const std::string token = commit ? "" : TokenOf(number);
  ABSL_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::SegmentWriter> writer,
      store.BeginUpload(store.Collections().front().id, {.mode = data.mode, .token = token}));
  if (!commit) {
    model->Apply({.kind = Operation::Kind::kBegin, .collection = collection, .upload = number});
  }
  for (size_t i = 0; i < data.blocks.size(); ++i) {
    ABSL_RETURN_IF_ERROR(writer->Append(data.blocks[i].View(static_cast<int64_t>(i))));
  }
  if (!commit) {
    model->Apply({.kind = Operation::Kind::kCheckpoint,
                  .collection = collection,
                  .upload = number,
                  .count = writer->next_block()});
    return writer->Checkpoint();
  }
  ABSL_RETURN_IF_ERROR(writer->Sync());
  const CommitEffect effect = EffectOf(target, data);
  ABSL_RETURN_IF_ERROR(store.CommitUpload(writer.get(), {.epoch = target.epoch + 1,
                                                         .replaced_ids = &effect.replaced,
                                                         .superseded_rows = effect.superseded}));
  model->Apply({.kind = Operation::Kind::kCommit, .collection = collection, .upload = number});
  return absl::OkStatus();
}

std::vector<File> ReadFiles(const std::string& dir) {
  std::vector<File> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files.emplace_back(entry.path().filename().string(),
                       std::string(std::istreambuf_iterator<char>(file), {}));
  }
  return files;
}

absl::Status WriteFiles(const std::string& dir, const std::vector<File>& files) {
  std::filesystem::remove_all(dir);
  ABSL_RETURN_IF_ERROR(store::MakeDirectory(dir));
  for (const auto& [name, content] : files) {
    std::ofstream(dir + "/" + name, std::ios::binary) << content;
  }
  return absl::OkStatus();
}

// Opens the store in `dir` and compares it with the model.
Outcome Try(const std::string& dir, const Model& model) {
  const auto opened = store::Store::Open(OptionsFor(dir));
  if (!opened.ok()) return Outcome::kDetected;
  const absl::StatusOr<Model> found = Read(**opened, model);
  if (!found.ok()) return Outcome::kDetected;
  std::vector<Operation> happened;
  if (!Compare(*found, model, {}, &happened).none()) return Outcome::kUndetected;
  for (const auto& [token, upload] : model.uploads) {
    const UploadData data =
        UploadData::Make(model.collections.at(upload.collection).spec, upload.number);
    bool same = true;
    const auto resumed = (*opened)->ResumeUpload(
        {.collection_id = (*opened)->Collections().front().id, .token = token},
        [&](const store::StoredBlock& block) {
          const UploadBlockData& expected = data.blocks[static_cast<size_t>(block.number)];
          const absl::Span<const uint8_t> rows = expected.View(block.number).rows;
          same = same && block.rows == rows;
          return absl::OkStatus();
        });
    if (resumed.ok() && !same) return Outcome::kUndetected;
  }
  return Outcome::kHarmless;
}

}  // namespace

absl::StatusOr<DamagedStore> DamagedStore::Make(const std::string& directory) {
  DamagedStore made(directory);
  const std::string name = "c1";
  const std::string dir = directory + "/made";
  {
    ABSL_ASSIGN_OR_RETURN(const auto store, store::Store::Open(OptionsFor(dir)));
    const CollectionSpec spec = {.dim = 3, .row_type = RowType::kFloat16};
    made.model_.collections[name].spec = spec;
    ABSL_RETURN_IF_ERROR(store->CreateCollection(name, spec, "schema").status());
    ABSL_RETURN_IF_ERROR(Upload(*store, &made.model_, name, 12, /*commit=*/true));
    ABSL_RETURN_IF_ERROR(store->SetAlias("alias-1", store->Collections().front().id));
    made.model_.collections[name].aliases.insert("alias-1");
  }
  ABSL_ASSIGN_OR_RETURN(const auto store, store::Store::Open(OptionsFor(dir)));
  ABSL_RETURN_IF_ERROR(Upload(*store, &made.model_, name, 5, /*commit=*/false));
  const IdColumn ids = DeletedBy(made.model_.collections.at(name), 3);
  ABSL_RETURN_IF_ERROR(store->CommitDelete(store->Collections().front().id,
                                           made.model_.collections.at(name).epoch + 1, ids));
  made.model_.Apply({.kind = Operation::Kind::kDelete, .number = 3, .collection = name});
  const ModelCollection& collection = made.model_.collections.at(name);
  const std::vector<UpdateData> updates = UpdatesOf(collection, 4);
  std::vector<std::vector<const std::string*>> pointers;
  ABSL_RETURN_IF_ERROR(store->CommitUpdates(store->Collections().front().id,
                                            ViewsOf(updates, collection.epoch + 1, &pointers)));
  made.model_.Apply({.kind = Operation::Kind::kUpdate, .number = 4, .collection = name});
  made.files_ = ReadFiles(dir);  // while the store is open
  ABSL_RETURN_IF_ERROR(store->Snapshot(directory + "/snapshot"));
  made.snapshot_ = ReadFiles(directory + "/snapshot");
  return made;
}

absl::StatusOr<DamagedStore::Outcome> DamagedStore::Open(const std::vector<File>& files) const {
  const std::string dir = directory_ + "/opened";
  ABSL_RETURN_IF_ERROR(WriteFiles(dir, files));
  return Try(dir, model_);
}

absl::StatusOr<DamagedStore::Outcome> DamagedStore::Restore(const std::vector<File>& files) const {
  const std::string from = directory_ + "/damaged";
  const std::string to = directory_ + "/restored";
  ABSL_RETURN_IF_ERROR(WriteFiles(from, files));
  std::filesystem::remove_all(to);
  if (!store::Store::Restore(from, to).ok()) return Outcome::kDetected;
  Model expected = model_;
  expected.uploads.clear();  // a snapshot leaves open uploads out
  return Try(to, expected);
}

int FlipEveryByte(const std::string& directory, int64_t first, int64_t stride) {
  const auto store = DamagedStore::Make(directory);
  if (!store.ok() ||
      store->Open(store->files()).value_or(Outcome::kDetected) != Outcome::kHarmless) {
    std::fprintf(stderr, "flips: the data set itself is not right: %s\n",
                 store.status().ToString().c_str());
    return kExitUsage;
  }
  const std::vector<File>& files = store->files();
  int64_t counts[3] = {};
  int64_t flips = 0;
  int64_t place = 0;
  for (size_t f = 0; f < files.size(); ++f) {
    for (size_t at = 0; at < files[f].second.size(); ++at) {
      if (place++ % stride != first) continue;
      std::vector<File> changed = files;
      changed[f].second[at] = static_cast<char>(changed[f].second[at] ^ (1 << (place % 8)));
      const absl::StatusOr<Outcome> outcome = store->Open(changed);
      if (!outcome.ok()) return kExitUsage;
      ++flips;
      ++counts[static_cast<size_t>(*outcome)];
      if (*outcome == Outcome::kUndetected) {
        std::fprintf(stderr, "flips: byte %zu of %s: other rows, and no error\n", at,
                     changed[f].first.c_str());
      }
    }
  }
  std::fprintf(stderr, "flips=%lld detected=%lld harmless=%lld undetected=%lld\n",
               static_cast<long long>(flips), static_cast<long long>(counts[0]),
               static_cast<long long>(counts[1]), static_cast<long long>(counts[2]));
  return counts[2] == 0 ? 0 : kExitFindings;
}

}  // namespace nearfield::fault
