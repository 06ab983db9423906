#include "client/cli/row_files.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "client/cli/json_output.h"
#include "client/cli/output_file.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"
#include "client/formats/attribute_text.h"
#include "client/formats/json_text.h"
#include "client/formats/jsonl.h"

namespace nearfield::client {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string_view RowBytes(const ScanPage& page, size_t row) {
  const size_t bytes = page.vectors.bytes.size() / Count(page.ids);
  return std::string_view(page.vectors.bytes).substr(row * bytes, bytes);
}

std::string_view PayloadOf(const ScanPage& page, size_t row) {
  return page.payloads.empty() ? std::string_view() : std::string_view(page.payloads[row]);
}

// Returns the shortest decimal that is read back to the same value, -0 included.
std::string Shortest(float value) {
  char text[32];
  return {std::begin(text), std::to_chars(std::begin(text), std::end(text), value).ptr};
}

// Returns, for each of `rows_count` rows, the members of its attributes: "year":2020,"tags":["a"].
// Empty if it has none. Requires: columns of that many rows.
std::vector<std::string> AttributeMembers(const std::vector<AttributeColumn>& columns,
                                          size_t rows_count) {
  std::vector<std::string> members(rows_count);
  for (const AttributeColumn& column : columns) {
    const std::vector<std::string> values = AttributeJson(column, rows_count);
    const std::string key = Cat(QuoteJson(column.attribute), ":");
    for (size_t row = 0; row < rows_count; ++row) {
      if (values[row] == "null") continue;  // no value
      members[row] += Cat(members[row].empty() ? "" : ",", key, values[row]);
    }
  }
  return members;
}

// Returns the header of an array in C order, padded as NumPy pads it.
std::string NpyHeaderBytes(std::string_view descr, std::string_view shape) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kPrefixBytes = 10;  // magic, version, length
  std::string dict =
      Cat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  const size_t unpadded = kPrefixBytes + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

std::string_view NpyType(DataType dtype) {
  return dtype == DataType::kFloat32 ? "<f4" : dtype == DataType::kFloat16 ? "<f2" : "<u2";
}

class JsonlRows final : public RowFiles {
 public:
  explicit JsonlRows(OutputFile file) : file_(std::move(file)) {}

  absl::Status Write(const ScanPage& page) override {
    const std::vector<std::string> attributes = AttributeMembers(page.attributes, Count(page.ids));
    for (size_t row = 0; row < Count(page.ids); ++row) {
      std::string line =
          Cat("{\"id\":", ToJson(At(page.ids, row)),
              ",\"vector\":", JsonArray(Widen(page.vectors.dtype, RowBytes(page, row)), Shortest));
      const std::string_view payload = PayloadOf(page, row);
      if (!payload.empty()) line += Cat(",\"payload\":", PayloadJson(payload));
      if (!attributes[row].empty()) line += Cat(",", attributes[row]);
      line += "}\n";
      NF_RETURN_IF_ERROR(file_.Write(line));
    }
    return absl::OkStatus();
  }
  absl::Status Publish() override {
    NF_RETURN_IF_ERROR(file_.Sync());
    return file_.Publish();
  }
  uint64_t bytes() const override { return file_.bytes(); }

 private:
  OutputFile file_;
};

enum class IdForm : uint8_t { kNpy, kJsonl, kText };

IdForm IdFormOf(std::string_view path) {
  return path.ends_with(".npy")     ? IdForm::kNpy
         : path.ends_with(".jsonl") ? IdForm::kJsonl
                                    : IdForm::kText;
}

class NpyRows final : public RowFiles {
 public:
  static absl::StatusOr<std::unique_ptr<RowFiles>> Create(const RowFilesOptions& options,
                                                          const CollectionSpec& spec,
                                                          uint64_t rows_count) {
    auto rows = std::unique_ptr<NpyRows>(new NpyRows());
    NF_RETURN_IF_ERROR(Open(options.path, &rows->vectors_));
    NF_RETURN_IF_ERROR(Open(options.ids_path, &rows->ids_));
    NF_RETURN_IF_ERROR(Open(options.payloads_path, &rows->payloads_));
    NF_RETURN_IF_ERROR(Open(options.attributes_path, &rows->attributes_));
    rows->id_form_ = IdFormOf(options.ids_path);
    NF_RETURN_IF_ERROR(rows->vectors_->Write(
        NpyHeaderBytes(NpyType(spec.dtype), Cat(rows_count, ", ", spec.dim))));
    if (rows->ids_ && rows->id_form_ == IdForm::kNpy) {
      NF_RETURN_IF_ERROR(rows->ids_->Write(NpyHeaderBytes("<u8", Cat(rows_count, ","))));
    }
    return rows;
  }

  absl::Status Write(const ScanPage& page) override {
    NF_RETURN_IF_ERROR(vectors_->Write(page.vectors.bytes));
    const std::vector<std::string> attributes = AttributeMembers(page.attributes, Count(page.ids));
    for (size_t row = 0; row < Count(page.ids); ++row) {
      if (ids_) NF_RETURN_IF_ERROR(WriteId(At(page.ids, row)));
      if (payloads_) {
        const std::string_view payload = PayloadOf(page, row);
        NF_RETURN_IF_ERROR(
            payloads_->Write(payload.empty() ? "null\n" : Cat(PayloadJson(payload), "\n")));
      }
      if (attributes_) NF_RETURN_IF_ERROR(attributes_->Write(Cat("{", attributes[row], "}\n")));
    }
    return absl::OkStatus();
  }

