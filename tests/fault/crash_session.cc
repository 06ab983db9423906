#include "tests/fault/crash_session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/out_of_memory.h"
#include "engine/base/status_macros.h"
#include "server/store/file.h"
#include "tests/fault/allocation_fault.h"

namespace nearfield::fault {
namespace {

constexpr int64_t kCollectionsMax = 3;
constexpr int64_t kRowsMax = 1500;  // of a collection; beyond, deletes come more often
constexpr size_t kUploadsMax = 3;
constexpr size_t kSnapshotsMax = 2;

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

// Calls the store with its allocations counted, so that one of them can fail.
template <typename Call>
auto Counted(const Call& call) {
  const CountAllocations count;
  return CatchOutOfMemory([&call] { return call(); });
}

// An early end that is not the store's fault.
absl::Status OkIfFull(const absl::Status& status) {
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

store::StoreOptions OptionsFor(const std::string& dir) {
  // A short log, so that moving it into the database is hit often.
  return {.dir = dir, .free_bytes_min = 0, .log_pages_max = 16, .unix_seconds = [] {
            return int64_t{1'700'000'000};
          }};
}

}  // namespace

CrashSession::CrashSession(SessionOptions options, CrashLog* log)
    : options_(std::move(options)), log_(log), random_(options_.seed) {}

std::string CrashSession::SnapshotDir(int64_t number) const {
  return absl::StrCat(options_.root, "/snapshot-", number);
}

absl::Status CrashSession::Open() {
  ABSL_ASSIGN_OR_RETURN(store_, Counted([&, options = OptionsFor(DataDir())] {
                          return store::Store::Open(options);
                        }));
  return absl::OkStatus();
}

int64_t CrashSession::IdOf(const std::string& collection) const {
  for (const store::StoredCollection& stored : store_->Collections()) {
    if (stored.name == collection) return stored.id;
  }
  return 0;
}

std::string CrashSession::AnyCollection() {
  const auto& collections = log_->model().collections;
  if (collections.empty()) return "";
  const int64_t place = random_.Between(0, static_cast<int64_t>(collections.size()));
  return std::next(collections.begin(), place)->first;
}

Findings CrashSession::Check() {
  Findings findings;
  absl::Status verified = Counted([&] { return store_->Verify().status(); });
  if (!verified.ok() && options_.calls_may_fail) verified = store_->Verify().status();
  if (!verified.ok()) {
    findings.Add(&findings.lost, 1, absl::StrCat("verify: ", verified.ToString()));
    return findings;
  }
  Model expected = log_->model();
  if (log_->in_flight().has_value()) {
    Model after = expected;
    after.Apply(*log_->in_flight());
    expected.uploads.insert(after.uploads.begin(), after.uploads.end());
  }
  absl::StatusOr<Model> found = Read(*store_, expected);
  if (!found.ok() && options_.calls_may_fail) found = Read(*store_, expected);
  if (!found.ok()) {
    findings.Add(&findings.lost, 1, absl::StrCat("load: ", found.status().ToString()));
    return findings;
  }
  bool happened = false;
  findings = Compare(*found, log_->model(), log_->in_flight(), &happened);
  if (!findings.none()) return findings;
  if (log_->in_flight().has_value()) {
    if (happened) {
      log_->Acknowledge();
    } else {
      log_->Refuse();
    }
  }
  if (const absl::Status resumed = ResumeAll(&findings); !resumed.ok()) {
    findings.Add(&findings.lost, 1, absl::StrCat("resume: ", resumed.ToString()));
  }
  return findings;
}

absl::Status CrashSession::ResumeAll(Findings* findings) {
  for (const auto& entry : log_->model().uploads) {
    const std::string& token = entry.first;
    const ModelUpload& upload = entry.second;
    if (upload.state != store::UploadState::kOpen) continue;
    const ModelCollection& collection = log_->model().collections.at(upload.collection);
    OpenUpload open = {.number = upload.number,
                       .collection = upload.collection,
                       .data = UploadData::Make(collection.spec, upload.number)};
    int64_t blocks = 0;
    ABSL_ASSIGN_OR_RETURN(
        open.writer, store_->ResumeUpload(token, [&](const store::StoredBlock& block) {
          const auto place = static_cast<size_t>(block.number);
          if (block.number != blocks++ || place >= open.data.blocks.size() ||
              !SameBlock(block, open.data.blocks[place].View(block.number))) {
            findings->Add(&findings->wrong, 1, absl::StrCat(token, ": a block has other bytes"));
          }
          return absl::OkStatus();
        }));
    if (blocks != upload.next_block) {
      findings->Add(&findings->lost, 1, absl::StrCat(token, ": blocks are not there"));
    }
    uploads_.push_back(std::move(open));
  }
  return absl::OkStatus();
}

template <typename Run>
absl::Status CrashSession::Do(const Operation& operation, Run run) {
  log_->Try(operation);
  const bool early = options_.acknowledges_early;
  if (early) log_->Acknowledge();
  const absl::Status status = Counted(run);
  if (!status.ok() && Excused(status).ok()) {
    if (!early) log_->Refuse();
    return absl::OkStatus();
  }
  if (status.ok() && !early) log_->Acknowledge();
  return status;
}

absl::Status CrashSession::Create() {
  Operation operation = {.kind = Operation::Kind::kCreate, .number = log_->NextNumber()};
  operation.collection = absl::StrCat("c", operation.number);
  return Do(operation, [&] {
    return store_->CreateCollection(operation.collection, SpecOf(operation.number), "schema")
        .status();
  });
}

absl::Status CrashSession::Drop() {
  const std::string name = AnyCollection();
  if (name.empty()) return absl::OkStatus();
  const int64_t id = IdOf(name);
  const Operation operation = {
      .kind = Operation::Kind::kDrop, .number = log_->NextNumber(), .collection = name};
  ABSL_RETURN_IF_ERROR(Do(operation, [&] { return store_->DropCollection(id); }));
  if (log_->model().collections.count(name) > 0) return absl::OkStatus();  // refused
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

absl::Status CrashSession::Begin() {
  const std::string name = AnyCollection();
  if (name.empty() || uploads_.size() >= kUploadsMax) return absl::OkStatus();
  OpenUpload open = {.number = log_->NextNumber(), .collection = name};
  open.data = UploadData::Make(log_->model().collections.at(name).spec, open.number);
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

absl::Status CrashSession::AppendSome() {
  if (uploads_.empty()) return Begin();
  const auto place = static_cast<size_t>(random_.Bits() % uploads_.size());
  OpenUpload& upload = uploads_[place];
  const auto next = static_cast<size_t>(upload.writer->next_block());
  if (next >= upload.data.blocks.size()) return Commit();
  const absl::Status appended = Counted([&] {
    return upload.writer->Append(upload.data.blocks[next].View(static_cast<int64_t>(next)));
  });
  // On a full disk the upload ends; one with a token waits for the next life.
  if (absl::IsResourceExhausted(appended)) {
    uploads_.erase(uploads_.begin() + static_cast<int64_t>(place));
  }
  return OkIfFull(appended);
}

absl::Status CrashSession::Checkpoint() {
  for (OpenUpload& upload : uploads_) {
    if (!upload.data.has_token) continue;
    const Operation operation = {.kind = Operation::Kind::kCheckpoint,
                                 .number = log_->NextNumber(),
                                 .collection = upload.collection,
                                 .upload = upload.number,
                                 .count = upload.writer->next_block()};
    return Do(operation, [&] { return upload.writer->Checkpoint(); });
  }
  return absl::OkStatus();
}

absl::Status CrashSession::Commit() {
  const auto whole = std::find_if(uploads_.begin(), uploads_.end(), [](const auto& upload) {
    return upload.writer->next_block() == static_cast<int64_t>(upload.data.blocks.size());
  });
  if (whole == uploads_.end()) return absl::OkStatus();
  OpenUpload upload = std::move(*whole);
  uploads_.erase(whole);
  const absl::Status synced = Counted([&] { return upload.writer->Sync(); });
  if (!synced.ok()) return OkIfFull(synced);  // one with a token waits for the next life
  const ModelCollection& collection = log_->model().collections.at(upload.collection);
  const CommitEffect effect = EffectOf(collection, upload.data);
  const store::UploadCommit commit = {.epoch = collection.epoch + 1,
                                      .replaced_ids = &effect.replaced,
                                      .superseded_rows = effect.superseded};
  const Operation operation = {.kind = Operation::Kind::kCommit,
                               .number = log_->NextNumber(),
                               .collection = upload.collection,
                               .upload = upload.number};
  return Do(operation, [&] { return store_->CommitUpload(upload.writer.get(), commit); });
}

absl::Status CrashSession::EndUpload() {
  if (uploads_.empty()) return absl::OkStatus();
  OpenUpload ended = std::move(uploads_.back());
  uploads_.pop_back();
  if (!ended.data.has_token) return absl::OkStatus();
  {
    const CountAllocations count;
    ended.writer.reset();
  }
  const Operation operation = {.kind = Operation::Kind::kDropUpload,
                               .number = log_->NextNumber(),
                               .collection = ended.collection,
                               .upload = ended.number};
  return Do(operation, [&] { return store_->DropUpload(TokenOf(ended.number)); });
}

absl::Status CrashSession::Delete(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  const ModelCollection& collection = log_->model().collections.at(name);
  if (collection.rows.empty()) return absl::OkStatus();
  const Operation operation = {
      .kind = Operation::Kind::kDelete, .number = log_->NextNumber(), .collection = name};
  const IdColumn ids = DeletedBy(collection, operation.number);
  const uint64_t epoch = collection.epoch + 1;
  return Do(operation, [&] { return store_->CommitDelete(IdOf(name), epoch, ids); });
}

absl::Status CrashSession::Alias() {
  const std::string name = AnyCollection();
  if (name.empty()) return absl::OkStatus();
  const ModelCollection& collection = log_->model().collections.at(name);
  Operation operation = {.kind = Operation::Kind::kAlias,
                         .number = log_->NextNumber(),
                         .collection = name,
                         .count = random_.Between(0, 4)};
  const std::string alias = absl::StrCat("alias-", operation.count);
  if (collection.aliases.count(alias) > 0) {
    operation.kind = Operation::Kind::kDropAlias;
    return Do(operation, [&] { return store_->DropAlias(alias); });
  }
  return Do(operation, [&] { return store_->SetAlias(alias, IdOf(name)); });
}

absl::Status CrashSession::Compact() {
  const std::string name = AnyCollection();
  if (name.empty()) return absl::OkStatus();
  absl::Status nested;
  store::CompactOptions options = {.small_bytes_max = random_.OneIn(2) ? int64_t{1} << 20 : 0,
                                   .small_segments_min = 3};
  // Commits go on while a compaction runs: here in the middle of it, on the same thread.
  options.cancelled = [&] {
    const CountAllocations pause(CountAllocations::Mode::kPause);
    if (nested.ok() && random_.OneIn(4)) nested = Delete(name);
    return !nested.ok();
  };
  const absl::Status compacted =
      Counted([&] { return store_->Compact(IdOf(name), options).status(); });
  ABSL_RETURN_IF_ERROR(nested);
  return Excused(compacted);
}

absl::Status CrashSession::Snapshot() {
  if (log_->snapshots().size() >= kSnapshotsMax) return CheckSnapshot();
  const int64_t number = log_->NextNumber();
  // One that was whole when its process died, but never logged, may have the same number.
  ABSL_RETURN_IF_ERROR(Excused(store::RemoveDirectory(SnapshotDir(number))));
  const absl::Status taken =
      Counted([&, path = SnapshotDir(number)] { return store_->Snapshot(path); });
  if (taken.ok()) log_->AddSnapshot(number);
  // Where SQLite cannot open its copy for writing, it opens it for reading.
  if (options_.calls_may_fail && absl::IsFailedPrecondition(taken)) return absl::OkStatus();
  return Excused(taken);
}

absl::Status CrashSession::Excused(const absl::Status& status) const {
  const bool failed = absl::IsInternal(status) || absl::IsDataLoss(status);
  return options_.calls_may_fail && failed ? absl::OkStatus() : OkIfFull(status);
}

absl::Status CrashSession::CheckSnapshot() {
  if (log_->snapshots().empty()) return absl::OkStatus();
  const auto [number, hash] = *log_->snapshots().begin();
  const std::string restored = options_.root + "/restored";
  const auto restore = [&, source = SnapshotDir(number)]() -> absl::StatusOr<Model> {
    ABSL_RETURN_IF_ERROR(store::RemoveDirectory(restored));
    ABSL_RETURN_IF_ERROR(Counted([&] { return store::Store::Restore(source, restored); }));
    store::StoreOptions options = OptionsFor(restored);
    options.on_fatal = [](const absl::Status&) {};
    ABSL_ASSIGN_OR_RETURN(const std::unique_ptr<store::Store> copy, store::Store::Open(options));
    return Read(*copy, Model{});
  };
  const absl::StatusOr<Model> found = restore();
  if (!found.ok()) return Excused(found.status());
  if (HashOf(*found) != hash) return absl::DataLossError("a snapshot holds other rows");
  log_->RemoveSnapshot(number);
  ABSL_RETURN_IF_ERROR(Excused(store::RemoveDirectory(restored)));
  return Excused(store::RemoveDirectory(SnapshotDir(number)));
}

absl::Status CrashSession::Step() {
  const auto& collections = log_->model().collections;
  if (collections.empty() ||
      (static_cast<int64_t>(collections.size()) < kCollectionsMax && random_.OneIn(20))) {
    return Create();
  }
  for (const auto& [name, collection] : collections) {
    if (static_cast<int64_t>(collection.rows.size()) > kRowsMax && random_.OneIn(3)) {
      return Delete(name);
    }
  }
  const int64_t draw = random_.Between(0, 100);
  if (draw < 14) return Begin();
  if (draw < 48) return AppendSome();
  if (draw < 60) return Commit();
  if (draw < 69) return Checkpoint();
  if (draw < 83) return Delete(AnyCollection());
  if (draw < 91) return Compact();
  if (draw < 93) return Alias();
  if (draw < 95) return EndUpload();
  if (draw < 99) return Snapshot();
  return Drop();
}

absl::Status CrashSession::Close() {
  const CountAllocations count;
  uploads_.clear();
  store_.reset();
  return absl::OkStatus();
}

}  // namespace nearfield::fault
