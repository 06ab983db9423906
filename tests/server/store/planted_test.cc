// Tests that the shipped library has no planted bugs: neither the switch nor their names.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace nearfield::store {
namespace {

bool Holds(const std::string& path, const std::string& text) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {}).find(text) != std::string::npos;
}

TEST(StorePlantedBugTest, OnlyTheTestLibraryKnowsThem) {
  for (const char* const text : {"NEARFIELD_PLANTED_BUG", "commit_before_sync", "late_epoch"}) {
    EXPECT_TRUE(Holds(NEARFIELD_STORE_PLANTED_LIBRARY, text)) << text;
    EXPECT_FALSE(Holds(NEARFIELD_STORE_LIBRARY, text)) << text;
  }
}

}  // namespace
}  // namespace nearfield::store
