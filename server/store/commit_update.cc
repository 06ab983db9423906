// Store::CommitUpdates and CommitSchema: changes of rows and of a declaration, in one transaction.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/store.h"
#include "server/store/store_core.h"

namespace nearfield::store {
namespace {

absl::Status CheckUpdate(const CollectionRow& collection, const StoredUpdate& update,
                         int64_t epoch) {
  if (static_cast<int64_t>(update.epoch) != epoch) {
    return absl::FailedPreconditionError(
        absl::StrCat("epoch: ", update.epoch, "; the update's epoch must be ", epoch));
  }
  const int64_t rows = update.ids->size();
  if (rows < 1 || rows > collection.rows_live || update.ids->type() != collection.spec.id_type ||
      (update.attributes != nullptr && update.attributes->size() != rows) ||
      (!update.payloads.empty() && static_cast<int64_t>(update.payloads.size()) != rows) ||
      static_cast<int64_t>(update.token.size()) > kTokenBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("update of ", rows, " rows of ",
                                                   collection.rows_live,
                                                   ": its columns contradict each other"));
  }
  return absl::OkStatus();
}

// Appends the update's rows to the record; puts it into the transaction when it is large.
void AppendRows(const StoreCore& core, int64_t collection, const StoredUpdate& update,
                PatchRecord* record, Transaction* transaction)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
  for (int64_t row = 0; row < update.ids->size(); ++row) {
    RowPatch patch;
    if (update.attributes != nullptr) {
      patch.attributes_seq = static_cast<int64_t>(update.epoch);
      patch.attributes = std::string(update.attributes->at(row));
    }
    if (!update.payloads.empty() && update.payloads[static_cast<size_t>(row)] != nullptr) {
      patch.payload_seq = static_cast<int64_t>(update.epoch);
      patch.payload = *update.payloads[static_cast<size_t>(row)];
    }
    if (patch.attributes_seq == 0 && patch.payload_seq == 0) continue;
    core.PutPatch(collection, *update.ids, row, patch, record, transaction);
  }
}

// Puts the token of an update into the transaction, and forgets the oldest ones beyond the limits.
class TokenWriter {
 public:
  TokenWriter(const StoreCore& core, int64_t collection, Transaction* transaction)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex)
      : collection_(collection), transaction_(transaction) {
    const UpdateTokens::ByNumber& all = core.catalog->tables().update_tokens.by_number();
    oldest_ = all.lower_bound({collection, 0});
    end_ = all.lower_bound({collection + 1, 0});
    if (oldest_ == end_) return;
    const auto* const last = core.catalog->tables().Find<UpdateTokenRow>(std::prev(end_)->second);
    number_ = last->number;
    bytes_sum_ = last->bytes_sum;
  }

  void Put(const StoreCore& core, const std::string& token, std::string reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(core.mutex) {
    number_ += 1;
    bytes_sum_ += static_cast<int64_t>(reply.size());
    transaction_->PutRecord(UpdateTokenRow{.id = core.catalog->AllocateId(),
                                           .collection = collection_,
                                           .token = token,
                                           .number = number_,
                                           .bytes_sum = bytes_sum_},
                            std::move(reply));
    for (; oldest_ != end_; ++oldest_) {
      const auto* const row = core.catalog->tables().Find<UpdateTokenRow>(oldest_->second);
      if (row->number > number_ - kUpdateTokensMax &&
          row->bytes_sum > bytes_sum_ - kUpdateReplyBytesMax) {
        return;
      }
      transaction_->Remove<UpdateTokenRow>(row->id);
    }
  }

 private:
  const int64_t collection_;
  Transaction* const transaction_;
  UpdateTokens::ByNumber::const_iterator oldest_;
  UpdateTokens::ByNumber::const_iterator end_;
  int64_t number_ = 0;
  int64_t bytes_sum_ = 0;
};

}  // namespace

void StoreCore::PutPatch(int64_t collection, const IdColumn& ids, int64_t index,
                         const RowPatch& patch, PatchRecord* record,
                         Transaction* transaction) const {
  record->Append(ids, index, patch);
  if (record->bytes() >= kRecordBytesMax) FlushPatches(collection, record, transaction);
}

void StoreCore::FlushPatches(int64_t collection, PatchRecord* record,
                             Transaction* transaction) const {
  if (record->rows_count() == 0) return;
  std::string bytes = record->Encode();
  PatchRow row = {.id = catalog->AllocateId(),
                  .collection = collection,
                  .rows = record->rows_count(),
                  .bytes = static_cast<int64_t>(bytes.size())};
  transaction->PutRecord(std::move(row), std::move(bytes));
  *record = PatchRecord(record->type());
}

absl::Status Store::CommitUpdates(int64_t collection_id, absl::Span<const StoredUpdate> updates) {
  CHECK(!updates.empty());
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    const MutexLock lock(core_->mutex);
    ABSL_ASSIGN_OR_RETURN(CollectionRow collection, core_->Find(collection_id));
    Transaction transaction;
    PatchRecord record(collection.spec.id_type);
    TokenWriter tokens(*core_, collection_id, &transaction);
    for (const StoredUpdate& update : updates) {
      ABSL_RETURN_IF_ERROR(CheckUpdate(collection, update, collection.epoch + 1));
      collection.epoch += 1;
      AppendRows(*core_, collection_id, update, &record, &transaction);
      if (!update.token.empty()) tokens.Put(*core_, update.token, update.reply);
    }
    core_->FlushPatches(collection_id, &record, &transaction);
    ABSL_RETURN_IF_ERROR(
        CheckRoom(*core_->directory, transaction.body_bytes(), core_->options.free_bytes_min));
    const CommitNote note = {
        .kind = CommitKind::kUpdate, .collection = collection_id, .epoch = collection.epoch};
    transaction.Put(std::move(collection));
    return core_->Commit(std::move(transaction), note);
  });
}

absl::Status Store::CommitSchema(int64_t collection_id, uint64_t epoch,
                                 const std::string& attribute_schema) {
  return CatchOutOfMemory([&]() -> absl::Status {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    const MutexLock lock(core_->mutex);
    ABSL_ASSIGN_OR_RETURN(CollectionRow collection, core_->Find(collection_id));
    if (static_cast<int64_t>(epoch) != collection.epoch + 1 ||
        static_cast<int64_t>(attribute_schema.size()) > kSchemaBytesMax) {
      return absl::FailedPreconditionError(
          absl::StrCat("schema of ", attribute_schema.size(), " bytes at epoch ", epoch,
                       "; the commit's epoch must be ", collection.epoch + 1));
    }
    collection.epoch += 1;
    collection.schema = attribute_schema;
    const CommitNote note = {
        .kind = CommitKind::kSchema, .collection = collection_id, .epoch = collection.epoch};
    Transaction transaction;
    transaction.Put(std::move(collection));
    return core_->Commit(std::move(transaction), note);
  });
}

absl::StatusOr<std::optional<std::string>> Store::FindUpdate(const UploadKey& key) const {
  return CatchOutOfMemory([&]() -> absl::StatusOr<std::optional<std::string>> {
    ABSL_RETURN_IF_ERROR(core_->Usable());
    const MutexLock lock(core_->mutex);
    const Tables& tables = core_->catalog->tables();
    const int64_t* const id = tables.update_tokens.Find(key.collection_id, key.token);
    if (id == nullptr) return std::nullopt;
    return core_->catalog->ReadBody(*tables.Find<UpdateTokenRow>(*id));
  });
}

}  // namespace nearfield::store
