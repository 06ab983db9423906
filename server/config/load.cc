#include "server/config/load.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstring>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/command_line/completion.h"
#include "client/command_line/man_page.h"
#include "client/command_line/suggest.h"
#include "engine/base/status_macros.h"
#include "server/config/exit_code.h"
#include "server/config/file.h"
#include "server/config/paths.h"

namespace nearfield::server {
namespace {

constexpr char kDescription[] =
    "nearfield-server: exact vector retrieval over gRPC, from the memory of a GPU or of this "
    "machine.\n"
    "Every setting is a flag, an environment variable (NEARFIELD_ and the name in capitals) and a "
    "key of\n"
    "the configuration file (one 'name = value' a line); flag wins over environment over file.";

constexpr char kPrefix[] = "NEARFIELD_";
constexpr char kConfigVariable[] = "NEARFIELD_CONFIG";
// Variables of the command `nearfield`, which may share the environment.
constexpr std::array kClientVariables = {
    "NEARFIELD_ADDRESS",    "NEARFIELD_CALLER",     "NEARFIELD_CA",      "NEARFIELD_CLIENT_CERT",
    "NEARFIELD_CLIENT_KEY", "NEARFIELD_TOKEN_FILE", "NEARFIELD_METADATA"};

// The unparsed contents of the command line.
struct CommandLine {
  std::string config_file;
  bool check_config = false;
  bool check_data_dir = false;
  std::string restore_from;
  bool demo = false;
  bool version = false;
  std::string completion;
  bool man_page = false;
  std::map<std::string, std::string> flags;  // by setting name
};

std::string ExitCodeHelp() {
  std::string text = "Exit codes:";
  for (const ExitCodeMeaning& meaning : kExitCodes) {
    absl::StrAppend(&text, "\n  ", static_cast<int>(meaning.code), "  ", meaning.text);
  }
  return text;
}

// Adds one flag for each setting. The help shows its default and limits.
void AddFlags(const Settings& settings, CLI::App* app,
              std::map<std::string, CLI::Option*>* options) {
  for (const SettingBase* setting : settings.all()) {
    const std::string text = setting->Text();
    const std::string help =
        absl::StrCat(setting->help(), " [", text.empty() ? "empty" : text, "; ", setting->Allowed(),
                     "; ", setting->environment(), "]");
    CLI::Option* option = setting->is_switch()
                              ? app->add_flag(setting->flag(), help)
                              : app->add_option(setting->flag(), help)->type_name(setting->Kind());
    (*options)[setting->name()] = option;
  }
}

// Returns InvalidArgument if `text` is the flag ("--k-max=3") or the variable ("NEARFIELD_K_MAX")
// of a renamed setting.
absl::Status CheckNotRenamedFrom(absl::string_view place, absl::string_view text,
                                 absl::string_view prefix) {
  if (!absl::ConsumePrefix(&text, prefix)) return absl::OkStatus();
  const std::string name = absl::AsciiStrToLower(text.substr(0, text.find('=')));
  return CheckNotRenamed(std::string(place), absl::StrReplaceAll(name, {{"-", "_"}}));
}

absl::StatusOr<std::optional<std::string>> ParseCommandLine(int argc, const char* const* argv,
                                                            const Settings& settings,
                                                            CommandLine* line) {
  CLI::App app(kDescription, "nearfield-server");
  app.footer(ExitCodeHelp());
  app.get_formatter()->column_width(34);
  app.add_option("--config", line->config_file, "Configuration file [NEARFIELD_CONFIG]")
      ->type_name("FILE");
  app.add_flag("--check-config", line->check_config,
               "Check the configuration, print the effective one and exit with 0 or 2");
  app.add_flag("--check-data-dir", line->check_data_dir,
               "Check every byte of data_dir, print what it holds and exit; nothing is served");
  app.add_option("--restore-from", line->restore_from,
                 "Make data_dir, which must not be there yet, from this snapshot, check every byte "
                 "of it and exit; nothing is served")
      ->type_name("SNAPSHOT");
  app.add_flag("--demo", line->demo,
               "Once the server serves, run `nearfield demo`: it loads a demo corpus, if it is not "
               "there, and prints three searches to try");
  app.add_flag("--version", line->version, "Print the version and exit");
  app.add_option("--completion", line->completion,
                 "Print the completion script of a shell and exit")
      ->check(CLI::IsMember(std::vector<std::string>(kShells.begin(), kShells.end())));
  app.add_flag("--man-page", line->man_page)->group("");  // for the build: the page is installed
  std::map<std::string, CLI::Option*> options;
  AddFlags(settings, &app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ParseError& error) {
    for (int i = 1; i < argc; ++i) {
      ABSL_RETURN_IF_ERROR(CheckNotRenamedFrom("command line", argv[i], "--"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat("command line: ", UnknownArgument(app).value_or(error.what())));
  }
  if (!line->completion.empty()) return CompletionScript(app, line->completion);
  if (line->man_page) {
    return ManPage(app, {.section = 8, .version = NEARFIELD_VERSION, .see_also = "nearfield(1)"});
  }
  for (const auto& [name, option] : options) {
    if (option->count() == 0) continue;
    if (option->count() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("command line: --", option->get_single_name(), " is given twice"));
    }
    line->flags[name] = option->results().front();
  }
  return std::nullopt;
}

absl::StatusOr<std::map<std::string, std::string>> ReadFile(const std::string& path,
                                                            const Settings& settings) {
  std::ifstream file(path);
  std::string text;
  char chunk[4096];
  // If the file is a directory, for example, the buffer throws. read() reports that in the state of
  // the stream.
  while (file.read(chunk, sizeof(chunk)), file.gcount() > 0) {
    text.append(chunk, static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) {
    return absl::NotFoundError(absl::StrCat("configuration file ", path, ": cannot be read"));
  }
  return ParseConfigFile(path, text, settings);
}

// Sets each setting from its source with the highest precedence.
absl::Status Resolve(const std::map<std::string, std::string>& file, const Environment& environment,
                     const CommandLine& line, Settings* settings) {
  for (const auto& [name, value] : environment) {
    if (value.empty()) continue;
    ABSL_RETURN_IF_ERROR(
        CheckNotRenamedFrom(absl::StrCat("environment variable ", name), name, kPrefix));
  }
  for (SettingBase* setting : settings->all()) {
    if (const auto it = file.find(setting->name()); it != file.end()) {
      ABSL_RETURN_IF_ERROR(setting->Set(it->second, SettingSource::kFile));
    }
    if (const auto it = environment.find(setting->environment());
        it != environment.end() && !it->second.empty()) {
      ABSL_RETURN_IF_ERROR(setting->Set(it->second, SettingSource::kEnvironment));
    }
    if (const auto it = line.flags.find(setting->name()); it != line.flags.end()) {
      ABSL_RETURN_IF_ERROR(setting->Set(it->second, SettingSource::kFlag));
    }
  }
  return absl::OkStatus();
}

// Adapts the defaults to the machine and checks rules that involve several settings.
absl::StatusOr<MemoryPlan> FinalizeSettings(const HostMachine& machine, Settings* settings) {
  ScaleDefaults(machine, settings);
  // A unix socket lets only some users of the machine in.
  if (absl::StartsWith(settings->listen.value(), "unix:")) settings->http_listen.SetDefault("none");
  ABSL_RETURN_IF_ERROR(ResolvePaths(ThisUser(), settings));
  ABSL_RETURN_IF_ERROR(settings->Validate());
  MemoryPlan plan = PlanMemory(*settings, machine);
  ABSL_RETURN_IF_ERROR(CheckFits(plan));
  return plan;
}

// Returns the variables that no setting has, each with a suggestion: "NEARFIELD_LISEN; did you mean
// NEARFIELD_LISTEN?".
std::vector<std::string> UnknownVariables(const Environment& environment,
                                          const Settings& settings) {
  std::set<std::string> known(kClientVariables.begin(), kClientVariables.end());
  known.insert(kConfigVariable);
  std::vector<std::string> ends;  // without the prefix, which every variable has
  for (const SettingBase* setting : settings.all()) {
    known.insert(setting->environment());
    ends.push_back(setting->environment().substr(std::strlen(kPrefix)));
  }
  std::vector<std::string> unknown;
  for (const auto& [name, value] : environment) {
    if (known.count(name) > 0) continue;
    const auto closest = Closest(std::string_view(name).substr(std::strlen(kPrefix)), ends);
    unknown.push_back(closest ? absl::StrCat(name, "; did you mean ", kPrefix, *closest, "?")
                              : name);
  }
  return unknown;
}

}  // namespace

Environment ProcessEnvironment() {
  Environment found;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(*variable, absl::MaxSplits('=', 1));
    if (absl::StartsWith(parts.first, kPrefix)) found.insert(parts);
  }
  return found;
}

absl::StatusOr<LoadOutcome> LoadSettings(int argc, const char* const* argv,
                                         const Environment& environment, Settings* settings,
                                         const HostMachine& machine) {
  CommandLine line;
  ABSL_ASSIGN_OR_RETURN(const std::optional<std::string> help,
                        ParseCommandLine(argc, argv, *settings, &line));
  using Action = LoadOutcome::Action;
  if (help.has_value()) return LoadOutcome{.action = Action::kPrint, .output = *help};
  if (line.version) {
    return LoadOutcome{.action = Action::kPrint,
                       .output = "nearfield-server " NEARFIELD_VERSION "\n"};
  }
  if (const auto it = environment.find(kConfigVariable);
      line.config_file.empty() && it != environment.end()) {
    line.config_file = it->second;
  }
  std::map<std::string, std::string> file;
  if (!line.config_file.empty()) {
    ABSL_ASSIGN_OR_RETURN(file, ReadFile(line.config_file, *settings));
  }
  ABSL_RETURN_IF_ERROR(Resolve(file, environment, line, settings));
  ABSL_ASSIGN_OR_RETURN(const MemoryPlan plan, FinalizeSettings(machine, settings));
  LoadOutcome outcome = {.demo = line.demo,
                         .snapshot_dir = line.restore_from,
                         .unknown_variables = UnknownVariables(environment, *settings)};
  const bool offline = !line.check_config && (line.check_data_dir || !line.restore_from.empty());
  if (!offline) ABSL_RETURN_IF_ERROR(settings->CheckExposure());
  if (line.check_config) {
    outcome.action = Action::kPrint;
    outcome.output = settings->Effective() + plan.Text();
    for (const std::string& name : outcome.unknown_variables) {
      absl::StrAppend(&outcome.output, "# ignored, names no setting: the environment variable ",
                      name, "\n");
    }
    return outcome;
  }
  if (!line.check_data_dir && line.restore_from.empty()) return outcome;
  if (line.check_data_dir && !line.restore_from.empty()) {
    return absl::InvalidArgumentError(
        "command line: --restore-from checks what it makes; give it or --check-data-dir");
  }
  if (!settings->keeps_data()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data_dir = \"", settings->data_dir.value(), "\": names no directory"));
  }
  outcome.action = line.check_data_dir ? Action::kCheckDataDir : Action::kRestore;
  return outcome;
}

absl::Status LoadSettingsText(const std::string& place, const std::string& text, Settings* settings,
                              const HostMachine& machine) {
  ABSL_ASSIGN_OR_RETURN(const auto values, ParseConfigFile(place, text, *settings));
  ABSL_RETURN_IF_ERROR(Resolve(values, {}, {}, settings));
  return FinalizeSettings(machine, settings).status();
}

}  // namespace nearfield::server
