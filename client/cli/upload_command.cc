// nearfield upload
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/progress.h"
#include "client/cli/text_output.h"
#include "client/formats/row_source.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

struct UploadArguments {
  std::string collection;
  RowSourceOptions source;
  bool create = false;
  std::optional<Metric> metric;
  uint64_t block_bytes_max = UploadOptions().block_bytes_max;
};

absl::Status CheckArguments(const UploadArguments& arguments) {
  if (arguments.create && !arguments.metric) {
    return absl::InvalidArgumentError("--create needs --metric dot, cosine or l2");
  }
  if (!arguments.create && arguments.metric) {
    return absl::InvalidArgumentError("--metric is fixed when a collection is made: add --create");
  }
  if (arguments.source.id_field.empty()) return absl::OkStatus();
  if (arguments.source.payloads_path.empty() || !arguments.source.ids_path.empty()) {
    return absl::InvalidArgumentError("--id-field needs --payloads FILE, and no --ids");
  }
  return absl::OkStatus();
}

// What the collection fixes, the files must agree with.
absl::Status CheckAgainst(const CollectionInfo& info, const RowSource::Shape& shape) {
  const std::string name = Cat("collection ", info.spec.name);
  if (shape.dim != info.spec.dim) {
    return absl::InvalidArgumentError(
        Cat("the file's vectors have dim ", shape.dim, ", ", name, " has dim ", info.spec.dim));
  }
  if (shape.dtype != info.spec.dtype) {
    return absl::InvalidArgumentError(
        Cat("the file holds ", Name(shape.dtype), ", ", name, " stores ", Name(info.spec.dtype),
            "; rows are stored as they come: convert the file, or make a collection with --dtype ",
            Name(shape.dtype)));
  }
  return absl::OkStatus();
}

size_t TerminalWidth() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Rows from the source to the server, in one upload.
absl::StatusOr<UploadResult> SendRows(Client& client, RowSource& source,
                                      const UploadOptions& options, absl::Status* bad_input) {
  absl::StatusOr<Upload> upload = client.BeginUpload(options);
  if (!upload.ok()) return upload.status();
  // A little less than a block, so that ids do not push a few rows into a block of their own.
  const uint64_t batch_bytes_max = options.block_bytes_max - options.block_bytes_max / 8;
  for (RowBatch batch;;) {
    *bad_input = source.Next(batch_bytes_max, &batch);
    if (!bad_input->ok()) return *bad_input;
    if (Count(batch.ids) == 0) break;
    const absl::Status sent = upload->Write({.ids = &batch.ids,
                                             .dtype = source.shape().dtype,
                                             .vectors = batch.vectors,
                                             .payloads = batch.payloads});
    if (!sent.ok()) return sent;
  }
  return upload->Commit();
}

void PrintResult(const GlobalOptions& global, const UploadArguments& arguments,
                 const UploadResult& result, const UploadProgress& progress) {
  const double seconds = std::chrono::duration<double>(progress.elapsed).count();
  if (global.json) {
    Print(Cat(JsonObject()
                  .Add("collection", std::string_view(arguments.collection))
                  .Add("rows_count", result.rows_count)
                  .Add("epoch", result.epoch)
                  .Add("bytes_sent", progress.bytes_sent)
                  .AddJson("seconds", JsonNumber(static_cast<float>(seconds)))
                  .ToString(),
              "\n"));
    return;
  }
  Print(Cat("uploaded ", Grouped(result.rows_count), " rows (",
            HumanBytes(static_cast<double>(progress.bytes_sent)), ") to ",
            Printable(arguments.collection), " in ", HumanSeconds(seconds), ", ",
            HumanBytes(progress.bytes_per_second()), "/s; visible from epoch ", result.epoch,
            "\n"));
}

int Send(const GlobalOptions& global, const UploadArguments& arguments, Client& client,
         RowSource& source) {
  const RowSource::Shape& shape = source.shape();
  ProgressPrinter printer(
      {.rows_total = shape.rows_count,
       .terminal = isatty(STDERR_FILENO) != 0,
       .width = TerminalWidth(),
       .write = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }});
  UploadProgress last;
  UploadOptions options{.collection = arguments.collection,
                        .rows_max = shape.rows_count,
                        .payload_bytes_max = shape.payload_bytes,
                        .block_bytes_max = arguments.block_bytes_max,
                        .deadline = global.timeout(),
                        .on_progress = [&](const UploadProgress& progress) {
                          last = progress;
                          printer.Show(progress);
                        }};
  absl::Status bad_input;
  const auto result = SendRows(client, source, options, &bad_input);
  printer.Finish();
  if (!bad_input.ok()) return BadInput(bad_input);
  if (!result.ok()) {
    const int exit_code = CallFailed(global, result.status());
    if (arguments.create) {
      PrintError(Cat("collection ", arguments.collection, " was made, and is empty"));
    }
    return exit_code;
  }
  PrintResult(global, arguments, *result, last);
  return kExitOk;
}

