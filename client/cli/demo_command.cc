// nearfield demo: loads the demo corpus, and searches with the questions that ship with it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "client/cli/command.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/json_text.h"
#include "client/formats/mapped_file.h"

namespace nearfield::client {
namespace {

namespace fs = std::filesystem;

constexpr char kCollection[] = "packages";
constexpr uint32_t kDim = 384;
constexpr uint64_t kRowsCount = 5000;
constexpr char kEmbeddingModel[] = "sentence-transformers/all-MiniLM-L6-v2";

struct DemoArguments {
  std::string folder;  // empty: the one that ships with this program
  std::vector<std::string> words;
};

// Returns the file of the demo. An installation and a build folder have it at the same place, seen
// from the program.
std::string File(const DemoArguments& arguments, const char* name) {
  const fs::path folder =
      arguments.folder.empty()
          ? fs::path(ThisProgram()).parent_path().parent_path() / "share/nearfield/demo"
          : fs::path(arguments.folder);
  return (folder / name).string();
}

// Returns how a shell starts this program: by its name if it is on PATH, else by its path.
std::string ProgramWord() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment
  const char* const path = std::getenv("PATH");
  const fs::path program = ThisProgram();
  std::error_code error;
  for (const auto folder : absl::StrSplit(path == nullptr ? "" : path, ':')) {
    const fs::path found = fs::path(std::string(folder)) / "nearfield";
    if (fs::exists(found, error)) {
      return fs::equivalent(found, program, error) ? "nearfield" : program.string();
    }
  }
  return program.string();
}

// Runs `nearfield WORDS...` with the same global options.
absl::StatusOr<int> RunCommand(const GlobalOptions& global, std::vector<std::string> words) {
  CLI::App app;
  Action action;
  AddUploadCommand(app, global, &action);
  AddSearchCommand(app, global, &action);
  std::reverse(words.begin(), words.end());
  app.parse(words);
  return action();
}

// Checks that an existing collection is that of the demo, complete or empty. Errors:
// InvalidArgument (names what differs).
absl::Status CheckIsDemo(const CollectionInfo& info) {
  const auto refused = [](const auto&... difference) {
    return absl::InvalidArgumentError(Cat("collection ", kCollection, " has ", difference...,
                                          ": it is another one; drop it, or start another server"));
  };
  const CollectionSpec& spec = info.spec;
  if (spec.dim != kDim) return refused("dim ", spec.dim, ", the demo's has ", kDim);
  if (spec.metric != Metric::kDot) {
    return refused("metric ", Name(spec.metric), ", the demo's has dot");
  }
  if (spec.attributes.size() != 1 || spec.attributes.front().name != "section") {
    return refused("not the one attribute of the demo's, section");
  }
  if (info.rows_count != 0 && info.rows_count != kRowsCount) {
    return refused(Grouped(info.rows_count), " rows, the demo's has ", Grouped(kRowsCount));
  }
  return absl::OkStatus();
}

// Creates the collection and uploads the corpus. A second call only checks that it is there; two
// at the same time both succeed, because one replaces the rows by the same rows.
absl::StatusOr<int> Load(const GlobalOptions& global, const DemoArguments& arguments) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  const auto info = client.GetCollection(kCollection);
  if (info.ok()) NF_RETURN_IF_ERROR(CheckIsDemo(*info));
  if (info.ok() && info->rows_count > 0) {
    if (!global.json && !global.quiet) {
      Print(Cat(kCollection, " is loaded: ", Grouped(info->rows_count), " rows\n"));
    }
    return kExitOk;
  }
  const std::string rows = File(arguments, "packages.jsonl");
  std::vector<std::string> words = {
      "upload",     kCollection,    File(arguments, "packages.fp16.npy"),
      "--payloads", rows,           "--id-field",
      "id",         "--attributes", rows,
      "--mode",     "replace"};
  if (absl::IsNotFound(info.status())) {
    words.insert(words.end(), {"--create", "--if-missing", "--metric", "dot", "--attribute",
                               "section:keyword", "--embedding-model", kEmbeddingModel});
  } else if (!info.ok()) {
    return info.status();
  }
  return RunCommand(global, std::move(words));
}

