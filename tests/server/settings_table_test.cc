// Compares the table of settings in server/DESIGN.md and the configuration file of the package with
// the declarations in server/config/settings.h. If the variable NEARFIELD_WRITE_SETTINGS is set,
// rewrites both.
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

constexpr char kBegin[] = "<!-- Settings, generated from server/config/settings.h -->\n";
constexpr char kEnd[] = "<!-- End of the settings -->\n";

// Returns the allowed values. The note on the units of bytes is omitted: the text above the table
// has it.
std::string AllowedText(const SettingBase& setting) {
  if (dynamic_cast<const TextSetting*>(&setting) != nullptr) return "text";
  const std::string allowed = setting.Allowed();
  return absl::StrReplaceAll(allowed.substr(0, allowed.find(" (")), {{"|", ", "}});
}

std::string Table(const Settings& settings) {
  std::string table = "| Setting | Default | Allowed | Meaning |\n| --- | --- | --- | --- |\n";
  for (const SettingBase* setting : settings.all()) {
    const std::string text = setting->Text();
    absl::StrAppend(&table, "| `", setting->name(), "` | ", text.empty() ? "empty" : text, " | ",
                    AllowedText(*setting), " | ", setting->help(), " |\n");
  }
  return table;
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

// Returns true if the generated texts are to be written instead of compared.
bool Writing() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): single thread
  return std::getenv("NEARFIELD_WRITE_SETTINGS") != nullptr;
}

TEST(SettingsTable, EqualsTheDeclarations) {
  const std::string path = NEARFIELD_SERVER_DESIGN;
  const std::string text = Read(path);
  const size_t before = text.find(kBegin);
  ASSERT_NE(before, std::string::npos) << path << " has no line " << kBegin;
  const size_t begin = before + sizeof(kBegin) - 1;
  const size_t end = text.find(kEnd, begin);
  ASSERT_NE(end, std::string::npos) << path << " has no line " << kEnd;
  const std::string expected = Table(Settings());
  if (Writing()) {
    std::ofstream(path) << text.substr(0, begin) << expected << text.substr(end);
    return;
  }
  EXPECT_TRUE(text.substr(begin, end - begin) == expected)
      << path << ": the table is not that of the declarations, which follows. Set "
      << "NEARFIELD_WRITE_SETTINGS=1 to write it.\n"
      << expected;
}

TEST(SettingsTable, TheConfigurationFileOfThePackageEqualsTheDeclarations) {
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

// The help is printed in a Markdown cell and after the flag.
TEST(SettingsTable, EveryHelpIsSentencesThatFitInACell) {
  const Settings settings;
  for (const SettingBase* setting : settings.all()) {
    EXPECT_TRUE(absl::EndsWith(setting->help(), ".")) << setting->name();
    EXPECT_EQ(setting->help().find_first_of("|<>\n"), std::string::npos) << setting->name();
  }
}

}  // namespace
}  // namespace nearfield::server
