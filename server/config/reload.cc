#include "server/config/reload.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace nearfield::server {

Reloader::Reloader(const Settings& at_start, std::vector<Part> parts) : parts_(std::move(parts)) {
  for (const SettingBase* setting : at_start.all()) in_force_[setting->name()] = setting->Text();
}

Reloader::Outcome Reloader::Apply(const Settings& fresh) {
  std::set<std::string> differs;
  for (const SettingBase* setting : fresh.all()) {
    if (in_force_[setting->name()] != setting->Text()) differs.insert(setting->name());
  }
  Outcome outcome;
  for (const Part& part : parts_) {
    bool changed = false;
    for (const std::string& name : part.settings) changed = differs.count(name) > 0 || changed;
    if (changed) part.apply(fresh);
    for (const std::string& name : part.settings) {
      if (differs.erase(name) > 0) outcome.changed.push_back(name);
    }
  }
  for (const SettingBase* setting : fresh.all()) {
    for (std::string& name : outcome.changed) {
      if (name != setting->name()) continue;
      in_force_[name] = setting->Text();
      absl::StrAppend(&name, " = ", setting->Text());
    }
  }
  outcome.need_restart.assign(differs.begin(), differs.end());
  return outcome;
}

}  // namespace nearfield::server
