#include "client/command_line/man_page.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

#include "client/command_line/command_tree.h"

namespace nearfield {
namespace {

// Returns a text whose characters stand for themselves.
std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '\\': escaped += "\\e"; break;
      case '-': escaped += "\\-"; break;
      case '~': escaped += "\\(ti"; break;
      case '^': escaped += "\\(ha"; break;
      case '`': escaped += "\\(ga"; break;
      case '\'': escaped += "\\(aq"; break;
      case '"': escaped += "\\(dq"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

// Returns the text line by line; a line that begins with a period is not a macro.
std::string Lines(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::string lines;
  for (std::string line; std::getline(stream, line);) {
    lines += (line.starts_with('.') ? "\\&" : "") + Escaped(line) + "\n";
  }
  return lines;
}

// Returns a text as it is, in a font for code.
std::string Literal(std::string_view text) { return ".EX\n" + Lines(text) + ".EE\n"; }

std::string Upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

// Returns the description of the program without "NAME: " at its start.
std::string DescriptionOf(const CLI::App& program) {
  const std::string text = program.get_description();
  const std::string prefix = program.get_name() + ": ";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
}

std::string OptionsOf(const CommandNode& node) {
  std::string text;
  for (size_t i = 0; i < node.options_own_count; ++i) {
    const OptionNode& option = node.options[i];
    // Each command has it; the page names it once.
    if (!node.path.empty() && option.names.back() == "--help") continue;
    std::string names;
    for (const std::string& name : option.names) {
      names += (names.empty() ? "\\fB" : ", \\fB") + Escaped(name) + "\\fR";
    }
    std::string value = option.choices.empty() ? option.value : option.choices.front();
    for (size_t j = 1; j < option.choices.size(); ++j) value.append("|").append(option.choices[j]);
    if (!value.empty()) names += " \\fI" + Escaped(value) + "\\fR";
    text += ".TP\n" + names + "\n" + Lines(option.description);
    if (!option.environment.empty()) {
      text += ".br\nEnvironment: \\fB" + Escaped(option.environment) + "\\fR\n";
    }
  }
  return text;
}

// Splits "Title:\n  line\n  line\n\nTitle:\n..." into sections.
std::string Sections(const std::string& footer) {
  std::string text;
  size_t begin = 0;
  while (begin < footer.size()) {
    const size_t end = std::min(footer.find("\n\n", begin), footer.size());
    const std::string part = footer.substr(begin, end - begin);
    const size_t title = part.find(":\n");
    if (title != std::string::npos) {
      text += ".SH " + Upper(part.substr(0, title)) + "\n" + Literal(part.substr(title + 2));
    }
    begin = end + 2;
  }
  return text;
}

std::string Synopsis(const CLI::App& program, const CommandNode& node) {
  std::string text = "\\fB" + Escaped(program.get_name()) + "\\fR";
  if (!node.path.empty()) text += " \\fB" + Escaped(node.path) + "\\fR";
  for (const std::string& argument : node.arguments) text += " \\fI" + Escaped(argument) + "\\fR";
  if (!node.commands.empty()) text += " \\fICOMMAND\\fR";
  return text + " [\\fIoptions\\fR]\n";
}

}  // namespace

std::string ManPage(const CLI::App& program, const ManPageFacts& facts) {
  const std::vector<CommandNode> nodes = CommandsOf(program);
  std::string description = DescriptionOf(program);
  const std::string summary = description.substr(0, description.find_first_of(".\n"));
  description.replace(0, 1, Upper(description.substr(0, 1)));
  std::string page = ".\\\" Written by the program itself; not to be edited.\n.TH " +
                     Upper(Escaped(program.get_name())) + " " + std::to_string(facts.section) +
                     " \"\" \"nearfield " + std::string(facts.version) + "\"\n";
  page += ".SH NAME\n" + Escaped(program.get_name()) + " \\- " + Escaped(summary) + "\n";
  page += ".SH SYNOPSIS\n" + Synopsis(program, nodes.front());
  page += ".SH DESCRIPTION\n" + Lines(description);
  page += ".SH OPTIONS\n" + OptionsOf(nodes.front());
  if (nodes.size() > 1) page += ".SH COMMANDS\n";
  for (size_t i = 1; i < nodes.size(); ++i) {
    const CommandNode& node = nodes[i];
    page += ".SS " + Escaped(program.get_name() + " " + node.path) + "\n" +
            Synopsis(program, node) + ".PP\n" + Lines(node.app->get_description() + ".") +
            OptionsOf(node);
    const std::string footer = node.app->get_footer();  // inherited if it has none of its own
    if (!footer.empty() && footer != node.app->get_parent()->get_footer()) {
      page += ".PP\n" + Literal(footer);
    }
  }
  page += Sections(program.get_footer());
  if (!facts.see_also.empty()) page += ".SH SEE ALSO\n" + Escaped(facts.see_also) + "\n";
  return page;
}

}  // namespace nearfield
