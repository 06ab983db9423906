// nearfield export
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "client/cli/command.h"
#include "client/cli/filter_option.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/progress.h"
#include "client/cli/row_files.h"
#include "client/cli/text_output.h"
#include "client/formats/status_macros.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

struct ExportArguments {
  std::string collection;
  RowFilesOptions files;
  std::optional<FileFormat> format;
  std::optional<Filter> filter;
  std::optional<uint64_t> min_epoch;
  std::optional<uint64_t> at_epoch;
};

// The result of an export.
struct Exported {
  uint64_t epoch = 0;
  uint64_t rows_count = 0;
  uint64_t bytes = 0;
  double seconds = 0;
};

absl::StatusOr<FileFormat> FormatToWrite(const ExportArguments& arguments) {
  auto format = FormatOf(arguments.files.path, arguments.format);
  if (format.ok()) return format;
  return absl::InvalidArgumentError(
      Cat(arguments.files.path,
          ": the name must end in .jsonl or .npy; for another name give --format"));
}

// Requests the parts of rows that the files need.
ScanOptions OptionsOf(const GlobalOptions& global, const ExportArguments& arguments,
                      const CollectionInfo& info) {
  const bool jsonl = arguments.files.format == FileFormat::kJsonl;
  ScanOptions options;
  options.with_payload = jsonl || !arguments.files.payloads_path.empty();
  if (!info.spec.attributes.empty() && (jsonl || !arguments.files.attributes_path.empty())) {
    options.attributes = {"*"};
  }
  options.filter = arguments.filter;
  options.min_epoch = arguments.min_epoch;
  options.at_epoch = arguments.at_epoch;
  options.incarnation = info.incarnation;
  options.deadline = global.timeout();
  return options;
}

// Writes all pages. The files get their names only if every row has arrived.
absl::StatusOr<Exported> WritePages(ScanPages& pages, const ExportArguments& arguments,
                                    const CollectionSpec& spec) {
  const auto begin = std::chrono::steady_clock::now();
  Exported done;
  std::unique_ptr<RowFiles> files;
  std::optional<ProgressPrinter> printer;
  for (;;) {
    absl::StatusOr<std::optional<ScanPage>> page = pages.Next();
    if (!page.ok() || !page->has_value()) {
      if (printer) printer->Finish();
      NF_RETURN_IF_ERROR(page.status());
      break;
    }
    const ScanPage& rows = **page;
    if (!files) {
      NF_ASSIGN_OR_RETURN(files,
                          AsBadInput(CreateRowFiles(arguments.files, spec, rows.rows_count)));
      printer = ProgressOnStderr(rows.rows_count);
      done.epoch = rows.epoch;
    }
    const absl::Status written = files->Write(rows);
    if (!written.ok()) {
      printer->Finish();
      return AsBadInput(written);
    }
    done.rows_count += Count(rows.ids);
    done.bytes = files->bytes();
    const auto elapsed = std::chrono::steady_clock::now() - begin;
    done.seconds = std::chrono::duration<double>(elapsed).count();
    printer->Show({.rows_sent = done.rows_count, .bytes_sent = done.bytes, .elapsed = elapsed});
    if (rows.next_cursor.empty() && done.rows_count != rows.rows_count) {
      return absl::InternalError(
          Cat("malformed reply: ", done.rows_count, " rows of ", rows.rows_count, " arrived"));
    }
  }
  NF_RETURN_IF_ERROR(AsBadInput(files->Publish()));
  return done;
}

