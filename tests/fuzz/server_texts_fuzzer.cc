// Takes arbitrary bytes as the texts that a server reads: the key file, the configuration file,
// cursors, metadata of calls, a stored schema, certificates. The first byte chooses the reader. An
// accepted text must be written and read back unchanged. A refused text must be reported as the
// header of its reader promises.
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "client/keys/key_file.h"
#include "server/attributes/schema_encoding.h"
#include "server/config/file.h"
#include "server/config/load.h"
#include "server/convert/cursor.h"
#include "server/rpc/caller_name.h"
#include "server/security/access_control.h"
#include "server/security/certificates.h"
#include "server/telemetry/trace_context.h"
#include "tests/fuzz/input_reader.h"
#include "tests/fuzz/require.h"
#include "tests/fuzz/scratch_folder.h"

namespace nearfield::server {
namespace {

using fuzz::InputReader;

void RequireInvalid(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) && !status.message().empty());
}

// Returns the rest of the input, or `valid` with edits.
std::string TakeText(InputReader& input, std::string valid) {
  if (input.Take(1) % 2 == 0) return std::string(input.TakeRest());
  input.Edit(&valid);
  return valid;
}

const KeyFile& ValidKeys() {
  static const auto* const file = [] {
    auto* const made = new KeyFile;
    made->keys.resize(2);
    for (ApiKey& key : made->keys) {
      key.principal = "pipeline";
      key.scopes = 3;
      key.collections = "docs-*";
      Require(DrawSecret(&key).ok());
    }
    made->keys.front().expires = made->keys.front().created =
        Microseconds(std::chrono::microseconds(1'700'000'000'000'000));
    made->limits["pipeline"][Quota::kDeviceBytes] = int64_t{20} << 30;
    made->limits["pipeline"][Quota::kAliases] = 7;
    return made;
  }();
  return *file;
}

void ReadKeys(InputReader& input) {
  const auto file = ParseKeyFile(TakeText(input, KeyFileText(ValidKeys())));
  if (!file.ok()) return RequireInvalid(file.status());
  const std::string text = KeyFileText(*file);
  const auto again = ParseKeyFile(text);
  Require(again.ok() && *again == *file && KeyFileText(*again) == text);
  for (const ApiKey& key : file->keys) Require(CheckKey(key).ok());
}

void Authenticate(std::string_view bytes) {
  AccessControl control;
  control.SetKeys(ValidKeys().keys);
  const auto refusal_of = [&control](std::string_view text) {
    return control.Authenticate(text).status();
  };
  // The hash of no text of the input is in the file, except by chance.
  const absl::Status refusal = refusal_of(bytes);
  Require(absl::IsUnauthenticated(refusal));
  // A message that repeats the text would put secrets into logs.
  Require(refusal == refusal_of("") || refusal == refusal_of("key") ||
          refusal == refusal_of("Bearer key"));
}

void ReadSettings(InputReader& input) {
  static const auto* const valid = new std::string([] {
    Settings settings;
    Require(
        LoadSettingsText("file", "data_dir = none\n", &settings, {.memory_bytes = int64_t{1} << 40})
            .ok());
    std::string text;
    for (const SettingBase* setting : settings.all()) {
      const std::string value = setting->Text();
      if (!value.empty()) text += setting->name() + " = " + value + "\n";
    }
    return text;
  }());
  const std::string text = TakeText(input, *valid);
  Settings settings;
  const HostMachine machine = {.memory_bytes = int64_t{1} << 40, .cores = 8};
  if (const absl::Status status = LoadSettingsText("file", text, &settings, machine);
      !status.ok()) {
    return RequireInvalid(status);
  }
  std::string printed;
  for (const SettingBase* setting : settings.all()) {
    printed += setting->name() + " = \"" + setting->Text() + "\"\n";
  }
  Settings again;
  Require(LoadSettingsText("printed", printed, &again, machine).ok());
  for (size_t i = 0; i < settings.all().size(); ++i) {
    Require(settings.all()[i]->Text() == again.all()[i]->Text());
  }
}

void ReadCursors(std::string_view bytes) {
  if (const auto cursor = DecodeCursor(bytes); cursor.ok()) {
    Require(EncodeCursor(*cursor) == bytes && cursor->position >= 0);
  } else {
    RequireInvalid(cursor.status());
  }
  for (const IdType type : {IdType::kUint64, IdType::kString}) {
    if (const auto cursor = DecodeScanCursor(bytes, type); cursor.ok()) {
      Require(EncodeScanCursor(*cursor) == bytes && cursor->position >= 0);
    } else {
      RequireInvalid(cursor.status());
    }
  }
}

void ReadMetadata(std::string_view bytes) {
  const TraceContext trace = ParseTraceParent(bytes);
  Require(trace.trace_id.size() == (trace.span_id.empty() ? 0 : 32));
  Require(trace.span_id.empty() ||
          (trace.span_id.size() == 16 && bytes.find(trace.trace_id + "-" + trace.span_id) == 3));
  if (const absl::Status status = CheckCallerName(bytes); !status.ok()) RequireInvalid(status);
  const size_t half = bytes.size() / 2;
  Require(!CallerName("name", bytes).empty());
  static_cast<void>(CallerName(bytes.substr(0, half), bytes.substr(half)));
}

void ReadSchema(InputReader& input) {
  const std::string text = TakeText(input, "1\nname int64\ntags keyword list\nwhen timestamp\n");
  const auto schema = DecodeSchema(text);
  Require(schema.ok() ? EncodeSchema(*schema) == text : absl::IsDataLoss(schema.status()));
}

void ReadCertificates(InputReader& input) {
  static const fuzz::ScratchFolder folder;
  const std::string certificate = folder.Write("certificate", input.TakeBytes(255));
  const std::string key = folder.Write("key", input.TakeRest());
  // A certificate and its key cannot be found by chance.
  RequireInvalid(Certificates({certificate, key, ""}).Load().status());
  RequireInvalid(Certificates({key, certificate, certificate}).Load().status());
}

void Run(std::string_view bytes) {
  InputReader input(bytes);
  switch (input.Take(1) % 8) {
    case 0:
    case 1: return ReadKeys(input);
    case 2:
    case 3: return ReadSettings(input);
    case 4: return ReadCursors(input.TakeRest());
    case 5: return input.Take(1) % 2 == 0 ? ReadMetadata(input.TakeRest()) : ReadSchema(input);
    case 6: return Authenticate(input.TakeRest());
    default: return ReadCertificates(input);
  }
}

}  // namespace
}  // namespace nearfield::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nearfield::server::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
