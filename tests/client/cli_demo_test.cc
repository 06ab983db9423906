// Tests of nearfield demo. The build folder has the corpus where an installation has it.
#include "tests/client/cli_fixture.h"

namespace nearfield::client {
namespace {

TEST_F(CliTest, TheDemoIsLoadedOnce) {
  const Outcome first = Run({"demo"});
  EXPECT_THAT(first, Prints(AllOf(HasSubstr("uploaded 5,000 rows"), HasSubstr("to packages"),
                                  HasSubstr("Three searches to try"))));
  const Outcome again = Run({"demo"});
  EXPECT_THAT(again, Prints(StartsWith("packages is loaded: 5,000 rows\n")));
  EXPECT_EQ(Run({"count", "packages"}).out, "5000\n");
  EXPECT_THAT(Run({"collections", "show", "packages"}),
              Prints(HasSubstr("section:keyword  sentence-transformers/all-MiniLM-L6-v2")));
}

TEST_F(CliTest, EverySearchThatTheDemoPrintsWorks) {
  const Outcome demo = Run({"demo"});
  int searches = 0;
  std::istringstream lines(demo.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Arguments arguments{std::istream_iterator<std::string>(words), {}};
    if (line.substr(0, 2) != "  " || arguments.size() < 2) continue;
    EXPECT_EQ(arguments.front(), NEARFIELD_BINARY);  // not on PATH
    arguments.erase(arguments.begin());
    EXPECT_THAT(RunPlain(arguments), Prints(HasSubstr(": 5 neighbors"))) << line;
    ++searches;
  }
  EXPECT_EQ(searches, 3);
}

// Regression: a question right after the start of a server with --demo found no collection.
TEST_F(CliTest, TheDemoAnswersQuestionsInTheirWords) {
  EXPECT_THAT(Run({"demo", "Chess", "play"}),
              Prints(AllOf(StartsWith("play chess against the computer\n"), HasSubstr("chess"))));
  EXPECT_THAT(Run({"demo", "play", "billiards"}),
              Fails(2, AllOf(HasSubstr("no question has all of the words play billiards"),
                             HasSubstr("queries.json"))));
}

TEST_F(CliTest, TheDemoFillsAnEmptyCollectionAndLeavesAnother) {
  ASSERT_EQ(Run({"collections", "create", "packages", "--dim", "384", "--metric", "dot", "--dtype",
                 "float16", "--id-type", "string", "--attribute", "section:keyword"})
                .exit_code,
            0);
  EXPECT_THAT(Run({"demo"}), Prints(HasSubstr("uploaded 5,000 rows")));
  ASSERT_EQ(Run({"collections", "drop", "packages", "--yes"}).exit_code, 0);
  ASSERT_EQ(Run({"collections", "create", "packages", "--dim", "3", "--metric", "dot"}).exit_code,
            0);
  EXPECT_THAT(Run({"demo"}),
              Fails(2, HasSubstr("collection packages has dim 3, the demo's has 384")));
}

TEST_F(CliTest, TheDemoRefusesACollectionOfTheSameDimThatIsNotItsOwn) {
  ASSERT_EQ(Run({"collections", "create", "packages", "--dim", "384", "--metric", "dot"}).exit_code,
            0);
  EXPECT_THAT(Run({"demo"}), Fails(2, HasSubstr("has not the one attribute of the demo's")));
  EXPECT_EQ(Run({"count", "packages"}).out, "0\n");
}

TEST_F(CliTest, ADemoWithoutItsFilesNamesTheOneThatIsMissing) {
  EXPECT_THAT(Run({"demo", "--data", "/nowhere"}), Fails(2, HasSubstr("/nowhere/packages")));
  EXPECT_THAT(Run({"demo", "--data", "/nowhere", "chess"}),
              Fails(2, HasSubstr("/nowhere/queries.json")));
}

}  // namespace
}  // namespace nearfield::client
