// nearfield upload
#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>

#include "client/cli/command.h"
#include "client/cli/interrupt_watch.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/progress.h"
#include "client/cli/text_output.h"
#include "client/cli/upload_resume.h"
#include "client/cli/upload_target.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/row_source.h"

namespace nearfield::client {
namespace {

struct UploadArguments {
  std::string collection;
  RowSourceOptions source;
  TargetOptions target;
  UploadMode mode = UploadMode::kInsert;
  bool accept_zero_rows = false;
  std::string token;
  uint64_t block_bytes_max = UploadOptions().block_bytes_max;
};

absl::Status CheckArguments(const UploadArguments& arguments) {
  NF_RETURN_IF_ERROR(CheckTargetOptions(arguments.target));
  if (arguments.source.id_field.empty()) return absl::OkStatus();
  if (arguments.source.payloads_path.empty() || !arguments.source.ids_path.empty()) {
    return absl::InvalidArgumentError("--id-field needs --payloads FILE, and no --ids");
  }
  return absl::OkStatus();
}

// Cancels an upload at the first Ctrl-C, so that the command can drop the collection that it made.
class UploadInterrupt {
 public:
  UploadInterrupt() : watch_([this] { Cancel(); }) {}

  int signal_number() const { return watch_.signal_number(); }

  // Names the upload to cancel; null: none. Errors: Cancelled (the signal came before).
  absl::Status Watch(Upload* upload) {
    const std::lock_guard lock(mutex_);
    upload_ = upload;
    return signal_number() != 0 ? absl::CancelledError("interrupted") : absl::OkStatus();
  }

 private:
  void Cancel() {
    const std::lock_guard lock(mutex_);
    if (upload_ != nullptr) upload_->Cancel();
  }