  // The vectors come last: their name says that the other files are complete.
  absl::Status Publish() override {
    std::vector<OutputFile*> files;
    for (auto* file : {&ids_, &payloads_, &attributes_, &vectors_}) {
      if (*file) files.push_back(&**file);
    }
    for (OutputFile* file : files) NF_RETURN_IF_ERROR(file->Sync());
    for (OutputFile* file : files) NF_RETURN_IF_ERROR(file->Publish());
    return absl::OkStatus();
  }

  uint64_t bytes() const override {
    uint64_t bytes = 0;
    for (const auto* file : {&ids_, &payloads_, &attributes_, &vectors_}) {
      if (*file) bytes += (*file)->bytes();
    }
    return bytes;
  }

 private:
  NpyRows() = default;

  static absl::Status Open(const std::string& path, std::optional<OutputFile>* file) {
    if (path.empty()) return absl::OkStatus();
    NF_ASSIGN_OR_RETURN(OutputFile created, OutputFile::Create(path));
    file->emplace(std::move(created));
    return absl::OkStatus();
  }

  absl::Status WriteId(const Id& id) {
    if (id_form_ == IdForm::kJsonl) return ids_->Write(Cat(ToJson(id), "\n"));
    if (id_form_ == IdForm::kNpy) {
      const auto number = std::get<uint64_t>(id);
      return ids_->Write({reinterpret_cast<const char*>(&number), sizeof number});
    }
    const std::string text = ToString(id);
    if (text.find_first_of("\r\n") != std::string::npos || text.starts_with(kByteOrderMark)) {
      return absl::InvalidArgumentError(
          Cat("id ", ToJson(id),
              ": a text with one id a line cannot hold it; let --ids end in "
              ".jsonl"));
    }
    return ids_->Write(Cat(text, "\n"));
  }

  std::optional<OutputFile> vectors_;
  std::optional<OutputFile> ids_;
  std::optional<OutputFile> payloads_;
  std::optional<OutputFile> attributes_;
  IdForm id_form_ = IdForm::kText;
};

absl::Status CheckJsonl(const RowFilesOptions& options, const CollectionSpec& spec) {
  if (!options.ids_path.empty() || !options.payloads_path.empty() ||
      !options.attributes_path.empty()) {
    return absl::InvalidArgumentError(
        Cat(options.path, ": a .jsonl file of rows carries its own ids, payloads and attributes"));
  }
  for (const AttributeSpec& attribute : spec.attributes) {
    if (attribute.name != "id" && attribute.name != "vector" && attribute.name != "payload") {
      continue;
    }
    return absl::InvalidArgumentError(
        Cat("the attribute ", attribute.name, " cannot be in a .jsonl file of rows, where ",
            attribute.name, " is another member: write a .npy file with --attributes FILE"));
  }
  return absl::OkStatus();
}

// Returns the word as a POSIX shell reads it back.
std::string ShellWord(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

absl::Status CheckRowFiles(const RowFilesOptions& options, const CollectionSpec& spec) {
  if (options.format == FileFormat::kJsonl) return CheckJsonl(options, spec);
  if (options.format != FileFormat::kNpy) {
    return absl::InvalidArgumentError(Cat(options.path, ": rows are written as .jsonl or .npy"));
  }
  std::vector<std::string> paths;
  for (const std::string* path :
       {&options.path, &options.ids_path, &options.payloads_path, &options.attributes_path}) {
    if (path->empty()) continue;
    if (*path == "-") {
      return absl::InvalidArgumentError("only .jsonl can be written to standard output");
    }
    if (std::find(paths.begin(), paths.end(), *path) != paths.end()) {
      return absl::InvalidArgumentError(Cat(*path, ": given for two files"));
    }
    paths.push_back(*path);
  }
  if (IdFormOf(options.ids_path) == IdForm::kNpy && spec.id_type == IdType::kString) {
    return absl::InvalidArgumentError(Cat(options.ids_path, ": .npy holds numbers, and the ids of ",
                                          spec.name, " are strings: let --ids end in .jsonl"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<RowFiles>> CreateRowFiles(const RowFilesOptions& options,
                                                         const CollectionSpec& spec,
                                                         uint64_t rows_count) {
  if (options.format == FileFormat::kNpy) return NpyRows::Create(options, spec, rows_count);
  NF_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(options.path));
  return std::make_unique<JsonlRows>(std::move(file));
}

std::string CommandToMakeAgain(const RowFilesOptions& options, const CollectionSpec& spec,
                               uint64_t rows_count) {
  const bool empty = rows_count == 0;  // files without rows have no dimension
  std::string text =
      Cat("nearfield ", empty ? "collections create " : "upload ", ShellWord(spec.name));
  const auto add = [&text](std::string_view flag, std::string_view value) {
    if (!value.empty()) text += Cat(" ", flag, " ", ShellWord(value));
  };
  if (empty) {
    add("--dim", Cat(spec.dim));
  } else {
    text += Cat(" ", ShellWord(options.path));
    add("--ids", options.ids_path);
    add("--payloads", options.payloads_path);
    add("--attributes", options.attributes_path);
    text += " --create";
  }
  add("--metric", Name(spec.metric));
  add("--dtype", Name(spec.dtype));
  if (empty || !options.ids_path.empty()) add("--id-type", Name(spec.id_type));
  if (spec.scan != ScanChoice::kUnknown) add("--scan", Name(spec.scan));
  if (spec.rows != RowPlacement::kUnknown) add("--rows", Name(spec.rows));
  if (empty && spec.devices > 0) add("--devices", Cat(spec.devices));
  for (const AttributeSpec& attribute : spec.attributes) add("--attribute", ToString(attribute));
  add("--embedding-model", spec.embedding_model);
  return text;
}

}  // namespace nearfield::client
