#include "client/command_line/completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "client/command_line/command_tree.h"

namespace nearfield {
namespace {

// The scripts call the chain of commands typed so far "/collections/create".
std::string ChainOf(const std::string& path) {
  std::string chain = path.empty() ? "" : "/" + path;
  std::replace(chain.begin(), chain.end(), ' ', '/');
  return chain;
}

std::string Words(const std::vector<std::string>& words, std::string_view separator = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : std::string(separator)) + word;
  return text;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// Returns the first sentence of a description, without the default in brackets.
std::string Summary(const std::string& text) {
  std::string summary =
      text.substr(0, std::min({text.find(". "), text.find(" ["), text.find('\n')}));
  if (summary.ends_with('.')) summary.pop_back();
  return summary;
}

std::string SummaryOf(const CommandNode& node, const std::string& command) {
  return Summary(node.app->get_subcommand(command)->get_description());
}

std::string FunctionOf(const CLI::App& program) {
  return "_" + Replaced(program.get_name(), "-", "_");
}

// Returns the patterns of a shell's case: all chains, separated by `separator`.
std::string Chains(const std::vector<CommandNode>& nodes, std::string_view separator) {
  std::vector<std::string> chains;
  for (const CommandNode& node : nodes) {
    if (!node.path.empty()) chains.push_back(ChainOf(node.path));
  }
  return chains.empty() ? "/" : Words(chains, separator);
}

// Calls visit(chain, option name, option) for each spelling of each option that takes a value.
template <typename Visit>
void ForEachValue(const std::vector<CommandNode>& nodes, const Visit& visit) {
  for (const CommandNode& node : nodes) {
    for (const OptionNode& option : node.options) {
      if (option.value.empty()) continue;
      for (const std::string& name : option.names) visit(ChainOf(node.path), name, option);
    }
  }
}

std::string Bash(const CLI::App& program, const std::vector<CommandNode>& nodes) {
  std::string values;
  ForEachValue(nodes, [&](const std::string& chain, const std::string& name, const OptionNode& of) {
    values += "    '" + chain + " " + name + "') words='" + Words(of.choices) + "' value=1 ;;\n";
  });
  std::string words;
  for (const CommandNode& node : nodes) {
    std::vector<std::string> names;
    for (const OptionNode& option : node.options) {
      names.insert(names.end(), option.names.begin(), option.names.end());
    }
    words += "      '" + ChainOf(node.path) + "') commands='" + Words(node.commands) +
             "' options='" + Words(names) + "' ;;\n";
  }
  return FunctionOf(program) + R"(() {
  local chain='' commands='' options='' words='' value='' i
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$chain/${COMP_WORDS[i]}" in
      )" +
         Chains(nodes, " | ") +
         R"() chain=$chain/${COMP_WORDS[i]} ;;
    esac
  done
  # --option=value arrives as three words.
  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
  case "$chain $prev" in
)" + values +
         R"(  esac
  if [[ -z $value ]]; then
    case $chain in
)" + words +
         R"(    esac
    words=$commands
    if [[ $cur == -* ]]; then words=$options; fi
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o bashdefault -o default -F )" +
         FunctionOf(program) + " " + program.get_name() + "\n";
}

// Returns 'NAME:SUMMARY' for _describe.
std::string Described(const std::string& name, const std::string& summary) {
  return " '" + Replaced(name, ":", "\\:") + ":" +
         Replaced(Replaced(summary, ":", "\\:"), "'", "'\\''") + "'";
}

std::string Zsh(const CLI::App& program, const std::vector<CommandNode>& nodes) {
  const std::string function = "_" + program.get_name();  // the name of its file
  std::string values;
  ForEachValue(nodes, [&](const std::string& chain, const std::string& name, const OptionNode& of) {
    values += "    '" + chain + " " + name + "') " +
              (of.choices.empty() ? "_files" : "compadd -- " + Words(of.choices)) + "; return ;;\n";
  });
  std::string words;
  for (const CommandNode& node : nodes) {
    std::string commands;
    for (const std::string& each : node.commands) {
      commands += Described(each, SummaryOf(node, each));
    }
    std::string options;
    for (const OptionNode& option : node.options) {
      for (const std::string& name : option.names) {
        options += Described(name, Summary(option.description));
      }
    }
    words.append("    '" + ChainOf(node.path) + "')\n      commands=(").append(commands);
    words.append(")\n      options=(").append(options).append(") ;;\n");
  }
  return "#compdef " + program.get_name() + "\n" + function + R"(() {
  local chain='' i
  local -a commands options
  for ((i = 2; i < CURRENT; i++)); do
    case "$chain/${words[i]}" in
      )" +
         Chains(nodes, " | ") +
         R"() chain=$chain/${words[i]} ;;
    esac
  done
  case "$chain ${words[CURRENT - 1]}" in
)" + values +
         R"(  esac
  case $chain in
)" + words +
         R"(  esac
  if [[ $PREFIX == -* ]]; then
    _describe option options
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}
if [[ $funcstack[1] == )" +
         function + R"( ]]; then
  )" + function +
         R"( "$@"
else
  compdef )" +
         function + " " + program.get_name() + "\nfi\n";
}

std::string FishQuoted(const std::string& text) {
  return "'" + Replaced(Replaced(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string Fish(const CLI::App& program, const std::vector<CommandNode>& nodes) {
  const std::string at = "_" + FunctionOf(program) + "_at";
  std::string script = "function " + at + R"(
  set -l chain ''
  for word in (commandline -opc)[2..]
    switch "$chain/$word"
      case )" + Chains(nodes, " ") +
                       R"(
        set chain "$chain/$word"
    end
  end
  test "$chain" = "$argv[1]"
end
)";
  for (const CommandNode& node : nodes) {
    const std::string begin =
        "complete -c " + program.get_name() + " -n '" + at + " \"" + ChainOf(node.path) + "\"'";
    for (const std::string& each : node.commands) {
      script.append(begin).append(" -f -a ").append(each);
      script.append(" -d ").append(FishQuoted(SummaryOf(node, each))).append("\n");
    }
    for (const OptionNode& option : node.options) {
      script += begin;
      for (const std::string& name : option.names) {
        script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!option.choices.empty()) {
        script += " -x -a " + FishQuoted(Words(option.choices));
      } else if (!option.value.empty()) {
        script += " -r";
      }
      script += " -d " + FishQuoted(Summary(option.description)) + "\n";
    }
  }
  return script;
}

}  // namespace

std::string CompletionScript(const CLI::App& program, std::string_view shell) {
  const std::vector<CommandNode> nodes = CommandsOf(program);
  if (shell == "zsh") return Zsh(program, nodes);
  return shell == "fish" ? Fish(program, nodes) : Bash(program, nodes);
}

}  // namespace nearfield
