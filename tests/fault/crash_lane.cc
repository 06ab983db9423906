#include "tests/fault/crash_lane.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace nearfield::fault {
namespace {

constexpr int64_t kCollectionsMax = 3;
constexpr int64_t kRowsMax = 1500;  // per collection; above it, deletes are more frequent
constexpr size_t kUploadsMax = 3;
constexpr int64_t kAliases = 4;       // per lane
constexpr char kShared[] = "shared";  // the collection that all lanes change

bool SameBlock(const store::StoredBlock& a, const store::StoredBlock& b) {
  if (a.number != b.number || a.ids->size() != b.ids->size() || a.rows != b.rows) return false;
  for (int64_t i = 0; i < a.ids->size(); ++i) {
    if (a.ids->Compare(i, *b.ids, i) != 0 || a.payloads->at(i) != b.payloads->at(i) ||
        a.attributes->at(i) != b.attributes->at(i)) {
      return false;
    }
  }
  return true;
}

// Returns OK for a full disk, which is not an error of the store.
absl::Status OkIfFull(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

}  // namespace

CrashLane::CrashLane(const SessionOptions& options, int64_t lane, store::Store* store,
                     CrashLog* log, std::shared_mutex* gate)
    : options_(options),
      lane_(lane),
      store_(store),
      log_(log),
      gate_(gate),
      random_(lane == 0 ? options.seed
                        : testing::Scramble(options.seed + static_cast<uint64_t>(lane))) {}

int64_t CrashLane::IdOf(const std::string& collection) const {
  for (const store::StoredCollection& stored : store_->Collections()) {
    if (stored.name == collection) return stored.id;
  }
  return 0;
}

CrashLane::Choice CrashLane::Choose() const {
  return log_->With([&](const Model& model) {
    Choice choice;
    for (const auto& [name, collection] : model.collections) {
      const bool is_shared = name == kShared;
      const bool is_own = !is_shared && std::stoll(name.substr(1)) % log_->lanes() == lane_;
      if (is_shared) choice.shared = name;
      if (is_own) choice.own.push_back(name);
      const bool is_large = static_cast<int64_t>(collection.rows.size()) > kRowsMax;
      if ((is_own || is_shared) && is_large && choice.large.empty()) choice.large = name;
    }
    return choice;
  });
}

std::string CrashLane::AnyCollection() {
  Choice choice = Choose();
  if (!choice.shared.empty()) choice.own.push_back(choice.shared);
  if (choice.own.empty()) return "";
  return choice
      .own[static_cast<size_t>(random_.Between(0, static_cast<int64_t>(choice.own.size())))];
}

std::optional<ModelCollection> CrashLane::Copy(const std::string& name) const {
  return log_->With([&name](const Model& model) {
    const auto it = model.collections.find(name);
    return it != model.collections.end() ? std::optional(it->second) : std::nullopt;
  });
}

CollectionSpec CrashLane::SpecOfCollection(const std::string& name) const {
  return log_->With([&name](const Model& model) { return model.collections.at(name).spec; });
}

absl::Status CrashLane::Resume(const ModelUpload& upload, Findings* findings) {
  const std::string token = TokenOf(upload.number);
  OpenUpload open = {.number = upload.number,
                     .collection = upload.collection,
                     .data = UploadData::Make(SpecOfCollection(upload.collection), upload.number)};
  int64_t blocks = 0;
  ABSL_ASSIGN_OR_RETURN(
      open.writer,
      store_->ResumeUpload({.collection_id = IdOf(upload.collection), .token = token},
                           [&](const store::StoredBlock& block) {
                             const auto place = static_cast<size_t>(block.number);
                             if (block.number != blocks++ || place >= open.data.blocks.size() ||
                                 !SameBlock(block, open.data.blocks[place].View(block.number))) {
                               findings->Add(&findings->wrong, 1,
                                             absl::StrCat(token, ": a block has other bytes"));
                             }
                             return absl::OkStatus();
                           }));
  if (blocks != upload.next_block) {
    findings->Add(&findings->lost, 1, absl::StrCat(token, ": blocks are not there"));
  }
  uploads_.push_back(std::move(open));
  return absl::OkStatus();
}

// Holds the gate shared during the operation, so that a snapshot contains only whole operations.
template <typename Run>
absl::Status CrashLane::Do(const Operation& operation, Run run) {
  const std::shared_lock gate(*gate_);
  log_->Try(operation);
  const bool early = options_.acknowledges_early;
  if (early) log_->Acknowledge(operation.number);
  const absl::Status status = Counted(run);
  if (!status.ok() && (Excused(status).ok() || Overtaken(operation, status))) {
    if (!early) log_->Refuse(operation.number);
    return absl::OkStatus();
  }
  if (status.ok() && !early) log_->Acknowledge(operation.number);
  return status;
}

// Returns true if another lane committed to the shared collection after this operation was drawn.
// Then its epoch is used, or it deletes more ids than there are rows.
bool CrashLane::Overtaken(const Operation& operation, const absl::Status& status) const {
  const bool refused = absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
  if (!refused || operation.collection != kShared) return false;
  for (const store::StoredCollection& stored : store_->Collections()) {
    if (stored.name == kShared) return operation.epoch > 0 && stored.epoch >= operation.epoch;
  }
  return false;
}

absl::Status CrashLane::Create(bool shared) {
  Operation operation = {.kind = Operation::Kind::kCreate, .number = log_->NextNumber(lane_)};
  operation.collection = shared ? kShared : absl::StrCat("c", operation.number);
  return Do(operation, [&] {
    return store_->CreateCollection(operation.collection, SpecOf(operation.number), "schema")
        .status();
  });
}

absl::Status CrashLane::Drop() {
  const std::string name = AnyCollection();
  if (name.empty() || name == kShared) return absl::OkStatus();
  const int64_t id = IdOf(name);
  const Operation operation = {
      .kind = Operation::Kind::kDrop, .number = log_->NextNumber(lane_), .collection = name};
  ABSL_RETURN_IF_ERROR(Do(operation, [&] { return store_->DropCollection(id); }));
  if (Copy(name).has_value()) return absl::OkStatus();  // refused
  for (OpenUpload& upload : uploads_) {
    if (upload.collection != name) continue;
    if (!absl::IsAborted(store_->CommitUpload(upload.writer.get(), {.epoch = 1}))) {
      return absl::InternalError("an upload into a dropped collection was not aborted");
    }
  }
  uploads_.erase(std::remove_if(uploads_.begin(), uploads_.end(),
                                [&name](const auto& upload) { return upload.collection == name; }),
                 uploads_.end());
  return absl::OkStatus();
}

absl::Status CrashLane::Begin() {
  const std::string name = AnyCollection();
  if (name.empty() || uploads_.size() >= kUploadsMax) return absl::OkStatus();
  OpenUpload open = {.number = log_->NextNumber(lane_), .collection = name};
  open.data = UploadData::Make(SpecOfCollection(name), open.number);
  store::BeginUploadOptions options = {.mode = open.data.mode};
  options.bytes_expected = random_.OneIn(2) ? 0 : random_.Between(0, 100'000);
  const auto begin = [&]() -> absl::Status {
    ABSL_ASSIGN_OR_RETURN(open.writer, store_->BeginUpload(IdOf(name), options));
    return absl::OkStatus();
  };
  if (open.data.has_token) {
    options.token = TokenOf(open.number);
    const Operation operation = {.kind = Operation::Kind::kBegin,
                                 .number = open.number,
                                 .collection = name,
                                 .upload = open.number};
    ABSL_RETURN_IF_ERROR(Do(operation, begin));
  } else {
    ABSL_RETURN_IF_ERROR(Excused(Counted(begin)));
  }
  if (open.writer != nullptr) uploads_.push_back(std::move(open));
  return absl::OkStatus();
}

absl::Status CrashLane::AppendSome() {
  if (uploads_.empty()) return Begin();
  const auto place = static_cast<size_t>(random_.Bits() % uploads_.size());
  OpenUpload& upload = uploads_[place];
  const auto next = static_cast<size_t>(upload.writer->next_block());
  if (next >= upload.data.blocks.size()) return Commit();
  const absl::Status appended = Counted([&] {
    return upload.writer->Append(upload.data.blocks[next].View(static_cast<int64_t>(next)));
  });
  // A full disk ends the upload; one with a token is resumed in the next life.
  if (absl::IsResourceExhausted(appended)) {
    uploads_.erase(uploads_.begin() + static_cast<int64_t>(place));
  }
  return OkIfFull(appended);
}

absl::Status CrashLane::Checkpoint() {
  for (OpenUpload& upload : uploads_) {
    if (!upload.data.has_token) continue;
    const Operation operation = {.kind = Operation::Kind::kCheckpoint,
                                 .number = log_->NextNumber(lane_),
                                 .collection = upload.collection,
                                 .upload = upload.number,
                                 .count = upload.writer->next_block()};
    return Do(operation, [&] { return upload.writer->Checkpoint(); });
  }
  return absl::OkStatus();
}

absl::Status CrashLane::Commit() {
  const auto whole = std::find_if(uploads_.begin(), uploads_.end(), [](const auto& upload) {
    return upload.writer->next_block() == static_cast<int64_t>(upload.data.blocks.size());
  });
  if (whole == uploads_.end()) return absl::OkStatus();
  OpenUpload upload = std::move(*whole);
  uploads_.erase(whole);
  const absl::Status synced = Counted([&] { return upload.writer->Sync(); });
  if (!synced.ok()) return OkIfFull(synced);  // one with a token is resumed in the next life
  const ModelCollection collection = *Copy(upload.collection);
  const CommitEffect effect = EffectOf(collection, upload.data);
  const store::UploadCommit commit = {.epoch = collection.epoch + 1,
                                      .replaced_ids = &effect.replaced,
                                      .superseded_rows = effect.superseded};
  const Operation operation = {.kind = Operation::Kind::kCommit,
                               .number = log_->NextNumber(lane_),
                               .collection = upload.collection,
                               .upload = upload.number,
                               .epoch = commit.epoch};
  return Do(operation, [&] { return store_->CommitUpload(upload.writer.get(), commit); });
}

absl::Status CrashLane::EndUpload() {
  if (uploads_.empty()) return absl::OkStatus();
  OpenUpload ended = std::move(uploads_.back());
  uploads_.pop_back();
  if (!ended.data.has_token) return absl::OkStatus();
  {
    const CountAllocations count;
    ended.writer.reset();
  }
  const Operation operation = {.kind = Operation::Kind::kDropUpload,
                               .number = log_->NextNumber(lane_),
                               .collection = ended.collection,
                               .upload = ended.number};
  return Do(operation, [&] {
    return store_
        ->DropUpload({.collection_id = IdOf(ended.collection), .token = TokenOf(ended.number)})
        .status();
  });
}

absl::Status CrashLane::Delete(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  const ModelCollection collection = *Copy(name);
  if (collection.rows.empty()) return absl::OkStatus();
  const Operation operation = {.kind = Operation::Kind::kDelete,
                               .number = log_->NextNumber(lane_),
                               .collection = name,
                               .epoch = collection.epoch + 1};
  const IdColumn ids = DeletedBy(collection, operation.number);
  return Do(operation, [&] { return store_->CommitDelete(IdOf(name), operation.epoch, ids); });
}

absl::Status CrashLane::Update(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  const ModelCollection collection = *Copy(name);
  const Operation operation = {.kind = Operation::Kind::kUpdate,
                               .number = log_->NextNumber(lane_),
                               .collection = name,
                               .epoch = collection.epoch + 1};
  const std::vector<UpdateData> updates = UpdatesOf(collection, operation.number);
  if (updates.empty()) return absl::OkStatus();
  std::vector<std::vector<const std::string*>> pointers;
  const auto views = ViewsOf(updates, operation.epoch, &pointers);
  return Do(operation, [&] { return store_->CommitUpdates(IdOf(name), views); });
}

absl::Status CrashLane::Alias() {
  const std::string name = AnyCollection();
  if (name.empty()) return absl::OkStatus();
  const ModelCollection collection = *Copy(name);
  Operation operation = {.kind = Operation::Kind::kAlias,
                         .number = log_->NextNumber(lane_),
                         .collection = name,
                         .count = lane_ * kAliases + random_.Between(0, kAliases)};
  const std::string alias = absl::StrCat("alias-", operation.count);
  if (collection.aliases.count(alias) > 0) {
    operation.kind = Operation::Kind::kDropAlias;
    return Do(operation, [&] { return store_->DropAlias(alias); });
  }
  return Do(operation, [&] { return store_->SetAlias(alias, IdOf(name)); });
}

absl::Status CrashLane::Compact() {
  const std::string name = AnyCollection();
  if (name.empty()) return absl::OkStatus();
  absl::Status nested;
  store::CompactOptions options = {.small_bytes_max = random_.OneIn(2) ? int64_t{1} << 20 : 0,
                                   .small_segments_min = 3};
  // Commits must work during a compaction: run one in the middle of it, on the same thread.
  options.cancelled = [&] {
    const CountAllocations pause(CountAllocations::Mode::kPause);
    if (nested.ok() && random_.OneIn(4)) nested = random_.OneIn(2) ? Delete(name) : Update(name);
    return !nested.ok();
  };
  const absl::Status compacted =
      Counted([&] { return store_->Compact(IdOf(name), options).status(); });
  ABSL_RETURN_IF_ERROR(nested);
  // Another lane is compacting the shared collection.
  if (absl::IsAborted(compacted) && name == kShared) return absl::OkStatus();
  return Excused(compacted);
}

absl::Status CrashLane::Excused(const absl::Status& status) const {
  const bool failed = absl::IsInternal(status) || absl::IsDataLoss(status);
  return options_.calls_may_fail && failed ? absl::OkStatus() : OkIfFull(status);
}

absl::Status CrashLane::Step() {
  const Choice choice = Choose();
  if (lane_ == 0 && log_->lanes() > 1 && choice.shared.empty()) return Create(/*shared=*/true);
  if (choice.own.empty() ||
      (static_cast<int64_t>(choice.own.size()) < kCollectionsMax / log_->lanes() &&
       random_.OneIn(20))) {
    return Create(/*shared=*/false);
  }
  if (!choice.large.empty() && random_.OneIn(3)) return Delete(choice.large);
  const int64_t draw = random_.Between(0, 100);
  if (draw < 14) return Begin();
  if (draw < 48) return AppendSome();
  if (draw < 60) return Commit();
  if (draw < 69) return Checkpoint();
  if (draw < 77) return Delete(AnyCollection());
  if (draw < 83) return Update(AnyCollection());
  if (draw < 91) return Compact();
  if (draw < 93) return Alias();
  if (draw < 95) return EndUpload();
  if (draw < 99) return lane_ == 0 ? Snapshot() : Compact();
  return Drop();
}

void CrashLane::Close() {
  const CountAllocations count;
  uploads_.clear();
}

}  // namespace nearfield::fault
