// The expected content of the store after the operations of a log, in maps that are independent of
// the store.
//
// Every operation is one line of text. Its effect depends only on that line and on the model before
// it, so one small log holds the whole history and the model of any moment can be rebuilt from it.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "nearfield/engine/bytes_column.h"
#include "nearfield/engine/collection.h"
#include "nearfield/engine/id_column.h"
#include "server/store/stored_types.h"
#include "tests/testing/row_model.h"

namespace nearfield::fault {

using RowModel = testing::RowModel<std::string>;  // the encoded attributes
using ModelRow = RowModel::Row;
using ModelRows = std::map<Id, ModelRow>;

struct ModelCollection : RowModel {
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
    kBegin,       // only for an upload with a token
    kCheckpoint,  // checkpoints the first `count` blocks
    kCommit,
    kDropUpload,
    kDelete,
    kUpdate,
    kAlias,
    kDropAlias,
  };
  Kind kind = Kind::kCreate;
  int64_t number = 0;      // of the operation: seeds its random choices
  std::string collection;  // its name
  int64_t upload = 0;      // number of an upload
  int64_t count = 0;       // blocks of a checkpoint; number of an alias
  uint64_t epoch = 0;      // that a commit or delete makes; 0: the next one

  std::string Line() const;
  static Operation Parse(const std::string& line);
};

struct Model {
  std::map<std::string, ModelCollection> collections;  // by name
  std::map<std::string, ModelUpload> uploads;          // by token

  // Returns true if the operation can be the next one. One whose epoch is already used is refused.
  bool Allows(const Operation& operation) const;
  void Apply(const Operation& operation);
};

// One block of an upload, in the form that the store accepts.
struct UploadBlockData {
  IdColumn ids;
  std::string rows;
  BytesColumn payloads;
  BytesColumn attributes;

  store::StoredBlock View(int64_t number) const;
};

// The data of upload `number` into a collection with this spec; always the same.
struct UploadData {
  store::UploadMode mode = store::UploadMode::kInsert;
  bool has_token = false;
  std::vector<UploadBlockData> blocks;

  RowModel::Upload Rows() const;
  static UploadData Make(const CollectionSpec& spec, int64_t number);
};
std::string TokenOf(int64_t upload);

CollectionSpec SpecOf(int64_t operation);
// The effect of committing these blocks on the existing rows: ids that are replaced, and rows of
// the upload that later rows supersede.
struct CommitEffect {
  IdColumn replaced;
  std::vector<int64_t> superseded;
};
CommitEffect EffectOf(const ModelCollection& collection, const UploadData& upload);
// Returns the live ids that delete operation `number` deletes.
IdColumn DeletedBy(const ModelCollection& collection, int64_t number);

// One update of rows.
struct UpdateData {
  IdColumn ids;
  BytesColumn attributes;  // one for each id, if has_attributes
  bool has_attributes = false;
  std::vector<std::string> payloads;  // one for each id
  std::vector<bool> payload_changed;  // none: all payloads stay

  // Requires: `pointers` outlives the result.
  store::StoredUpdate View(uint64_t epoch, std::vector<const std::string*>* pointers) const;
};
// Returns the updates of operation `number`, each of which makes an epoch.
std::vector<UpdateData> UpdatesOf(const ModelCollection& collection, int64_t number);
// Returns views of updates for one commit, whose epochs begin with `epoch`. *pointers must outlive
// them.
std::vector<store::StoredUpdate> ViewsOf(const std::vector<UpdateData>& updates, uint64_t epoch,
                                         std::vector<std::vector<const std::string*>>* pointers);

// Returns a hash of the content that does not depend on the order of the rows.
uint64_t HashOf(const Model& model);

}  // namespace nearfield::fault