int RunUpload(const GlobalOptions& global, UploadArguments& arguments) {
  if (const absl::Status status = CheckArguments(arguments); !status.ok()) return BadInput(status);
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  std::optional<CollectionInfo> info;
  if (!arguments.create) {
    auto found = client->GetCollection(arguments.collection);
    if (!found.ok()) {
      const int exit_code = CallFailed(global, found.status());
      if (exit_code == kExitNegative) PrintError("make it with --create --metric METRIC");
      return exit_code;
    }
    info = *std::move(found);
    arguments.source.id_type = info->spec.id_type;
    // Bytes that only their reader can name are read as what the collection stores.
    if (!arguments.source.dtype && info->spec.dtype == DataType::kBFloat16) {
      arguments.source.dtype = info->spec.dtype;
    }
    const auto format = FormatOf(arguments.source.path);
    const bool jsonl = arguments.source.format ? *arguments.source.format == FileFormat::kJsonl
                                               : format.ok() && *format == FileFormat::kJsonl;
    if (jsonl && !arguments.source.dtype) arguments.source.dtype = info->spec.dtype;
  }
  const auto source = OpenRowSource(arguments.source);
  if (!source.ok()) return BadInput(source.status());
  const RowSource::Shape& shape = (*source)->shape();
  if (info) {
    const absl::Status agrees = CheckAgainst(*info, shape);
    if (!agrees.ok()) return BadInput(agrees);
  } else {
    const auto created = client->CreateCollection({.name = arguments.collection,
                                                   .dim = shape.dim,
                                                   .metric = *arguments.metric,
                                                   .dtype = shape.dtype,
                                                   .id_type = shape.id_type});
    if (!created.ok()) return CallFailed(global, created.status());
  }
  return Send(global, arguments, *client, **source);
}

}  // namespace

void AddUploadCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<UploadArguments>();
  RowSourceOptions& source = arguments->source;
  CLI::App* command = app.add_subcommand("upload", "Add the rows of a file to a collection");
  command->add_option("collection", arguments->collection, "The collection")->required();
  command->add_option("file", source.path, "The vectors: .npy, .fbin, .fvecs or .jsonl")
      ->required();
  AddFormatOption(*command, &source.format);
  AddDataTypeOption(*command, &source.dtype,
                    "What the file's elements are: needed for bfloat16, which .npy stores as <u2; "
                    "for .jsonl with "
                    "--create: what to store");
  command->add_option(
      "--ids", source.ids_path,
      "Ids, one a row: a text with one a line, .jsonl, or .npy of uint64 [0, 1, 2, ...]");
  command->add_option("--payloads", source.payloads_path,
                      "Payloads: .jsonl, one JSON object a row");
  command->add_option("--id-field", source.id_field,
                      "Take the ids from this member of the payloads");
  AddIdTypeOption(*command, &source.id_type,
                  "With --create: how to read a text of ids [string]; the file decides otherwise");
  command->add_flag("--create", arguments->create,
                    "Make the collection first, with the file's dimension and type");
  AddMetricOption(*command, &arguments->metric);
  command
      ->add_option("--block-bytes", arguments->block_bytes_max,
                   "Bytes of a message, at most; each must arrive within the server's "
                   "upload_idle_ms, so less over a slow line")
      ->check(CLI::Range(uint64_t{1024}, uint64_t{1} << 30).description("BYTES"))
      ->capture_default_str();
  command->footer(
      "All rows become visible at once, at the end; an upload that fails or is interrupted leaves "
      "nothing behind.\n"
      "Text files are checked from end to end before the first byte is sent. Files are read as "
      "they are sent, so\n"
      "they may be larger than memory; do not change them meanwhile.\n"
      "\n"
      "Formats:\n"
      "  .npy    a 2-D array, C order, <f4 or <f2; bfloat16 as <u2 with --dtype bfloat16\n"
      "  .fbin   int32 rows, int32 dim, then fp32 values\n"
      "  .fvecs  rows of int32 dim and fp32 values\n"
      "  .jsonl  {\"id\": 7, \"vector\": [0.1, ...], \"payload\": {\"title\": \"...\"}} a line; id "
      "and payload may be\n"
      "          absent; a payload that is a string is stored as its text, any other as compact "
      "JSON\n"
      "\n"
      "Examples:\n"
      "  nearfield upload docs docs.npy --create --metric cosine --payloads docs.jsonl --id-field "
      "id\n"
      "  nearfield upload docs more.jsonl\n"
      "  nearfield upload sift base.fvecs --create --metric l2 --ids ids.npy");
  command->callback([&global, action, arguments] {
    *action = [&global, arguments] { return RunUpload(global, *arguments); };
  });
}

}  // namespace nearfield::client
