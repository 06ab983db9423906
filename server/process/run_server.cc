#include "server/process/run_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/keys/key_file.h"
#include "engine/base/mutex.h"
#include "server/boot/default_parent.h"
#include "server/config/exit_code.h"
#include "server/config/load.h"
#include "server/config/reload.h"
#include "server/listener/descriptor_limit.h"
#include "server/process/demo.h"
#include "server/process/memory_exit.h"
#include "server/process/offline.h"
#include "server/process/reader_thread.h"
#include "server/process/server.h"
#include "server/process/signals.h"

namespace nearfield::server {
namespace {

// The files that SIGHUP reads again.
struct FilesRead {
  Settings settings;
  absl::Status settings_status;
  std::optional<absl::StatusOr<KeyFile>> keys;  // nullopt: there is no key file
};

// An event for the main thread.
struct Event {
  enum class Kind { kSignal, kBooted, kLost, kFilesRead };
  Kind kind = Kind::kSignal;
  ExitCode boot_code = ExitCode::kClean;
  std::shared_ptr<const FilesRead> files;
};

class Events {
 public:
  void Post(const Event& event) {
    {
      const MutexLock lock(mutex_);
      events_.push_back(event);
    }
    arrived_.NotifyOne();
  }
  Event Wait() {
    MutexLock lock(mutex_);
    while (events_.empty()) arrived_.Wait(lock);
    Event event = events_.front();
    events_.pop_front();
    return event;
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::deque<Event> events_ ABSL_GUARDED_BY(mutex_);
};

// The log that also receives messages of libraries, in the same format.
std::atomic<Log*> library_log{nullptr};

void OnGrpcMessage(gpr_log_func_args* args) {
  Log* log = library_log.load();
  if (log == nullptr || args->severity != GPR_LOG_SEVERITY_ERROR) return;
  log->Write(LogLevel::kWarning, "grpc", {{"error", args->message}});
}

// Logs at debug level, because clients can cause these messages with texts that are not UTF-8.
void OnProtobufMessage(google::protobuf::LogLevel /*level*/, const char* /*file*/, int /*line*/,
                       const std::string& message) {
  Log* log = library_log.load();
  if (log != nullptr) log->Write(LogLevel::kDebug, "protobuf", {{"error", message}});
}

[[noreturn]] void LeaveAtOnce(Log* log, ExitCode code) {
  log->Flush();
  std::_Exit(static_cast<int>(code));
}

void LogSettings(const Settings& settings, const std::vector<std::string>& unknown_variables,
                 Log* log) {
  std::vector<LogField> fields;
  for (const SettingBase* setting : settings.all()) {
    fields.push_back({setting->name(), setting->Text()});
  }
  log->Write(LogLevel::kInfo, "configuration", fields);
  if (!unknown_variables.empty()) {
    log->Write(LogLevel::kWarning, "environment variables that name no setting are ignored",
               {{"variables", absl::StrJoin(unknown_variables, " ")}});
  }
  if (settings.IsExposed()) {
    log->Write(LogLevel::kWarning,
               "allow_insecure: listening beyond loopback without TLS or without keys",
               {{settings.BeyondLoopback()->name(), settings.BeyondLoopback()->value()},
                {"tls", settings.tls_cert.value().empty() ? "no" : "yes"},
                {"keys", settings.key_file.value().empty() ? "no" : "yes"}});
  }
  if (settings.has_ops_port() && !IsLoopback(settings.ops_listen.value())) {
    log->Write(LogLevel::kWarning,
               "the operations port listens beyond loopback, without authentication: only the "
               "monitoring should reach it",
               {{"ops_listen", settings.ops_listen.value()}});
  }
}

// Writes the file atomically: to a temporary name, then renamed.
absl::Status WritePortFile(const std::string& path, int port) {
  const std::string beside = path + ".new";
  std::ofstream file(beside, std::ios::trunc);
  file << port << "\n";
  file.close();
  if (file && std::rename(beside.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("port_file = \"", path, "\": cannot be written"));
}

ExitCode Drain(Server* server, Log* log) {
  log->Write(LogLevel::kInfo, "draining");
  const ExitCode code = server->Drain();
  if (code == ExitCode::kClean || code == ExitCode::kSelfTest) {
    log->Write(LogLevel::kInfo, "drained");
    return code;
  }
  if (code == ExitCode::kFailure) {
    log->Write(LogLevel::kError, "calls would not end: exiting without them");
  }
  LeaveAtOnce(log, code);
}

[[noreturn]] void LeaveLostDevice(Server* server, Log* log) {
  server->Fail();
  log->Write(LogLevel::kError, "exiting: restart the process");
  LeaveAtOnce(log, ExitCode::kDeviceLost);
}

void LoadDemo(const std::string& address, Log* log) {
  const absl::Status started = StartDemo(address);
  if (started.ok()) return;
  log->Write(LogLevel::kError, "the demo corpus is not loaded",
             {{"error", std::string(started.message())}});
}

struct ServeHooks {
  std::function<void()> on_serving;
  std::function<void(const FilesRead&)> on_files_read;
};

// Runs the server from its boot to its end. The monitor ends before the engine does.
ExitCode Serve(const EngineFactory& make_engine, const ServeHooks& hooks, Server* server,
               Events* events, Log* log) {
  std::thread boot([&] {
    const ExitCode code = server->Boot(make_engine);
    events->Post({.kind = Event::Kind::kBooted, .boot_code = code});
  });
  while (true) {
    const Event event = events->Wait();
    if (event.kind == Event::Kind::kLost) LeaveLostDevice(server, log);
    if (event.kind == Event::Kind::kFilesRead) {
      hooks.on_files_read(*event.files);
      continue;
    }
    if (event.kind == Event::Kind::kBooted) {
      boot.join();
      if (event.boot_code == ExitCode::kDeviceLost) LeaveLostDevice(server, log);
      if (event.boot_code != ExitCode::kClean) {
        server->Drain();
        return event.boot_code;
      }
      ServingBegins();
      server->instance().WatchDevice(
          [events](const absl::Status& /*why*/) { events->Post({.kind = Event::Kind::kLost}); });
      log->Write(LogLevel::kInfo, absl::StrCat("serving on ", server->address()));
      hooks.on_serving();
      continue;
    }
    if (boot.joinable()) {
      if (server->state().Drain() == ServerState::Phase::kStarting) {
        // The engine's start cannot be interrupted, and there is nothing to lose yet.
        log->Write(LogLevel::kInfo, "exiting before the start was complete");
        LeaveAtOnce(log, ExitCode::kClean);
      }
      boot.join();  // it serves already: wait for its last steps
    }
    server->instance().StopWatching();
    return Drain(server, log);
  }
}

// Applies the settings that were read again and can change.
void ApplySettings(const FilesRead& files, Reloader* reloader, Log* log) {
  if (!files.settings_status.ok()) {
    log->Write(LogLevel::kError, "the configuration is not reloaded: the values in force stay",
               {{"error", std::string(files.settings_status.message())}});
    return;
  }
  const Reloader::Outcome outcome = reloader->Apply(files.settings);
  log->Write(LogLevel::kInfo, "configuration reloaded",
             {{"changed", absl::StrJoin(outcome.changed, ", ")}});
  if (!outcome.need_restart.empty()) {
    log->Write(LogLevel::kWarning, "changed settings that a restart would put in force",
               {{"settings", absl::StrJoin(outcome.need_restart, ", ")}});
  }
}

// Returns the parts of a server that SIGHUP changes.
std::vector<Reloader::Part> ReloadableParts(Server* server, Log* log) {
  return {
      {{"log_level"},
       [log](const Settings& fresh) { log->SetLevel(LogLevelFromName(fresh.log_level.value())); }},
      {{"log_requests", "log_slow_ms", "log_sample"}, [server](const Settings& fresh) {
         server->state().request_log().SetPolicy(RequestLogPolicyOf(fresh));
       }}};
}

// Fills settings from file, environment and flags, as at the start.
using LoadAgain = std::function<absl::Status(Settings*)>;

ExitCode RunWith(const Settings& settings, bool demo, const LoadAgain& load,
                 const EngineFactory& make_engine, Log* log) {
  const auto events = std::make_shared<Events>();
  const SteadyClock clock;
  Server server(&settings, log, &clock);
  Reloader reloader(settings, ReloadableParts(&server, log));
  // A file that hangs must not stop the signals, so they have a thread of their own.
  ReaderThread reader(
      [events, load, key_file = settings.key_file.value()] {
        auto files = std::make_shared<FilesRead>();
        files->settings_status = load(&files->settings);
        if (!key_file.empty()) files->keys = ReadKeyFile(key_file);
        events->Post({.kind = Event::Kind::kFilesRead, .files = std::move(files)});
      },
      std::chrono::milliseconds::zero());
  const SignalWatcher watcher(
      [&](int number, int count) {
        log->Write(LogLevel::kInfo, "signal",
                   {{"number", int64_t{number}}, {"count", int64_t{count}}});
        if (count > 1) LeaveAtOnce(log, ExitCode::kFailure);
        events->Post({.kind = Event::Kind::kSignal});
      },
      [&] {
        reader.Wake();
        server.WakeCertificates();
      });
  absl::Status status = server.Listen();
  if (status.ok()) {
    log->Write(LogLevel::kInfo, absl::StrCat("listening on ", server.address()));
    const std::string& port_file = settings.port_file.value();
    if (!port_file.empty()) status = WritePortFile(port_file, server.port());
    const absl::Cleanup remove_port_file = [&, written = status.ok() && !port_file.empty()] {
      if (written) std::remove(port_file.c_str());
    };
    const ServeHooks hooks = {.on_serving =
                                  [&] {
                                    if (demo) LoadDemo(server.address(), log);
                                  },
                              .on_files_read =
                                  [&](const FilesRead& files) {
                                    ApplySettings(files, &reloader, log);
                                    if (files.keys.has_value()) server.ApplyKeys(*files.keys);
                                  }};
    if (status.ok()) return Serve(make_engine, hooks, &server, events.get(), log);
    server.Drain();
  }
  log->Write(LogLevel::kError, "the server cannot start",
             {{"error", std::string(status.message())}});
  return ExitCode::kConfiguration;
}

// Runs the server with a log on stderr.
ExitCode RunLogged(const Settings& settings, const LoadOutcome& outcome, const LoadAgain& load,
                   const EngineFactory& make_engine) {
  const LogFormat format =
      settings.log_format.value() == "json" ? LogFormat::kJson : LogFormat::kText;
  Log log(format, LogLevelFromName(settings.log_level.value()));
  library_log.store(&log);
  gpr_set_log_function(OnGrpcMessage);
  google::protobuf::SetLogHandler(OnProtobufMessage);
  LogSettings(settings, outcome.unknown_variables, &log);
  RaiseDescriptorLimit();
  log.Write(LogLevel::kInfo, "descriptor limit", {{"descriptors", DescriptorLimit()}});
  const ExitCode code = RunWith(settings, outcome.demo, load, make_engine, &log);
  log.Write(LogLevel::kInfo, "end",
            {{"exit_code", static_cast<int64_t>(code)}, {"log_lines_dropped", log.dropped()}});
  library_log.store(nullptr);
  return code;
}

// Implements RunServer.
ExitCode Run(int argc, char** argv, const EngineFactory& make_engine) {
  BlockSignals();
  Settings settings;
  const Environment environment = ProcessEnvironment();
  const absl::StatusOr<LoadOutcome> outcome = LoadSettings(argc, argv, environment, &settings);
  if (!outcome.ok()) {
    std::fprintf(stderr, "nearfield-server: %s\n", std::string(outcome.status().message()).c_str());
    return ExitCode::kConfiguration;
  }
  if (outcome->action == LoadOutcome::Action::kServe) {
    const auto load = [argc, argv, environment](Settings* fresh) {
      return LoadSettings(argc, argv, environment, fresh).status();
    };
    return RunLogged(settings, *outcome, load, make_engine);
  }
  UnblockSignals();
  if (outcome->action == LoadOutcome::Action::kPrint) {
    std::fputs(outcome->output.c_str(), stdout);
    return ExitCode::kClean;
  }
  const std::string& data_dir = settings.data_dir.value();
  const bool checks = outcome->action == LoadOutcome::Action::kCheckDataDir;
  if (checks) return CheckDataDir(data_dir);
  if (const absl::Status made = MakeDefaultParent(settings); !made.ok()) {
    std::fprintf(stderr, "nearfield-server: %s\n", std::string(made.message()).c_str());
    return ExitCode::kConfiguration;
  }
  return RestoreDataDir(outcome->snapshot_dir, data_dir);
}

}  // namespace

int RunServer(int argc, char** argv, const EngineFactory& make_engine) {
  return static_cast<int>(Run(argc, argv, make_engine));
}

}  // namespace nearfield::server
