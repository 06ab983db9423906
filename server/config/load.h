// LoadSettings: reads settings from a file, the environment and flags; later sources win.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/config/memory_plan.h"
#include "server/config/settings.h"

namespace nearfield::server {

// Environment variables by name; only those with the prefix of the settings.
using Environment = std::map<std::string, std::string>;
Environment ProcessEnvironment();

struct LoadOutcome {
  // The action that the command line requests.
  enum class Action { kServe, kPrint, kCheckDataDir, kRestore };
  Action action = Action::kServe;
  bool demo = false;         // kServe: load the demo corpus
  std::string output;        // kPrint: text for stdout; then exit 0
  std::string snapshot_dir;  // kRestore: directory of the snapshot
  // Environment variables that match no setting, each with a suggestion. They are ignored, and most
  // likely misspelled.
  std::vector<std::string> unknown_variables;
};

// Fills `settings`. Called once. An empty environment variable is treated as absent.
// Errors: InvalidArgument (unknown flag or key, renamed setting, bad value, inconsistent settings),
// NotFound (the file).
absl::StatusOr<LoadOutcome> LoadSettings(int argc, const char* const* argv,
                                         const Environment& environment, Settings* settings,
                                         const HostMachine& machine = ThisMachine());

// Fills `settings` from `text`, lines as in a configuration file, which messages call `place`.
// Reads neither the environment nor a file. Called once. Errors: InvalidArgument, as LoadSettings.
absl::Status LoadSettingsText(const std::string& place, const std::string& text, Settings* settings,
                              const HostMachine& machine = ThisMachine());

}  // namespace nearfield::server
