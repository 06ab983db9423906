// Compares the configuration file of the package with the declarations in server/config/settings.h.
// If the variable NEARFIELD_WRITE_SETTINGS is set, rewrites the file.
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/config/settings.h"
#include "tests/server/prelude.h"

namespace nearfield::server {
namespace {

// Returns the allowed values, without the note on the units of bytes.
std::string AllowedText(const SettingBase& setting) {
  if (dynamic_cast<const TextSetting*>(&setting) != nullptr) return "text";
  const std::string allowed = setting.Allowed();
  return absl::StrReplaceAll(allowed.substr(0, allowed.find(" (")), {{"|", ", "}});
}

constexpr char kConfigHead[] =
    "# Settings of the service nearfield-server. A line \"#name = value\" shows a default; remove "
    "the\n"
    "# \"#\" to change it. To check this file, and to apply it:\n"
    "#   nearfield-server --config /etc/nearfield/server.conf --check-config\n"
    "#   systemctl restart nearfield-server\n";

// The settings that the package sets. The service may write only in its state directory.
const std::map<std::string, std::string>& PackageValues() {
  static const auto* const values = new std::map<std::string, std::string>{
      {"data_dir", "/var/lib/nearfield/data"}, {"snapshot_dir", "/var/lib/nearfield/snapshots"}};
  return *values;
}

// Returns `text` as comment lines of at most 100 characters.
std::string Comment(const std::string& text) {
  std::string lines;
  std::string line = "#";
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (line.size() + 1 + word.size() > 100) {
      absl::StrAppend(&lines, line, "\n");
      line = "#";
    }
    absl::StrAppend(&line, " ", word);
  }
  return absl::StrCat(lines, line, "\n");
}

std::string ConfigFile(const Settings& settings) {
  std::string file = kConfigHead;
  for (const SettingBase* setting : settings.all()) {
    const bool quoted = dynamic_cast<const TextSetting*>(setting) != nullptr;
    const auto line = [&](const std::string& value) {
      return absl::StrCat(setting->name(), " = ", quoted ? absl::StrCat("\"", value, "\"") : value,
                          "\n");
    };
    absl::StrAppend(&file, "\n", Comment(setting->help()));
    if (!quoted) absl::StrAppend(&file, Comment(absl::StrCat("Allowed: ", AllowedText(*setting))));
    const auto found = PackageValues().find(setting->name());
    absl::StrAppend(
        &file, found != PackageValues().end() ? line(found->second) : "#" + line(setting->Text()));
  }
  return file;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file.good()) << path << ": cannot be read";
  return text.str();
}

// Returns true if the file is to be written instead of compared.
bool Writing() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): single thread
  return std::getenv("NEARFIELD_WRITE_SETTINGS") != nullptr;
}

TEST(ServerConf, EqualsTheDeclarations) {
  const std::string path = NEARFIELD_SERVER_CONFIG;
  const std::string expected = ConfigFile(Settings());
  if (Writing()) {
    std::ofstream(path) << expected;
    return;
  }
  EXPECT_TRUE(Read(path) == expected)
      << path
      << " does not show the declared settings. Set NEARFIELD_WRITE_SETTINGS=1 to write it.";
}

// --help, the manual page and server.conf print the help.
TEST(ServerConf, EveryHelpIsSentencesOfOneParagraph) {
  const Settings settings;
  for (const SettingBase* setting : settings.all()) {
    EXPECT_TRUE(absl::EndsWith(setting->help(), ".")) << setting->name();
    EXPECT_EQ(setting->help().find('\n'), std::string::npos) << setting->name();
  }
}

}  // namespace
}  // namespace nearfield::server
