// Compares the table of settings in server/DESIGN.md with the declarations in
// server/config/settings.h. If the variable NEARFIELD_WRITE_SETTINGS is set, rewrites the table.
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
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

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file.good()) << path << ": cannot be read";
  return text.str();
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
  const char* write =
      std::getenv("NEARFIELD_WRITE_SETTINGS");  // NOLINT(concurrency-mt-unsafe): single thread
  if (write != nullptr) {
    std::ofstream(path) << text.substr(0, begin) << expected << text.substr(end);
    return;
  }
  EXPECT_TRUE(text.substr(begin, end - begin) == expected)
      << path << ": the table is not that of the declarations, which follows. Set "
      << "NEARFIELD_WRITE_SETTINGS=1 to write it.\n"
      << expected;
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