// With rows on standard output, the result goes to standard error.
void PrintExported(const GlobalOptions& global, const ExportArguments& arguments,
                   const CollectionSpec& spec, const Exported& done) {
  const std::string command = CommandToMakeAgain(arguments.files, spec, done.rows_count);
  std::string text;
  if (global.json) {
    text = JsonObject()
               .Add("collection", arguments.collection)
               .Add("rows_count", done.rows_count)
               .Add("epoch", done.epoch)
               .Add("bytes", done.bytes)
               .AddJson("seconds", JsonNumber(static_cast<float>(done.seconds)))
               .Add("upload_command", command)
               .ToString() +
           "\n";
  } else {
    text = Cat("exported ", Grouped(done.rows_count), " rows (",
               HumanBytes(static_cast<double>(done.bytes)), ") of ",
               Printable(arguments.collection), " in ", HumanSeconds(done.seconds), "; epoch ",
               done.epoch, "\nmake the collection again: ", command, "\n");
  }
  const bool rows_on_stdout = arguments.files.path == "-";
  std::fwrite(text.data(), 1, text.size(), rows_on_stdout ? stderr : stdout);
}

absl::StatusOr<int> RunExport(const GlobalOptions& global, ExportArguments& arguments) {
  NF_ASSIGN_OR_RETURN(arguments.files.format, FormatToWrite(arguments));
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const CollectionInfo info, client.GetCollection(arguments.collection));
  NF_RETURN_IF_ERROR(CheckRowFiles(arguments.files, info.spec));
  if (arguments.files.format == FileFormat::kNpy && arguments.files.ids_path.empty()) {
    PrintError("without --ids the file has no ids: an upload of it numbers the rows 0, 1, 2, ...");
  }
  NF_ASSIGN_OR_RETURN(ScanPages pages,
                      client.Scan(arguments.collection, OptionsOf(global, arguments, info)));
  const absl::StatusOr<Exported> done = WritePages(pages, arguments, info.spec);
  if (!done.ok()) {
    const int exit_code = ReportError(global, done.status());
    if (arguments.files.path != "-") PrintError("no file was written");
    return exit_code;
  }
  PrintExported(global, arguments, info.spec, *done);
  return kExitOk;
}

}  // namespace

void AddExportCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<ExportArguments>();
  RowFilesOptions& files = arguments->files;
  CLI::App* command = app.add_subcommand(
      "export", "Write the rows of a collection to files that upload reads back");
  command->add_option("collection", arguments->collection, "The collection")->required();
  command
      ->add_option("file", files.path,
                   "The rows: .jsonl with ids, vectors, payloads and attributes, or .npy with the "
                   "vectors; - writes .jsonl to standard output")
      ->required();
  AddFormatOption(*command, &arguments->format);
  command->add_option(
      "--ids", files.ids_path,
      "With .npy: a file of ids: .npy of uint64, .jsonl, or a text with one a line");
  command->add_option("--payloads", files.payloads_path,
                      "With .npy: a .jsonl file of payloads, one JSON value a row");
  command->add_option("--attributes", files.attributes_path,
                      "With .npy: a .jsonl file of attributes, one JSON object a row");
  AddFilterOption(*command, &arguments->filter, "Only rows that pass");
  AddEpochOptions(*command, &arguments->min_epoch, &arguments->at_epoch);
  command->footer(
      std::string(
          "All rows are of one epoch, in the order of their ids, whatever is uploaded or deleted "
          "meanwhile. After a\n"
          "lost connection the export goes on in the same epoch, as long as the server keeps it. "
          "Files get their\n"
          "names only when they are complete, and replace files of these names.\n"
          "An upload of the files makes an equal collection: vectors, attributes and payloads come "
          "back to the bit.\n"
          "The command for it is printed. Payloads that are no compact JSON are written as JSON "
          "strings, those that\n"
          "are not UTF-8 as {\"$base64\": \"...\"}.\n"
          "\n") +
      std::string(kFilterHelp) +
      "\n"
      "Examples:\n"
      "  nearfield export docs docs.jsonl\n"
      "  nearfield export docs - --filter 'year >= 2020' | gzip > docs.jsonl.gz\n"
      "  nearfield export docs docs.npy --ids docs.ids.jsonl --payloads docs.payloads.jsonl "
      "--attributes docs.attributes.jsonl");
  OnChosen(command, action, [&global, arguments] { return RunExport(global, *arguments); });
}

}  // namespace nearfield::client
