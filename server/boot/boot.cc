// Instance::Boot: from the settings to an instance that serves.
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "server/boot/default_parent.h"
#include "server/boot/instance.h"
#include "server/boot/start_audit.h"
#include "server/config/memory_plan.h"

namespace nearfield::server {
namespace {

// The default of data_dir in earlier versions: relative to the working directory.
constexpr char kDefaultDirBefore[] = "nearfield-data";
// Interval between two log lines about loading.
constexpr int64_t kProgressUs = 2'000'000;

// Logs which segment files the store's catalog did not name, and what happened to them.
void TellOrphans(const store::OrphanReport& report, const std::string& dir, Log* log) {
  if (report.unfinished_count > 0) {
    log->Write(LogLevel::kInfo, "files of uploads that never ended were removed",
               {{"files", report.unfinished_count}, {"bytes", report.unfinished_bytes}});
  }
  for (const auto& [path, bytes] : report.set_aside) {
    log->Write(LogLevel::kWarning, "a segment that the catalog does not name was set aside",
               {{"path", path}, {"bytes", bytes}});
  }
  for (const auto& [path, bytes] : report.left) {
    log->Write(LogLevel::kWarning,
               "a segment that the catalog does not name stays: the disk is full",
               {{"path", path}, {"bytes", bytes}});
  }
  if (report.lost_count > 0) {
    log->Write(LogLevel::kWarning,
               "segments were set aside in lost/: look whether rows are missed, then remove them",
               {{"data_dir", dir}, {"files", report.lost_count}, {"bytes", report.lost_bytes}});
  }
}

// Logs which collections were created with a scan choice that was removed.
void LogRemovedScans(const std::vector<store::StoredCollection>& collections, Log* log) {
  for (const store::StoredCollection& stored : collections) {
    if (!stored.scan_removed) continue;
    log->Write(LogLevel::kWarning, "a collection of scan bf16 is served with int8 codes",
               {{"collection", stored.name}});
  }
}

// Removes what the deletions of an earlier process left. Its failure costs only disk space.
void FinishSnapshotDeletions(const std::string& dir, Log* log) {
  if (dir.empty()) return;
  std::vector<std::string> left;
  const absl::StatusOr<int64_t> finished = store::Store::FinishSnapshotDeletions(dir, &left);
  for (const std::string& path : left) {
    log->Write(LogLevel::kWarning,
               "a path with the name of a deleted snapshot stays: it is not a snapshot",
               {{"path", path}});
  }
  if (!finished.ok()) {
    log->Write(LogLevel::kWarning, "files of deleted snapshots remain",
               {{"snapshot_dir", dir}, {"error", finished.status().ToString()}});
  } else if (*finished > 0) {
    log->Write(LogLevel::kInfo, "interrupted deletions of snapshots were finished",
               {{"snapshot_dir", dir}, {"snapshots", *finished}});
  }
}

}  // namespace

ExitCode Instance::OpenStore(std::unique_ptr<store::Store>* opened) {
  const std::string& dir = settings_->data_dir.value();
  const bool is_new = !store::Store::IsIn(dir);
  if (const absl::Status made = MakeDefaultParent(*settings_); !made.ok()) {
    failure_ = made;
    log_->Write(LogLevel::kError, "the default data directory cannot be made",
                {{"data_dir", dir}, {"error", made.ToString()}});
    return absl::IsInternal(made) ? ExitCode::kStorage : ExitCode::kConfiguration;
  }
  store::StoreOptions options;
  options.dir = dir;
  options.uploads_open_max = settings_->upload_tokens_max.value();
  options.uploads_open_per_caller_max =
      CallerShareOf(settings_->upload_tokens_max.value(), settings_->caller_share_percent.value());
  options.upload_idle_s_max = settings_->upload_token_s.value();
  options.tokens_committed_max = settings_->upload_tokens_committed_max.value();
  options.token_committed_s_max = settings_->upload_token_s.value();
  options.on_fatal = base_.on_store_failure;
  auto store = store::Store::Open(std::move(options));
  if (!store.ok()) {
    failure_ = store.status();
    log_->Write(LogLevel::kError, "the data directory cannot be opened",
                {{"data_dir", dir}, {"error", store.status().ToString()}});
    const bool wrong =
        absl::IsFailedPrecondition(store.status()) || absl::IsNotFound(store.status()) ||
        absl::IsInvalidArgument(store.status()) || absl::IsResourceExhausted(store.status());
    return wrong ? ExitCode::kConfiguration : ExitCode::kStorage;
  }
  log_->Write(
      LogLevel::kInfo, is_new ? "data directory created" : "data directory opened",
      {{"data_dir", dir}, {"collections", static_cast<int64_t>((*store)->Collections().size())}});
  if ((*store)->Collections().empty() && settings_->data_dir.source() == SettingSource::kDefault &&
      store::Store::IsIn(kDefaultDirBefore)) {
    std::error_code error;
    log_->Write(LogLevel::kWarning,
                "the working directory has a data directory that is not served: it was the default "
                "of earlier versions",
                {{"data_dir", std::filesystem::absolute(kDefaultDirBefore, error).string()}});
  }
  TellOrphans((*store)->orphans(), dir, log_);
  LogRemovedScans((*store)->Collections(), log_);
  *opened = *std::move(store);
  return ExitCode::kClean;
}

absl::Status Instance::LoadCollections(Core* core) {
  state_.boot_progress().Begin(BootProgress::Step::kLoading);
  const TimePoint begin = clock_->Now();
  TimePoint told = begin;
  int64_t rows = 0;
  absl::Status loaded = core->catalog.Load(
      [&](const Catalog::LoadProgress& progress) {
        state_.boot_progress().Report({.collections_loaded = progress.collections_loaded,
                                       .collections_count = progress.collections_count,
                                       .bytes_read = progress.bytes_read,
                                       .bytes_total = progress.bytes_total});
        if (MicrosBetween(told, clock_->Now()) < kProgressUs) return;
        told = clock_->Now();
        log_->Write(LogLevel::kInfo, "loading",
                    {{"collection", progress.collection},
                     {"collections_loaded", progress.collections_loaded},
                     {"collections", progress.collections_count},
                     {"bytes", progress.bytes_read},
                     {"bytes_total", progress.bytes_total}});
      },
      [this] { return state_.phase() != ServerState::Phase::kStarting; });
  if (!loaded.ok()) return loaded;
  const auto collections = core->catalog.List();
  for (const auto& named : collections) {
    rows += named->collection->Stats().rows_count;
    if (named->load_status.ok()) continue;
    log_->Write(LogLevel::kError, "a collection is not served",
                {{"collection", named->name}, {"error", named->load_status.ToString()}});
  }
  log_->Write(LogLevel::kInfo, "collections loaded",
              {{"collections", static_cast<int64_t>(collections.size())},
               {"rows", rows},
               {"total_us", MicrosBetween(begin, clock_->Now())}});
  return absl::OkStatus();
}

ExitCode Instance::MakeEngine(const EngineFactory& make_engine, std::unique_ptr<Engine>* made) {
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      MakePlannedEngine(*settings_, ThisMachine(), make_engine);
  if (!engine.ok()) {
    failure_ = engine.status();
    log_->Write(LogLevel::kError, "the engine cannot be created",
                {{"error", engine.status().ToString()}});
    switch (engine.status().code()) {
      case absl::StatusCode::kInvalidArgument:
      case absl::StatusCode::kFailedPrecondition:
      case absl::StatusCode::kResourceExhausted: return ExitCode::kConfiguration;
      case absl::StatusCode::kUnavailable: return ExitCode::kDeviceLost;
      default: return ExitCode::kFailure;
    }
  }
  const EngineInfo info = (*engine)->Info();
  log_->Write(LogLevel::kInfo, "engine ready",
              {{"backend", info.backend == BackendKind::kGpu ? "gpu" : "cpu"},
               {"device", info.device_name},
               {"note", info.note},
               {"device_bytes", (*engine)->GetCapacity().device_bytes_total},
               {"read_bytes_per_second", static_cast<int64_t>(info.read_bytes_per_second)}});
  state_.boot_progress().Begin(BootProgress::Step::kSelfTest);
  const TimePoint begin = clock_->Now();
  const absl::Status tested =
      (*engine)->SelfTest(static_cast<uint64_t>(settings_->self_test_seed.value()));
  failure_ = tested;
  if (absl::IsResourceExhausted(tested)) {
    log_->Write(LogLevel::kError, "too little memory: nothing is served",
                {{"error", tested.ToString()},
                 {"memory_bytes", (*engine)->GetCapacity().device_bytes_total},
                 {"host_memory_bytes", (*engine)->GetCapacity().host_bytes_total}});
    return ExitCode::kConfiguration;
  }
  if (!tested.ok()) {
    log_->Write(LogLevel::kError, "the self-test failed: nothing is served",
                {{"error", tested.ToString()}});
    return absl::IsUnavailable(tested) ? ExitCode::kDeviceLost : ExitCode::kSelfTest;
  }
  log_->Write(LogLevel::kInfo, "self-test passed",
              {{"total_us", MicrosBetween(begin, clock_->Now())}});
  *made = *std::move(engine);
  return ExitCode::kClean;
}

ExitCode Instance::Boot(const EngineFactory& make_engine) {
  std::unique_ptr<store::Store> kept;
  // A directory with data is opened first, which is quick and may refuse the start. A new one is
  // made last, so that a start that fails leaves nothing.
  const bool has_data = settings_->keeps_data() && store::Store::IsIn(settings_->data_dir.value());
  if (!settings_->keeps_data()) {
    log_->Write(LogLevel::kWarning,
                "data_dir is none: collections are in memory only, and end with the process");
  }
  ExitCode code = has_data ? OpenStore(&kept) : ExitCode::kClean;
  std::unique_ptr<Engine> engine;
  if (code == ExitCode::kClean) code = MakeEngine(make_engine, &engine);
  if (code == ExitCode::kClean && settings_->keeps_data() && !has_data) code = OpenStore(&kept);
  if (code != ExitCode::kClean) return code;
  FinishSnapshotDeletions(settings_->snapshot_dir.value(), log_);
  auto core = std::make_unique<Core>(
      std::move(engine), std::move(kept),
      Core::Base{.settings = settings_,
                 .clock = clock_,
                 .log = log_,
                 .quotas = &state_.quotas(),
                 .may_expire =
                     [this] {
                       return state_.phase() == ServerState::Phase::kServing &&
                              !state_.distrusted();
                     },
                 .expired = [this](const auto&... step) { NoteExpired(step...); }});
  const absl::Status loaded = LoadCollections(core.get());
  if (!loaded.ok() && !absl::IsCancelled(loaded)) {
    failure_ = loaded;
    log_->Write(LogLevel::kError, "loading failed", {{"error", loaded.ToString()}});
    if (absl::IsResourceExhausted(loaded)) return ExitCode::kConfiguration;
    return absl::IsUnavailable(loaded) ? ExitCode::kDeviceLost : ExitCode::kFailure;
  }
  core->audit = StartAudit(core.get(), &state_, base_.health);
  base_.health->SetCollections([catalog = &core->catalog](const std::string& name) {
    const auto named = catalog->FindAny(name);
    if (!named.ok()) return HealthState::Collection();
    return HealthState::Collection{.state = IsReadable(**named)
                                                ? HealthState::CollectionState::kGood
                                                : HealthState::CollectionState::kDamaged,
                                   .name = (*named)->name};
  });
  state_.Serve(std::move(core));
  if (state_.phase() == ServerState::Phase::kServing) base_.health->SetServing(true);
  return ExitCode::kClean;
}

}  // namespace nearfield::server
