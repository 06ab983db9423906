#include "server/c_abi/folder.h"

#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/argument_error.h"
#include "engine/base/status_macros.h"
#include "nearfield/engine/engine.h"
#include "server/config/load.h"

namespace nearfield::server {
namespace {

// Interval at which Close checks whether the device is lost.
constexpr std::chrono::milliseconds kDeviceCheck{1000};

// Changes a default that suits a server. The value is within the limits of the setting.
absl::Status SetDefault(SettingBase* setting, const std::string& text) {
  if (setting->source() != SettingSource::kDefault) return absl::OkStatus();
  return setting->Set(text, SettingSource::kDefault);
}

// Returns the failure with a code that shows the caller what to change.
absl::Status FailureOf(ExitCode code, const absl::Status& failure) {
  absl::StatusCode shown = failure.code();
  if (code == ExitCode::kSelfTest) shown = absl::StatusCode::kInternal;
  if (code == ExitCode::kDeviceLost) shown = absl::StatusCode::kUnavailable;
  return absl::Status(shown, failure.message());
}

}  // namespace

Folder::Folder() : pid_(getpid()) {}

absl::StatusOr<std::shared_ptr<Folder>> Folder::Open(const std::string& settings) {
  std::shared_ptr<Folder> folder(new Folder);
  ABSL_RETURN_IF_ERROR(folder->Load(settings));
  ABSL_RETURN_IF_ERROR(folder->Boot());
  return folder;
}

absl::Status Folder::Load(const std::string& settings) {
  ABSL_RETURN_IF_ERROR(LoadSettingsText("settings", settings, &settings_));
  if (settings_.data_dir.source() == SettingSource::kDefault) {
    return ArgumentError("data_dir", "missing: the directory to open, or none");
  }
  // The log of a library should be silent unless something is wrong.
  ABSL_RETURN_IF_ERROR(SetDefault(&settings_.log_level, "error"));
  // The reader of a stream is the program itself, which may take its time.
  return SetDefault(&settings_.reply_unread_ms, absl::StrCat(kDayMs));
}

absl::Status Folder::Boot() {
  const LogFormat format =
      settings_.log_format.value() == "json" ? LogFormat::kJson : LogFormat::kText;
  log_ = std::make_unique<Log>(format, LogLevelFromName(settings_.log_level.value()));
  instance_ = std::make_unique<Instance>(InstanceBase{
      .settings = &settings_,
      .log = log_.get(),
      .clock = &clock_,
      .health = &health_,
      .on_store_failure = [this](const absl::Status& status) {
        log_->Write(LogLevel::kError, "the data directory failed: open it again, nothing is lost",
                    {{"error", status.ToString()}});
        instance_->state().Lose();
      }});
  const ExitCode code = instance_->Boot(&Engine::Create);
  if (code != ExitCode::kClean) return FailureOf(code, instance_->failure());
  instance_->WatchDevice([this](const absl::Status& /*why*/) { instance_->state().Lose(); });
  return absl::OkStatus();
}

bool Folder::forked() const { return getpid() != pid_; }

absl::Status Folder::Enter(const std::shared_ptr<Stream>& stream) {
  const MutexLock lock(mutex_);
  if (closing_) return absl::CancelledError("the data directory was closed");
  streams_.insert(stream);
  return absl::OkStatus();
}

void Folder::Leave(const std::shared_ptr<Stream>& stream) {
  const MutexLock lock(mutex_);
  streams_.erase(stream);
}

bool Folder::closing() const {
  const MutexLock lock(mutex_);
  return closing_;
}

void Folder::Close() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    streams.assign(streams_.begin(), streams_.end());
  }
  health_.SetServing(false);
  state().Drain();
  for (const auto& stream : streams) stream->Cancel();
  state().live_calls().Cancel();
  for (const auto& stream : streams) stream->Release();
  instance_->StopWatching();
  while (!state().WaitIdle(kDeviceCheck)) {
    if (instance_->DeviceLost()) return state().AbandonCore();
  }
  state().DestroyCore();
}

}  // namespace nearfield::server
