// Tests of suggestions, completions and manual pages, with a small program of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "client/command_line/command_tree.h"
#include "client/command_line/completion.h"
#include "client/command_line/man_page.h"
#include "client/command_line/suggest.h"

namespace nearfield {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Suggest, TheClosestWordWithinAThirdOfTheLetters) {
  const std::vector<std::string> known = {"list", "listen", "show", "search", "k-max"};
  EXPECT_EQ(Closest("lst", known), "list");
  EXPECT_EQ(Closest("lisen", known), "listen");
  EXPECT_EQ(Closest("listne", known), "listen") << "neighbors exchanged are one edit";
  EXPECT_EQ(Closest("searhc", known), "search");
  EXPECT_EQ(Closest("kmax", known), "k-max");
  EXPECT_EQ(Closest("show", known), "show");
  EXPECT_EQ(Closest("drop", known), std::nullopt);
  EXPECT_EQ(Closest("", known), std::nullopt);
  EXPECT_EQ(Closest("list", {}), std::nullopt);
  EXPECT_EQ(DidYouMean("lst", known), "; did you mean list?");
  EXPECT_EQ(DidYouMean("drop", known), "");
}

class Program : public ::testing::Test {
 protected:
  Program() : app_("tool: does things.\nAnd more of them.", "my-tool") {
    app_.fallthrough();
    app_.add_option("-a,--address", address_, "The server's host: and port")->envname("MY_ADDRESS");
    CLI::App* group = app_.add_subcommand("things", "Make and show things");
    group->require_subcommand(1);
    CLI::App* make = group->add_subcommand("make", "Make a thing [none]");
    make->add_option("name", name_, "Its name")->required();
    make->add_option("--color", color_, "Its color")->check(CLI::IsMember({"red", "blue"}));
    make->add_flag("--quick", quick_, "Do not wait");
    make->footer("Example:\n  my-tool things make a\n.dots and 'quotes'");
    group->add_subcommand("wait", "Wait")->add_flag("--quick", quick_, "Not for long");
    app_.add_subcommand("secret", "For the build")->group("");
    app_.footer("Exit codes:\n  0  done\n  1  not");
  }

  CLI::App app_;
  std::string address_;
  std::string name_;
  std::string color_;
  bool quick_ = false;
};

TEST_F(Program, TheTreeHasEveryCommandAndOptionThatIsNotHidden) {
  const std::vector<CommandNode> nodes = CommandsOf(app_);
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[0].path, "");
  EXPECT_THAT(nodes[0].commands, ElementsAre("things"));
  EXPECT_EQ(nodes[1].path, "things");
  EXPECT_EQ(nodes[2].path, "things make");
  EXPECT_THAT(nodes[2].arguments, ElementsAre("name"));
  ASSERT_EQ(nodes[2].options.size(), 4u) << "help, color, quick, and the inherited address";
  EXPECT_EQ(nodes[2].options_own_count, 3u);
  EXPECT_THAT(nodes[2].options[1].choices, ElementsAre("red", "blue"));
  EXPECT_EQ(nodes[2].options[2].value, "");
  EXPECT_THAT(nodes[2].options[3].names, ElementsAre("-a", "--address"));
  EXPECT_EQ(nodes[2].options[3].environment, "MY_ADDRESS");
}

TEST_F(Program, AnUnknownArgumentIsNamedAtItsCommand) {
  const auto unknown = [this](const std::string& line) -> std::string {
    try {
      app_.parse(line);
    } catch (const CLI::ParseError&) {
      return UnknownArgument(app_).value_or("none");
    }
    return "accepted";
  };
  EXPECT_EQ(unknown("thing"),
            "thing: no such command; did you mean things? The commands of my-tool: things");
  EXPECT_EQ(unknown("things mkae"),
            "mkae: no such command; did you mean make? The commands of my-tool things: make, wait");
  EXPECT_EQ(unknown("things make a --colour=red"),
            "--colour: no such option; did you mean --color?");
  EXPECT_EQ(unknown("things make a --adress x"),
            "--adress: no such option; did you mean --address?");
  EXPECT_EQ(unknown("things make a --zzz"),
            "--zzz: no such option; see my-tool things make --help");
  EXPECT_EQ(unknown("things make a b"), "b: an argument too many; see my-tool things make --help");
  EXPECT_EQ(unknown("things wait --quick maybe"),
            "maybe: an argument too many; a flag takes its value after '=', such as --quick=false");
  EXPECT_EQ(unknown("things wait b"), "b: an argument too many; see my-tool things wait --help");
  EXPECT_EQ(unknown("things make --color green"), "none");
  EXPECT_EQ(unknown("things make a"), "accepted");
}

TEST_F(Program, CompletionsNameWordsAndChoices) {
  for (const std::string_view shell : kShells) {
    const std::string script = CompletionScript(app_, shell);
    EXPECT_THAT(script, AllOf(HasSubstr("my-tool"), HasSubstr("things"), HasSubstr("red blue"),
                              Not(HasSubstr("secret"))))
        << shell;
  }
}

TEST_F(Program, TheManualPageHasEverySection) {
  const std::string page = ManPage(app_, {.section = 1, .version = "9", .see_also = "other(8)"});
  EXPECT_THAT(page, HasSubstr(".TH MY\\-TOOL 1 \"\" \"nearfield 9\""));
  EXPECT_THAT(page, HasSubstr("my\\-tool \\- tool: does things\n"));
  EXPECT_THAT(page, HasSubstr(".SH DESCRIPTION\nTool: does things.\nAnd more of them.\n"));
  EXPECT_EQ(page.find("Exit codes"), std::string::npos) << "commands inherit the footer";
  EXPECT_THAT(page, HasSubstr(".SS my\\-tool things make\n"));
  EXPECT_THAT(page, HasSubstr("\\fB\\-\\-color\\fR \\fIred|blue\\fR\nIts color\n"));
  EXPECT_THAT(page, HasSubstr(".br\nEnvironment: \\fBMY_ADDRESS\\fR\n"));
  EXPECT_THAT(page, HasSubstr("\\&.dots and \\(aqquotes\\(aq\n")) << "not a macro";
  EXPECT_THAT(page, HasSubstr(".SH EXIT CODES\n.EX\n  0  done\n  1  not\n.EE\n"));
  EXPECT_THAT(page, HasSubstr(".SH SEE ALSO\nother(8)\n"));
  EXPECT_THAT(page, Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace nearfield
