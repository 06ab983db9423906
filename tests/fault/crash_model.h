// What the store must hold after the operations of a log: written down in maps, beside the store.
//
// Every operation is a line of text and its effect a function of that line and of the model before
// it, so the whole history is one small log and the model of any moment can be built from it.
#ifndef NEARFIELD_TESTS_FAULT_CRASH_MODEL_H_
#define NEARFIELD_TESTS_FAULT_CRASH_MODEL_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/id_column.h"
#include "server/store/stored_types.h"

namespace nearfield::fault {

struct ModelRow {
  std::string vector;
  std::string payload;
  std::string attributes;

  bool operator==(const ModelRow& other) const {
    return vector == other.vector && payload == other.payload && attributes == other.attributes;
  }
};

using ModelRows = std::map<Id, ModelRow>;

struct ModelCollection {
  CollectionSpec spec;
  uint64_t epoch = 0;
  ModelRows rows;
  std::set<std::string> aliases;
};

struct ModelUpload {  // with a token
  std::string collection;
  int64_t number = 0;
  store::UploadState state = store::UploadState::kOpen;
  int64_t next_block = 0;
  uint64_t epoch = 0;
};

struct Operation {
  enum class Kind : uint8_t {
    kCreate,
    kDrop,
    kBegin,       // of an upload with a token
    kCheckpoint,  // of the first `count` blocks
    kCommit,
    kDropUpload,
    kDelete,
    kAlias,
    kDropAlias,
  };
  Kind kind = Kind::kCreate;
  int64_t number = 0;      // of the operation: draws what is random in it
  std::string collection;  // its name
  int64_t upload = 0;      // number of an upload
  int64_t count = 0;
  uint64_t epoch = 0;  // that a commit or delete makes; 0: the next one, whichever it is

  std::string Line() const;
  static Operation Parse(const std::string& line);
};

struct Model {
  std::map<std::string, ModelCollection> collections;  // by name
  std::map<std::string, ModelUpload> uploads;          // by token

  // Reports whether the operation can be the next one. One whose epoch was given away is refused.
  bool Allows(const Operation& operation) const;
  void Apply(const Operation& operation);
};

// One block of an upload, as the store takes it.
struct UploadBlockData {
  IdColumn ids;
  std::string rows;
  BytesColumn payloads;
  BytesColumn attributes;

  store::StoredBlock View(int64_t number) const;
};

// Upload `number` into a collection with this spec: always the same.
struct UploadData {
  store::UploadMode mode = store::UploadMode::kInsert;
  bool has_token = false;
  std::vector<UploadBlockData> blocks;

  static UploadData Make(const CollectionSpec& spec, int64_t number);
};
std::string TokenOf(int64_t upload);

CollectionSpec SpecOf(int64_t operation);
// What a commit of these blocks does to the rows there: which ids it replaces, which of its own
// rows later ones supersede.
struct CommitEffect {
  IdColumn replaced;
  std::vector<int64_t> superseded;
};
CommitEffect EffectOf(const ModelCollection& collection, const UploadData& upload);
// The live ids that delete operation `number` takes.
IdColumn DeletedBy(const ModelCollection& collection, int64_t number);

// The same for the same rows, in whatever order they came.
uint64_t HashOf(const Model& model);

}  // namespace nearfield::fault

#endif  // NEARFIELD_TESTS_FAULT_CRASH_MODEL_H_
