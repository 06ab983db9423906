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

using File = std::pair<std::string, std::string>;  // name, content

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

// Makes a few commits of every kind and returns the files as a kill would leave them: read while
// the store is open.
absl::StatusOr<std::vector<File>> MakeDataSet(const std::string& dir, Model* model) {
  const std::string name = "c1";
  {
    ABSL_ASSIGN_OR_RETURN(const auto store, store::Store::Open(OptionsFor(dir)));
    const CollectionSpec spec = {.dim = 3, .row_type = RowType::kFloat16};
    model->collections[name].spec = spec;
    ABSL_RETURN_IF_ERROR(store->CreateCollection(name, spec, "schema").status());
    ABSL_RETURN_IF_ERROR(Upload(*store, model, name, 12, /*commit=*/true));
    ABSL_RETURN_IF_ERROR(store->SetAlias("alias-1", store->Collections().front().id));
    model->collections[name].aliases.insert("alias-1");
  }
  ABSL_ASSIGN_OR_RETURN(const auto store, store::Store::Open(OptionsFor(dir)));
  ABSL_RETURN_IF_ERROR(Upload(*store, model, name, 5, /*commit=*/false));
  const IdColumn ids = DeletedBy(model->collections.at(name), 3);
  ABSL_RETURN_IF_ERROR(store->CommitDelete(store->Collections().front().id,
                                           model->collections.at(name).epoch + 1, ids));
  model->Apply({.kind = Operation::Kind::kDelete, .number = 3, .collection = name});
  return ReadFiles(dir);
}

absl::Status WriteFiles(const std::string& dir, const std::vector<File>& files) {
  ABSL_RETURN_IF_ERROR(store::RemoveDirectory(dir));
  ABSL_RETURN_IF_ERROR(store::MakeDirectory(dir));
  for (const auto& [name, content] : files) {
    std::ofstream(dir + "/" + name, std::ios::binary) << content;
  }
  return absl::OkStatus();
}

enum class Outcome { kDetected, kHarmless, kUndetected };

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
    const auto resumed = (*opened)->ResumeUpload(token, [&](const store::StoredBlock& block) {
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

int FlipEveryByte(const std::string& directory, int64_t first, int64_t stride) {
  Model model;
  const auto files = MakeDataSet(directory + "/made", &model);
  const std::string dir = directory + "/flipped";
  if (!files.ok() || !WriteFiles(dir, *files).ok() || Try(dir, model) != Outcome::kHarmless) {
    std::fprintf(stderr, "flips: the data set itself is not right: %s\n",
                 files.status().ToString().c_str());
    return kExitUsage;
  }
  int64_t counts[3] = {};
  int64_t flips = 0;
  int64_t place = 0;
  for (size_t f = 0; f < files->size(); ++f) {
    for (size_t at = 0; at < (*files)[f].second.size(); ++at) {
      if (place++ % stride != first) continue;
      std::vector<File> changed = *files;
      changed[f].second[at] = static_cast<char>(changed[f].second[at] ^ (1 << (place % 8)));
      if (!WriteFiles(dir, changed).ok()) return kExitUsage;
      const Outcome outcome = Try(dir, model);
      ++flips;
      ++counts[static_cast<size_t>(outcome)];
      if (outcome == Outcome::kUndetected) {
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
