#include "tests/fault/crash_model.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "tests/testing/random.h"

namespace nearfield::fault {
namespace {

using testing::Random;
using testing::Scramble;

constexpr int64_t kPoolIds = 60;         // ids that upserts share
constexpr int64_t kUploadIdsMax = 4096;  // fresh ids of one upload

Random RandomFor(int64_t number, uint64_t salt) {
  return Random(Scramble(static_cast<uint64_t>(number) * 2 + salt * 0x10001));
}

void AppendId(int64_t value, IdColumn* ids) {
  if (ids->type() == IdType::kUint64) {
    ids->AppendNumber(Scramble(static_cast<uint64_t>(value)));
  } else {
    ids->AppendString("id-" + std::to_string(value) +
                      std::string(static_cast<size_t>(value % 23), 'x'));
  }
}

std::string Bytes(Random& random, int64_t count) {
  std::string bytes;
  while (static_cast<int64_t>(bytes.size()) < count) {
    bytes.push_back(static_cast<char>(random.Bits() >> 56));
  }
  return bytes;
}

// Appends an empty value if `bytes_max` is 0, else one of random length, which may be zero.
void AppendValue(Random& random, int64_t bytes_max, BytesColumn* values) {
  values->Append(bytes_max == 0 ? "" : Bytes(random, random.Between(0, bytes_max)));
}

uint64_t Mix(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return Scramble(hash ^ text.size());
}

std::string Text(const Id& id) {
  const uint64_t* const number = std::get_if<uint64_t>(&id);
  return number != nullptr ? std::to_string(*number) : *std::get_if<std::string>(&id);
}

}  // namespace

std::string TokenOf(int64_t upload) { return "token-" + std::to_string(upload); }

CollectionSpec SpecOf(int64_t operation) {
  Random random = RandomFor(operation, 1);
  CollectionSpec spec;
  spec.dim = static_cast<int32_t>(random.Between(1, 20));
  spec.metric = static_cast<Metric>(random.Between(1, 4));
  spec.row_type = static_cast<RowType>(random.Between(1, 4));
  spec.id_type = random.OneIn(3) ? IdType::kString : IdType::kUint64;
  return spec;
}

store::StoredBlock UploadBlockData::View(int64_t number) const {
  return {.number = number,
          .ids = &ids,
          .rows = {reinterpret_cast<const uint8_t*>(rows.data()), rows.size()},
          .payloads = &payloads,
          .attributes = &attributes};
}

UploadData UploadData::Make(const CollectionSpec& spec, int64_t number) {
  Random random = RandomFor(number, 2);
  UploadData upload;
  const int64_t mode = random.Between(0, 10);
  upload.mode = mode < 4   ? store::UploadMode::kInsert
                : mode < 9 ? store::UploadMode::kUpsert
                           : store::UploadMode::kReplace;
  upload.has_token = random.OneIn(2);
  const int64_t row_bytes = int64_t{spec.dim} * BytesPerElement(spec.row_type);
  int64_t fresh = number * kUploadIdsMax + kPoolIds;
  const int64_t blocks_count = random.Between(1, 5);
  for (int64_t b = 0; b < blocks_count; ++b) {
    UploadBlockData block = {.ids = IdColumn(spec.id_type)};
    const int64_t rows_count = random.OneIn(8) ? random.Between(100, 400) : random.Between(1, 30);
    const int64_t payload_bytes = random.OneIn(3) ? 0 : random.Between(1, 60);
    const int64_t attribute_bytes = random.OneIn(2) ? 0 : random.Between(1, 30);
    for (int64_t i = 0; i < rows_count; ++i) {
      const bool shared = upload.mode == store::UploadMode::kUpsert && !random.OneIn(4);
      AppendId(shared ? random.Between(0, kPoolIds) : fresh++, &block.ids);
      AppendValue(random, payload_bytes, &block.payloads);
      AppendValue(random, attribute_bytes, &block.attributes);
    }
    block.rows = Bytes(random, rows_count * row_bytes);
    upload.blocks.push_back(std::move(block));
  }
  return upload;
}

RowModel::Upload UploadData::Rows() const {
  RowModel::Upload upload;
  for (const UploadBlockData& block : blocks) {
    const size_t row_bytes = block.rows.size() / static_cast<size_t>(block.ids.size());
    for (int64_t i = 0; i < block.ids.size(); ++i) {
      upload.emplace_back(
          block.ids.at(i),
          ModelRow{.vector = block.rows.substr(static_cast<size_t>(i) * row_bytes, row_bytes),
                   .payload = std::string(block.payloads.at(i)),
                   .attributes = std::string(block.attributes.at(i))});
    }
  }
  return upload;
}

CommitEffect EffectOf(const ModelCollection& collection, const UploadData& upload) {
  CommitEffect effect = {.replaced = IdColumn(collection.spec.id_type)};
  std::map<Id, int64_t> last;
  int64_t place = 0;
  for (const UploadBlockData& block : upload.blocks) {
    for (int64_t i = 0; i < block.ids.size(); ++i) {
      const auto [it, is_new] = last.try_emplace(block.ids.at(i), place);
      if (!is_new) effect.superseded.push_back(it->second);
      it->second = place++;
    }
  }
  std::sort(effect.superseded.begin(), effect.superseded.end());
  if (upload.mode != store::UploadMode::kUpsert) return effect;
  for (const auto& [id, where] : last) {
    if (collection.rows.count(id) > 0) effect.replaced.Append(id);
  }
  return effect;
}

IdColumn DeletedBy(const ModelCollection& collection, int64_t number) {
  Random random = RandomFor(number, 3);
  const int64_t odds = random.OneIn(6) ? 2 : random.Between(4, 40);
  IdColumn ids(collection.spec.id_type);
  for (const auto& [id, row] : collection.rows) {
    if (random.OneIn(odds)) ids.Append(id);
  }
  if (ids.empty() && !collection.rows.empty()) ids.Append(collection.rows.begin()->first);
  return ids;
}

std::vector<UpdateData> UpdatesOf(const ModelCollection& collection, int64_t number) {
  Random random = RandomFor(number, 4);
  std::vector<UpdateData> updates;
  if (collection.rows.empty()) return updates;
  for (int64_t count = random.Between(1, 4); count > 0; --count) {
    UpdateData update = {.ids = IdColumn(collection.spec.id_type)};
    const int64_t odds = random.OneIn(6) ? 2 : random.Between(4, 40);
    for (const auto& [id, row] : collection.rows) {
      if (random.OneIn(odds)) update.ids.Append(id);
    }
    if (update.ids.empty()) update.ids.Append(collection.rows.begin()->first);
    update.has_attributes = random.OneIn(2);
    const bool has_payloads = !update.has_attributes || random.OneIn(2);
    for (int64_t row = 0; row < update.ids.size(); ++row) {
      if (update.has_attributes) AppendValue(random, 30, &update.attributes);
      if (!has_payloads) continue;
      update.payloads.push_back(Bytes(random, random.Between(0, 60)));
      update.payload_changed.push_back(random.OneIn(2));
    }
    updates.push_back(std::move(update));
  }
  return updates;
}

store::StoredUpdate UpdateData::View(uint64_t epoch,
                                     std::vector<const std::string*>* pointers) const {
  pointers->clear();
  for (size_t row = 0; row < payloads.size(); ++row) {
    pointers->push_back(payload_changed[row] ? &payloads[row] : nullptr);
  }
  return {.epoch = epoch,
          .ids = &ids,
          .attributes = has_attributes ? &attributes : nullptr,
          .payloads = *pointers};
}

std::vector<store::StoredUpdate> ViewsOf(const std::vector<UpdateData>& updates, uint64_t epoch,
                                         std::vector<std::vector<const std::string*>>* pointers) {
  pointers->resize(updates.size());
  std::vector<store::StoredUpdate> views;
  for (size_t i = 0; i < updates.size(); ++i) {
    views.push_back(updates[i].View(epoch + i, &(*pointers)[i]));
  }
  return views;
}

std::string Operation::Line() const {
  std::ostringstream line;
  line << number << ' ' << static_cast<int>(kind) << ' ' << upload << ' ' << count << ' ' << epoch
       << ' ' << (collection.empty() ? "-" : collection);
  return line.str();
}

Operation Operation::Parse(const std::string& line) {
  std::istringstream words(line);
  Operation operation;
  int kind = 0;
  words >> operation.number >> kind >> operation.upload >> operation.count >> operation.epoch >>
      operation.collection;
  operation.kind = static_cast<Kind>(kind);
  return operation;
}

bool Model::Allows(const Operation& operation) const {
  if (operation.epoch == 0) return true;
  const auto it = collections.find(operation.collection);
  return it != collections.end() && it->second.epoch + 1 == operation.epoch;
}

void Model::Apply(const Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::kCreate:
      collections[operation.collection].spec = SpecOf(operation.number);
      return;
    case Operation::Kind::kDrop:
      collections.erase(operation.collection);
      for (auto it = uploads.begin(); it != uploads.end();) {
        it = it->second.collection == operation.collection ? uploads.erase(it) : std::next(it);
      }
      return;
    case Operation::Kind::kBegin:
      uploads[TokenOf(operation.upload)] = {.collection = operation.collection,
                                            .number = operation.upload};
      return;
    case Operation::Kind::kCheckpoint:
      uploads[TokenOf(operation.upload)].next_block = operation.count;
      return;
    case Operation::Kind::kDropUpload: uploads.erase(TokenOf(operation.upload)); return;
    case Operation::Kind::kAlias:
      for (auto& [name, collection] : collections) {
        collection.aliases.erase("alias-" + std::to_string(operation.count));
      }
      collections[operation.collection].aliases.insert("alias-" + std::to_string(operation.count));
      return;
    case Operation::Kind::kDropAlias:
      collections[operation.collection].aliases.erase("alias-" + std::to_string(operation.count));
      return;
    case Operation::Kind::kDelete: {
      ModelCollection& collection = collections[operation.collection];
      // The store makes an epoch of every deletion, also of one without rows.
      if (collection.Delete(DeletedBy(collection, operation.number)) == 0) ++collection.epoch;
      return;
    }
    case Operation::Kind::kUpdate: {
      ModelCollection& collection = collections[operation.collection];
      for (const UpdateData& update : UpdatesOf(collection, operation.number)) {
        for (int64_t i = 0; i < update.ids.size(); ++i) {
          ModelRow& row = collection.rows.at(update.ids.at(i));
          const auto place = static_cast<size_t>(i);
          if (update.has_attributes) row.attributes = std::string(update.attributes.at(i));
          if (!update.payloads.empty() && update.payload_changed[place]) {
            row.payload = update.payloads[place];
          }
        }
        ++collection.epoch;
      }
      return;
    }
    case Operation::Kind::kCommit: break;
  }
  ModelCollection& collection = collections[operation.collection];
  const UploadData upload = UploadData::Make(collection.spec, operation.upload);
  collection.Commit(upload.mode, upload.Rows());
  if (const auto it = uploads.find(TokenOf(operation.upload)); it != uploads.end()) {
    it->second.state = store::UploadState::kCommitted;
    it->second.next_block = static_cast<int64_t>(upload.blocks.size());
    it->second.epoch = collection.epoch;
  }
}

uint64_t HashOf(const Model& model) {
  uint64_t sum = 0;
  for (const auto& [name, collection] : model.collections) {
    const uint64_t named = Mix(collection.epoch, name);
    sum += named;
    for (const auto& [id, row] : collection.rows) {
      sum += Mix(Mix(Mix(Mix(named, Text(id)), row.vector), row.payload), row.attributes);
    }
  }
  return sum;
}

}  // namespace nearfield::fault
