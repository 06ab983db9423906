// nearfield uploads list, nearfield uploads show, nearfield uploads drop
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/options.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

struct UploadName {
  std::string collection;
  std::string token;
};

absl::StatusOr<int> ShowUpload(const GlobalOptions& global, const UploadName& name) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto state, client.GetUpload(name.collection, name.token));
  if (global.json) {
    JsonObject json;
    json.Add("collection", name.collection).Add("token", name.token);
    json.Add("committed", state.committed).Add("rows_count", state.rows_count);
    if (state.committed) {
      json.Add("epoch", state.epoch);
    } else {
      json.Add("next_block", state.next_block);
    }
    Print(json);
  } else if (state.committed) {
    Print(Cat("committed: ", Grouped(state.rows_count), " rows, visible from epoch ", state.epoch,
              "\n"));
  } else {
    Print(Cat("open: ", Grouped(state.rows_count), " rows in ", Grouped(state.next_block),
              " blocks are durable; repeat the upload with this token to go on\n"));
  }
  return kExitOk;
}

const char* NameOf(UploadMode mode) {
  switch (mode) {
    case UploadMode::kInsert: return "insert";
    case UploadMode::kUpsert: return "upsert";
    case UploadMode::kReplace: return "replace";
  }
  return "?";
}

// Returns the token itself if a terminal can show all of it, else "0x" and hexadecimal digits.
std::string TokenText(const std::string& token) {
  if (Printable(token) == token) return token;
  std::string text = "0x";
  for (const char c : token) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

JsonObject ToJson(const OpenUpload& upload) {
  JsonObject json;
  const std::string token = TokenText(upload.token);
  json.Add("token", token)
      .Add("collection", upload.collection)
      .Add("mode", NameOf(upload.mode))
      .Add("rows_count", upload.rows_count)
      .Add("bytes_on_disk", upload.bytes_on_disk)
      .Add("untouched_s", upload.untouched_s)
      .Add("is_live", upload.is_live);
  return json;
}

absl::StatusOr<int> ListUploads(const GlobalOptions& global, std::optional<uint32_t> uploads_max) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto open, client.ListUploads(uploads_max));
  Table table({"token", "collection", "mode", Table::Right("rows"), Table::Right("on disk"),
               Table::Right("untouched"), "stream"});
  for (const OpenUpload& upload : open.uploads) {
    if (global.json) Print(ToJson(upload));
    table.Add({TokenText(upload.token), upload.collection, NameOf(upload.mode),
               Grouped(upload.rows_count), HumanBytes(static_cast<double>(upload.bytes_on_disk)),
               HumanSeconds(static_cast<double>(upload.untouched_s)),
               upload.is_live ? "live" : "none"});
  }
  if (!global.json) Print(table.ToString());
  if (open.uploads.size() < open.uploads_count) {
    PrintError(Cat("the first ", Grouped(open.uploads.size()), " of ", Grouped(open.uploads_count),
                   " open uploads: see --max"));
  }
  return kExitOk;
}

absl::StatusOr<int> DropUpload(const GlobalOptions& global, const UploadName& name) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto rows_count, client.DropUpload(name.collection, name.token));
  if (global.json) {
    JsonObject json;
    json.Add("collection", name.collection).Add("token", name.token);
    json.Add("rows_count", rows_count);
    Print(json);
  } else {
    Print(Cat("dropped the upload and its ", Grouped(rows_count), " rows\n"));
  }
  return kExitOk;
}

void AddName(CLI::App* command, const std::shared_ptr<UploadName>& name) {
  command->add_option("collection", name->collection, "The collection of the upload")->required();
  command->add_option("token", name->token, "The token that the upload was given")->required();
}

}  // namespace

void AddUploadsCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* group = app.add_subcommand("uploads", "Show and drop uploads with a token");
  group->require_subcommand(1);
  auto uploads_max = std::make_shared<std::optional<uint32_t>>();
  CLI::App* list = group->add_subcommand(
      "list", "All open uploads with a token, those untouched for longest first");
  list->add_option("--max", *uploads_max, "Uploads to list, 1 to 10,000 [1,000]")
      ->check(WholeNumber(1, 10000).description("N"));
  list->footer(
      "A token with bytes that a terminal cannot show stands as 0x and hexadecimal digits. Disk "
      "space of an upload\n"
      "with a live stream includes what is reserved for its rows to come.\n"
      "Example:\n"
      "  nearfield uploads list");
  OnChosen(list, action, [&global, uploads_max] { return ListUploads(global, *uploads_max); });
  auto name = std::make_shared<UploadName>();
  CLI::App* show = group->add_subcommand("show", "Show whether it was committed, or its progress");
  show->alias("get");
  AddName(show, name);
  show->footer(
      "Exits with 1 where the server knows no such upload. It remembers the tokens of committed "
      "uploads for a day (its\n"
      "setting upload_token_s), at most the latest 10,000 of a collection "
      "(upload_tokens_committed_max), and those of\n"
      "open ones for a day after they were last touched.\n"
      "Example:\n"
      "  nearfield uploads show docs nightly-2024-05-17");
  OnChosen(show, action, [&global, name] { return ShowUpload(global, *name); });
  CLI::App* drop = group->add_subcommand(
      "drop", "Drop an upload that was not committed: removes its rows and frees its token");
  AddName(drop, name);
  OnChosen(drop, action, [&global, name] { return DropUpload(global, *name); });
}

}  // namespace nearfield::client