  std::mutex mutex_;
  Upload* upload_ = nullptr;  // guarded by mutex_
  InterruptWatch watch_;
};

// Writes all rows of the source.
absl::Status WriteRows(RowSource& source, const UploadOptions& options, Upload& upload,
                       absl::Status* bad_input) {
  // Slightly less than a block, so that ids do not push a few rows into a separate block.
  const uint64_t batch_bytes_max = options.block_bytes_max - options.block_bytes_max / 8;
  for (RowBatch batch;;) {
    *bad_input = source.Next(batch_bytes_max, &batch);
    if (!bad_input->ok()) return *bad_input;
    if (Count(batch.ids) == 0) return absl::OkStatus();
    absl::Status sent = upload.Write({.ids = &batch.ids,
                                      .dtype = source.shape().dtype,
                                      .vectors = batch.vectors,
                                      .payloads = batch.payloads,
                                      .attributes = batch.attributes});
    if (!sent.ok()) return sent;
  }
}

struct Sent {
  absl::StatusOr<UploadResult> result = absl::UnknownError("nothing was sent");
  absl::Status bad_input;
  bool was_committed = false;
};

// Sends the rows of the source in one upload; with a token, retries as often as needed. `interrupt`
// may be null; it is not used with a token.
Sent SendRows(Client& client, const UploadArguments& arguments, RowSource& source,
              const UploadOptions& options, UploadInterrupt* interrupt) {
  Sent sent;
  if (arguments.token.empty()) {
    absl::StatusOr<Upload> upload = client.BeginUpload(options);
    absl::Status status = upload.status();
    if (status.ok() && interrupt != nullptr) status = interrupt->Watch(&*upload);
    if (status.ok()) status = WriteRows(source, options, *upload, &sent.bad_input);
    sent.result = status.ok() ? upload->Commit() : absl::StatusOr<UploadResult>(status);
    if (interrupt != nullptr) interrupt->Watch(nullptr).IgnoreError();
    return sent;
  }
  sent.result = client.UploadWithToken(options, [&](Upload& upload) -> absl::Status {
    sent.was_committed = upload.was_committed();
    absl::Status fits = TellResumed(upload, options.mode, source.shape().rows_count);
    if (!fits.ok() || upload.was_committed()) return fits;
    source.Rewind();
    return WriteRows(source, options, upload, &sent.bad_input);
  });
  return sent;
}

void PrintResult(const GlobalOptions& global, const UploadArguments& arguments, const Sent& sent,
                 const UploadProgress& progress) {
  if (global.quiet) return;
  const UploadResult& result = *sent.result;
  const double seconds = std::chrono::duration<double>(progress.elapsed).count();
  if (global.json) {
    Print(JsonObject()
              .Add("collection", arguments.collection)
              .Add("rows_count", result.rows_count)
              .Add("rows_replaced", result.rows_replaced)
              .Add("rows_skipped", progress.rows_skipped)
              .Add("was_committed", sent.was_committed)
              .Add("epoch", result.epoch)
              .Add("bytes_sent", progress.bytes_sent)
              .AddJson("seconds", JsonNumber(static_cast<float>(seconds))));
    return;
  }
  if (sent.was_committed) {
    Print(Cat("uploaded before: ", Grouped(result.rows_count), " rows to ",
              Printable(arguments.collection), "; visible from epoch ", result.epoch, "\n"));
    return;
  }
  const std::string replaced =
      result.rows_replaced == 0 ? ""
                                : Cat(", in the place of ", Grouped(result.rows_replaced), " rows");
  Print(Cat("uploaded ", Grouped(result.rows_count), " rows (",
            HumanBytes(static_cast<double>(progress.bytes_sent)), ") to ",
            Printable(arguments.collection), " in ", HumanSeconds(seconds), ", ",
            HumanBytes(progress.bytes_per_second()), "/s", replaced, "; visible from epoch ",
            result.epoch, "\n"));
}

struct SendOutcome {
  absl::StatusOr<int> exit_code = kExitOk;
  bool may_go_on = false;  // the same command may continue the upload
};

// Sends the rows and prints the result. `interrupt` may be null.
SendOutcome Send(const GlobalOptions& global, const UploadArguments& arguments, Client& client,
                 RowSource& source, UploadInterrupt* interrupt) {
  const RowSource::Shape& shape = source.shape();
  ProgressPrinter printer = ProgressOnStderr(shape.rows_count);
  UploadProgress last;
  UploadOptions options{.collection = arguments.collection,
                        .rows_max = shape.rows_count,
                        .payload_bytes_max = shape.payload_bytes,
                        .mode = arguments.mode,
                        .accept_zero_rows = arguments.accept_zero_rows,
                        .token = arguments.token,
                        .block_bytes_max = arguments.block_bytes_max,
                        .deadline = global.timeout(),
                        .on_progress = [&](const UploadProgress& progress) {
                          last = progress;
                          printer.Show(progress);
                        }};
  const Sent sent = SendRows(client, arguments, source, options, interrupt);
  printer.Finish();
  if (!sent.bad_input.ok()) return {.exit_code = AsBadInput(sent.bad_input)};
  if (sent.result.ok()) {
    PrintResult(global, arguments, sent, last);
    return {};
  }
  if (interrupt != nullptr && interrupt->signal_number() != 0) {
    PrintError("interrupted: the upload was not committed");
    return {.exit_code = kExitRefused};
  }
  SendOutcome outcome = {
      .exit_code = ReportError(global, sent.result.status()),
      .may_go_on = !arguments.token.empty() && MayGoOn(sent.result.status(), last)};
  if (outcome.may_go_on) {
    PrintError("repeat the same command to go on: rows that the server has are skipped");
  }
  return outcome;
}

// Warns about attributes that no row has a value of: their name may be misspelled in the file.
void TellUnused(const UploadArguments& arguments, const RowSource::Shape& shape) {
  for (size_t i = 0; i < shape.rows_with_attribute.size(); ++i) {
    if (shape.rows_with_attribute[i] > 0) continue;
    PrintError(Cat("no row has a value of the attribute ", arguments.source.attributes[i].name));
  }
}

// Warns about rows that are legal, and probably a mistake: they never come first in an answer.
void WarnOfZeroRows(const UploadArguments& arguments, Metric metric,
                    const RowSource::Shape& shape) {
  if (metric != Metric::kCosine || shape.zero_rows_count == 0) return;
  PrintError(Cat(arguments.source.path, ": ", Grouped(shape.zero_rows_count),
                 " rows have only zeros: with metric cosine they score -inf"));
}

// Reports that a file is checked if that takes some time.
void ReportCheck(const std::string& path) {
  constexpr uint64_t kSlowBytes = uint64_t{1} << 30;
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes < kSlowBytes) return;
  PrintError(Cat("checking ", path, ", ", HumanBytes(static_cast<double>(bytes)),
                 ", before the first row is sent"));
}

absl::StatusOr<int> RunUpload(const GlobalOptions& global, UploadArguments& arguments) {
  NF_RETURN_IF_ERROR(CheckArguments(arguments));
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  std::optional<CollectionInfo> info;
  arguments.source.attributes = arguments.target.attributes;
  if (!arguments.target.create) {
    auto found = client.GetCollection(arguments.collection);
    if (!found.ok()) {
      const int exit_code = ReportError(global, found.status());
      if (exit_code == kExitNegative) PrintError("make it with --create --metric METRIC");
      return exit_code;
    }
    info = *std::move(found);
    arguments.source.id_type = info->spec.id_type;
    arguments.source.dim = info->spec.dim;
    arguments.source.attributes = info->spec.attributes;
    // A file cannot state that its bytes are bf16, so they are read as the collection's type.
    if (!arguments.source.dtype && info->spec.dtype == DataType::kBFloat16) {
      arguments.source.dtype = info->spec.dtype;
    }
    const auto format = FormatOf(arguments.source.path, arguments.source.format);
    const bool text = format.ok() && IsText(*format);
    if (text && !arguments.source.dtype) arguments.source.dtype = info->spec.dtype;
  }
  if (!arguments.source.attributes_path.empty() && arguments.source.attributes.empty()) {
    return absl::InvalidArgumentError(
        Cat("--attributes: ", arguments.collection,
            " declares none; declare them with: nearfield attribute add"));
  }
  ReportCheck(arguments.source.path);
  NF_ASSIGN_OR_RETURN(const auto source, AsBadInput(OpenRowSource(arguments.source)));
  const RowSource::Shape& shape = source->shape();
  std::optional<CollectionInfo> created;
  std::optional<UploadInterrupt> interrupt;  // a collection with a token's upload is not dropped
  if (arguments.target.create && arguments.token.empty()) interrupt.emplace();
  if (info) {
    NF_RETURN_IF_ERROR(CheckAgainst(*info, shape));
  } else {
    // An earlier try of an upload with a token may have created it.
    const bool may_exist = arguments.target.if_missing || !arguments.token.empty();
    NF_ASSIGN_OR_RETURN(
        created, MakeTarget(client, arguments.collection, arguments.target, shape, may_exist));
  }
  TellUnused(arguments, shape);
  WarnOfZeroRows(arguments, info ? info->spec.metric : *arguments.target.metric, shape);
  const SendOutcome outcome =
      Send(global, arguments, client, *source, interrupt ? &*interrupt : nullptr);
  if (outcome.exit_code.value_or(kExitUsage) == kExitOk) return kExitOk;
  if (created && !outcome.may_go_on) DropTarget(global, client, *created);
  if (interrupt && interrupt->signal_number() != 0) {
    const int signal_number = interrupt->signal_number();
    interrupt.reset();
    std::raise(signal_number);  // the shell learns why the command ended
  }
  return outcome.exit_code;
}

void AddModeOptions(CLI::App& command, UploadArguments* arguments) {
  AddNamedOption<UploadMode>(
      command, "--mode", &arguments->mode,
      "Treatment of an id that already exists: insert refuses it, upsert replaces its row, "
      "and replace makes the upload the whole collection [insert]",
      {{"insert", UploadMode::kInsert},
       {"upsert", UploadMode::kUpsert},
       {"replace", UploadMode::kReplace}});
  AddNamedOption<bool>(command, "--zero-rows", &arguments->accept_zero_rows,
                       "Treatment of rows of zeros with the metric cosine, which they do not have: "
                       "refuse the upload, "
                       "or accept them, so that they come last in every search [refuse]",
                       {{"refuse", false}, {"accept", true}});
  AddTokenOption(command, &arguments->token,
                 "A name for this upload: it continues after a lost connection, and when the same "
                 "command is repeated, and is committed once");
}

void AddCreateOptions(CLI::App& command, UploadArguments* arguments) {
  TargetOptions& target = arguments->target;
  command.add_flag("--create", target.create,
                   "Make the collection first, with the file's dimension and type");
  command.add_flag("--if-missing", target.if_missing,
                   "With --create: use the collection if it exists with the same declaration");
  AddMetricOption(command, &target.metric);
  AddScanOption(command, &target.scan, "With --create: what scans read [auto]");
  AddRowPlacementOption(command, &target.rows, "With --create: where the rows lie [device]");
  AddAttributeOption(command, &target.attributes, "With --create: ");
  AddEmbeddingModelOption(command, &target.embedding_model, "With --create: ");
}

constexpr char kUploadFooter[] =
    "All rows become visible at once, at the end; of an upload that fails or is interrupted no "
    "row "
    "stays, except\n"
    "those that a --token keeps for the next try. A collection that --create made is then "
    "dropped again.\n"
    "Files are checked from end to end before the first byte is sent, and read again as they are "
    "sent, so they\n"
    "may be larger than memory; do not change them meanwhile. A pipe, or - for standard input, "
    "is copied to\n"
    "TMPDIR first; its rows are .jsonl unless --format says otherwise.\n"
    "\n"
    "Formats:\n"
    "  .npy    a 2-D array, C order, <f4 or <f2; bfloat16 as <u2 with --dtype bfloat16\n"
    "  .fbin   int32 rows, int32 dim, then float32 values\n"
    "  .fvecs  rows of int32 dim and float32 values\n"
    "  .jsonl  {\"id\": 7, \"vector\": [0.1, ...], \"payload\": {\"title\": \"...\"}} a line; id "
    "and payload may be\n"
    "          absent; a payload that is a string is stored as its text, {\"$base64\": \"...\"} "
    "as "
    "the bytes\n"
    "          that it encodes, any other as compact JSON;\n"
    "          attributes are next to them: {..., \"year\": 2020, \"tags\": [\"a\"], \"made\": "
    "\"2024-05-17T09:30:00Z\"}\n"
    "  .csv    the first line names the columns: id, vector (a JSON array), payload (its text is "
    "stored as it\n"
    "          is; may be absent), and one for each attribute that rows have, with the cells of "
    "--attributes\n"
    "\n"
    "Examples:\n"
    "  nearfield upload docs docs.npy --create --metric cosine --payloads docs.jsonl --id-field "
    "id\n"
    "  nearfield upload docs more.jsonl --mode upsert --token monday\n"
    "  zcat docs.jsonl.gz | nearfield upload docs - --create --if-missing --metric dot --mode "
    "upsert\n"
    "  nearfield upload books books.npy --create --metric dot --attribute year:int64 "
    "--attributes "
    "books.csv\n"
    "  nearfield upload sift base.fvecs --create --metric l2 --ids ids.npy";

}  // namespace

void AddUploadCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto arguments = std::make_shared<UploadArguments>();
  RowSourceOptions& source = arguments->source;
  CLI::App* command = app.add_subcommand("upload", "Add the rows of a file to a collection");
  command->add_option("collection", arguments->collection, "The collection")->required();
  command
      ->add_option("file", source.path,
                   "The vectors: .npy, .fbin, .fvecs, .jsonl or .csv; - for standard input")
      ->required();
  AddFormatOption(*command, &source.format);
  AddDataTypeOption(*command, &source.dtype,
                    "Type of the file's elements: needed for bfloat16, which .npy stores as <u2; "
                    "for .jsonl and .csv with "
                    "--create: what to store");
  command->add_option(
      "--ids", source.ids_path,
      "Ids, one a row: a text with one a line, .jsonl, or .npy of uint64 [0, 1, 2, ...]");
  command->add_option("--payloads", source.payloads_path, "Payloads: .jsonl, one JSON value a row");
  command->add_option("--id-field", source.id_field,
                      "Take the ids from this member of the payloads");
  command->add_option("--attributes", source.attributes_path,
                      "Attributes: .jsonl, one JSON object a row, or .csv with their names in the "
                      "first line; other names are passed over, so it may be the file of payloads");
  AddModeOptions(*command, arguments.get());
  AddIdTypeOption(
      *command, &source.id_type,
      "With --create: how to read a text of ids, or the ids of a .csv [string]; the file "
      "decides otherwise");
  AddCreateOptions(*command, arguments.get());
  command
      ->add_option("--block-bytes", arguments->block_bytes_max,
                   "Bytes of a message, at most; each must arrive within the server's "
                   "upload_idle_ms, so less over a slow line")
      ->transform(ByteCount(1024, uint64_t{1} << 30))
      ->capture_default_str();
  command->footer(kUploadFooter);
  OnChosen(command, action, [&global, arguments] { return RunUpload(global, *arguments); });
}

}  // namespace nearfield::client
