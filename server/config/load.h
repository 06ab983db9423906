// Settings from file < environment < flag.
#ifndef NEARFIELD_SERVER_CONFIG_LOAD_H_
#define NEARFIELD_SERVER_CONFIG_LOAD_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config/memory_plan.h"
#include "server/config/settings.h"

namespace nearfield::server {

// Environment variables by name: those that begin as the settings' do.
using Environment = std::map<std::string, std::string>;
Environment ProcessEnvironment();

struct LoadOutcome {
  // What the command line asked for.
  enum class Action { kServe, kPrint, kCheckDataDir, kRestore };
  Action action = Action::kServe;
  // kPrint: for stdout; then exit 0. kRestore: the snapshot's directory.
  std::string text;
  // Of the environment, what names no setting: ignored, and most likely misspelt.
  std::vector<std::string> unknown_variables;
};

// Fills `settings`, once. An empty environment variable counts as absent.
// Errors: InvalidArgument (unknown flag or key, bad value, settings that do not fit together),
// NotFound (the file).
absl::StatusOr<LoadOutcome> LoadSettings(int argc, const char* const* argv,
                                         const Environment& environment, Settings* settings,
                                         const HostMachine& machine = ThisMachine());

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONFIG_LOAD_H_
