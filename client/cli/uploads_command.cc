// nearfield uploads show, nearfield uploads drop
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/text_output.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

int ShowUpload(const GlobalOptions& global, const std::string& token) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto state = client->GetUpload(token);
  if (!state.ok()) return CallFailed(global, state.status());
  if (global.json) {
    JsonObject json;
    json.Add("token", std::string_view(token))
        .Add("committed", state->committed)
        .Add("rows_count", state->rows_count);
    if (state->committed) {
      json.Add("epoch", state->epoch);
    } else {
      json.Add("next_block", state->next_block);
    }
    Print(Cat(json.ToString(), "\n"));
  } else if (state->committed) {
    Print(Cat("committed: ", Grouped(state->rows_count), " rows, visible from epoch ", state->epoch,
              "\n"));
  } else {
    Print(Cat("open: ", Grouped(state->rows_count), " rows in ", Grouped(state->next_block),
              " blocks are durable; repeat the upload with this token to go on\n"));
  }
  return kExitOk;
}

int DropUpload(const GlobalOptions& global, const std::string& token) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto rows_count = client->DropUpload(token);
  if (!rows_count.ok()) return CallFailed(global, rows_count.status());
  if (global.json) {
    JsonObject json;
    json.Add("token", std::string_view(token)).Add("rows_count", *rows_count);
    Print(Cat(json.ToString(), "\n"));
  } else {
    Print(Cat("dropped the upload and its ", Grouped(*rows_count), " rows\n"));
  }
  return kExitOk;
}

}  // namespace

void AddUploadsCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* group = app.add_subcommand("uploads", "What became of an upload with a token");
  group->require_subcommand(1);
  auto token = std::make_shared<std::string>();
  CLI::App* show = group->add_subcommand("show", "Whether it was committed, or how far it came");
  show->alias("get");
  show->add_option("token", *token, "The token that the upload was given")->required();
  show->footer(
      "Exits with 1 where the server knows no such upload. Tokens of committed uploads are "
      "remembered, the latest ten\n"
      "thousand; those of open ones for a week after they were last touched.\n"
      "Example:\n"
      "  nearfield uploads show nightly-2024-05-17");
  show->callback([&global, action, token] {
    *action = [&global, token] { return ShowUpload(global, *token); };
  });
  CLI::App* drop = group->add_subcommand(
      "drop", "Give up an upload that was not committed: its rows go, its token is free again");
  drop->add_option("token", *token, "The token that the upload was given")->required();
  drop->callback([&global, action, token] {
    *action = [&global, token] { return DropUpload(global, *token); };
  });
}

}  // namespace nearfield::client
