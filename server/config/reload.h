// Reloader: applies changed settings to a running server.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "server/config/settings.h"

namespace nearfield::server {

// Not thread-safe.
class Reloader {
 public:
  // A part of the server that can change while it runs: its settings, and the function that applies
  // new values.
  struct Part {
    std::vector<std::string> settings;
    std::function<void(const Settings&)> apply;
  };
  struct Outcome {
    std::vector<std::string> changed;       // "name = value", now in force
    std::vector<std::string> need_restart;  // names; their values from the start stay in force
  };

  Reloader(const Settings& at_start, std::vector<Part> parts);

  // Applies the settings that changed. `fresh`: from file, environment and flags, as at the start.
  Outcome Apply(const Settings& fresh);

 private:
  const std::vector<Part> parts_;
  std::map<std::string, std::string> in_force_;
};

}  // namespace nearfield::server