void PrintSearches(const GlobalOptions& global, const DemoArguments& arguments) {
  const std::string program = global.address == ClientOptions().address
                                  ? ProgramWord()
                                  : Cat(ProgramWord(), " -a ", global.address);
  const std::string search = Cat("\n  ", program, " search ", kCollection);
  Print(Cat("\nThree searches to try:\n",
            "\nwith a vector, the embedding of \"convert a scanned PDF into searchable text\"",
            search, " --queries ", File(arguments, "queries.f32.npy"),
            " --row 8 -k 5 --fields summary\n",
            "\nwith a stored id, for packages like gimp, verified against the oracle", search,
            " --id gimp -k 5 --fields summary --verify\n",  //
            "\nwith words of one of the 40 questions in ", File(arguments, "queries.json"), "\n  ",
            program, " demo play chess\n"));
}

struct Question {
  size_t row = 0;  // of its embedding
  std::string text;
};

// Returns the first question that has all words.
absl::StatusOr<Question> FindQuestion(const DemoArguments& arguments) {
  const std::string path = File(arguments, "queries.json");
  NF_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  NF_RETURN_IF_ERROR(CheckJson(file.bytes().bytes));
  NF_ASSIGN_OR_RETURN(const auto questions, JsonElements(file.bytes().bytes));
  for (size_t row = 0; row < questions.size(); ++row) {
    const std::string question = JsonString(questions[row]).value_or("");
    if (std::all_of(arguments.words.begin(), arguments.words.end(), [&](const std::string& word) {
          return absl::StrContains(absl::AsciiStrToLower(question), absl::AsciiStrToLower(word));
        })) {
      return Question{.row = row, .text = question};
    }
  }
  return absl::InvalidArgumentError(
      Cat("no question has all of the words ",
          Joined(arguments.words, " ", [](const std::string& word) { return word; }),
          "; the server takes vectors, and only the questions in ", path, " have one. With the ",
          "Python package, ask anything: nearfield text --collection ", kCollection));
}

absl::StatusOr<int> RunDemo(const GlobalOptions& global, const DemoArguments& arguments) {
  if (arguments.words.empty()) {
    NF_ASSIGN_OR_RETURN(const int exit_code, Load(global, arguments));
    if (exit_code == kExitOk && !global.json) PrintSearches(global, arguments);
    return exit_code;
  }
  NF_ASSIGN_OR_RETURN(const Question question, AsBadInput(FindQuestion(arguments)));
  GlobalOptions quiet = global;
  quiet.quiet = true;
  NF_ASSIGN_OR_RETURN(const int loaded, Load(quiet, arguments));
  if (loaded != kExitOk) return loaded;
  if (!global.json) Print(Cat(question.text, "\n"));
  return RunCommand(
      global, {"search", kCollection, "--queries", File(arguments, "queries.f32.npy"), "--row",
               Cat(question.row), "-k", "5", "--fields", "summary", "--verify"});
}

}  // namespace

void AddDemoCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<DemoArguments>();
  CLI::App* command = app.add_subcommand("demo", "Load a demo corpus, and search it in words");
  command->add_option("words", arguments->words, "Words of one of the demo's 40 questions");
  command->add_option("--data", arguments->folder, "Folder of the corpus [that of this program]");
  command->footer(
      "Without words: uploads 5,000 descriptions of Debian packages, with embeddings of a real\n"
      "sentence model, to the collection packages, and prints three searches to try. If the "
      "collection\n"
      "is there, it is not changed, unless it is empty; one that is not the demo's is an error.\n"
      "With words: loads it, too, searches with the embedding of the first question that has them "
      "all, and\n"
      "verifies the answer. A server takes vectors; the questions were embedded when the corpus "
      "was made. With "
      "the\n"
      "Python package and a model, `nearfield text --collection packages` asks anything.\n"
      "\n"
      "Examples:\n"
      "  nearfield demo\n"
      "  nearfield demo play chess");
  OnChosen(command, action, [&global, arguments] { return RunDemo(global, *arguments); });
}

}  // namespace nearfield::client
