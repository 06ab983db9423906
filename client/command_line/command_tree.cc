#include "client/command_line/command_tree.h"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

namespace nearfield {
namespace {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// Returns the choices in the name of a type: "TEXT:{dot,cosine}" or "auto|cpu|gpu".
std::vector<std::string> ChoicesIn(const std::string& type) {
  const size_t begin = type.find('{');
  const size_t end = type.find('}');
  if (begin != std::string::npos && end != std::string::npos) {
    return Split(type.substr(begin + 1, end - begin - 1), ',');
  }
  return type.find('|') == std::string::npos ? std::vector<std::string>() : Split(type, '|');
}

OptionNode NodeOf(const CLI::Option& option) {
  OptionNode node{.description = option.get_description(), .environment = option.get_envname()};
  for (const std::string& name : option.get_snames()) node.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) node.names.push_back("--" + name);
  if (option.get_items_expected_max() == 0) return node;
  const std::string type = option.get_type_name();
  node.choices = ChoicesIn(type);
  node.value = type.substr(0, type.find(':'));
  if (node.value.empty()) node.value = "VALUE";
  return node;
}

std::string ArgumentOf(const CLI::Option& option) {
  const bool many = option.get_items_expected_max() > 1;
  const std::string name = option.get_name(/*positional=*/true) + (many ? "..." : "");
  return option.get_required() ? name : "[" + name + "]";
}

CommandNode NodeOf(const CLI::App& app, const std::string& path,
                   const std::vector<OptionNode>& inherited) {
  CommandNode node{.app = &app, .path = path};
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!each->get_group().empty()) node.commands.push_back(each->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->nonpositional()) {
      node.options.push_back(NodeOf(*option));
    } else {
      node.arguments.push_back(ArgumentOf(*option));
    }
  }
  node.options_own_count = node.options.size();
  for (const OptionNode& option : inherited) {
    if (option.names.back() != "--help") node.options.push_back(option);
  }
  return node;
}

void Collect(const CLI::App& app, const std::string& path, const std::vector<OptionNode>& inherited,
             std::vector<CommandNode>* nodes) {
  CommandNode node = NodeOf(app, path, inherited);
  const std::vector<OptionNode> options = node.options;
  nodes->push_back(std::move(node));
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (each->get_group().empty()) continue;
    Collect(*each, path.empty() ? each->get_name() : path + " " + each->get_name(), options, nodes);
  }
}

}  // namespace

std::vector<CommandNode> CommandsOf(const CLI::App& program) {
  std::vector<CommandNode> nodes;
  Collect(program, "", {}, &nodes);
  return nodes;
}

CommandNode NodeOnCommandLine(const CLI::App& program) {
  CommandNode found;
  for (CommandNode& node : CommandsOf(program)) {
    if (node.path.empty() || node.app->parsed()) found = std::move(node);
  }
  return found;
}

}  // namespace nearfield
