// nearfield health | limits | capacity
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/text_output.h"
#include "client/formats/text.h"

namespace nearfield::client {
namespace {

constexpr std::chrono::milliseconds kHealthTimeout{5000};

void PrintHealth(const GlobalOptions& global, const std::string& service, Health health) {
  if (global.json) {
    Print(Cat(JsonObject()
                  .Add("service", std::string_view(service))
                  .Add("status", Name(health))
                  .ToString(),
              "\n"));
  } else {
    Print(Cat(Name(health), "\n"));
  }
  std::fflush(stdout);  // a watching program reads each line as it arrives
}

int Watch(const GlobalOptions& global, const std::string& service) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const absl::Status status = client->WatchHealth(service, [&](Health health) {
    PrintHealth(global, service, health);
    return true;
  });
  // A watch ends only if the server or the connection ends. The message for a server that was never
  // reached would mislead.
  PrintError(
      Cat("the watch ended: ", absl::StatusCodeToString(status.code()), ": ", status.message()));
  return kExitNegative;
}

// A probe has two outcomes: anything except SERVING, including an unreachable server, is 1.
int Check(const GlobalOptions& global, const std::string& service) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto health =
      client->CheckHealth(service, {.deadline = global.timeout().value_or(kHealthTimeout)});
  if (!health.ok()) {
    CallFailed(global, health.status());
    return kExitNegative;
  }
  PrintHealth(global, service, *health);
  return *health == Health::kServing ? kExitOk : kExitNegative;
}

int ShowLimits(const GlobalOptions& global) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto limits = client->GetLimits();
  if (!limits.ok()) return CallFailed(global, limits.status());
  if (global.json) {
    Print(Cat(ToJson(*limits).ToString(), "\n"));
    return kExitOk;
  }
  Table table({{"limit"}, {"value", Align::kRight}, {"meaning"}});
  const auto add = [&](const char* name, uint64_t value, const char* meaning) {
    table.Add({name, Grouped(value), meaning});
  };
  add("dim_max", limits->dim_max, "dimensions of a row");
  add("k_max", limits->k_max, "neighbors a query may ask for");
  add("queries_max", limits->queries_max, "queries in one search");
  add("fetch_ids_max", limits->fetch_ids_max, "ids in one fetch or delete");
  add("request_bytes_max", limits->request_bytes_max, "bytes of a message to the server");
  add("response_bytes_max", limits->response_bytes_max, "bytes of a message from the server");
  add("id_bytes_max", limits->id_bytes_max, "bytes of a string id");
  add("payload_bytes_max", limits->payload_bytes_max, "bytes of one row's payload");
  add("collection_name_bytes_max", limits->collection_name_bytes_max, "bytes of a name");
  add("upload_block_bytes_max", limits->upload_block_bytes_max, "bytes of an upload block");
  add("rows_per_collection_max", limits->rows_per_collection_max, "rows of a collection");
  add("collections_max", limits->collections_max, "collections");
  add("queue_requests_max", limits->queue_requests_max, "searches that may wait");
  add("cursor_ms", limits->cursor_ms, "milliseconds for which a cursor's epoch is kept");
  add("page_rows_max", limits->page_rows_max, "rows that pages reach without --all");
  add("epochs_kept_max", limits->epochs_kept_max, "epochs kept for one caller's cursors");
  add("epochs_kept_percent", limits->epochs_kept_percent,
      "percent of the memory that only they hold");
  add("uploads_max", limits->uploads_max, "uploads at once");
  add("verify_max", limits->verify_max, "verifications at once");
  add("aliases_max", limits->aliases_max, "aliases");
  add("upload_token_bytes_max", limits->upload_token_bytes_max, "bytes of an upload token");
  add("attributes_max", limits->attributes_max, "attributes of a collection");
  add("attribute_keyword_bytes_max", limits->attribute_keyword_bytes_max, "bytes of a keyword");
  add("attribute_list_values_max", limits->attribute_list_values_max, "values of a list attribute");
  add("attribute_row_bytes_max", limits->attribute_row_bytes_max, "bytes of one row's attributes");
  add("filter_levels_max", limits->filter_levels_max, "levels of a filter");
  add("filter_conditions_max", limits->filter_conditions_max, "conditions of a filter");
  add("filter_values_max", limits->filter_values_max, "values or ids of a condition");
  add("filter_bytes_max", limits->filter_bytes_max, "bytes of a filter");
  add("upload_tokens_max", limits->upload_tokens_max, "open uploads with a token");
  add("upload_token_s", limits->upload_token_s, "seconds for which an open upload is kept");
  add("upload_idle_ms", limits->upload_idle_ms, "milliseconds an upload may be silent");
  add("caller_share_percent", limits->caller_share_percent,
      "percent of shared limits for one caller");
  add("search_ms_max", limits->search_ms_max, "milliseconds a search may take");
  add("reply_unread_ms", limits->reply_unread_ms, "milliseconds in which a reply must be taken");
  add("requests_bytes_max", limits->requests_bytes_max, "bytes of all requests in flight");
  add("replies_bytes_max", limits->replies_bytes_max, "bytes of all replies in flight");
  add("streams_max", limits->streams_max, "calls at once on one connection");
  add("snapshots_max", limits->snapshots_max, "snapshots");
  Print(table.ToString());
  return kExitOk;
}

std::string UseOf(uint64_t used, uint64_t total) {
  const double share =
      total == 0 ? 0 : 100.0 * static_cast<double>(used) / static_cast<double>(total);
  return Cat(HumanBytes(static_cast<double>(used)), " of ", HumanBytes(static_cast<double>(total)),
             " (", static_cast<int>(share), "%)");
}

int ShowCapacity(const GlobalOptions& global) {
  auto client = ConnectTo(global);
  if (!client.ok()) return BadInput(client.status());
  const auto capacity = client->GetCapacity();
  if (!capacity.ok()) return CallFailed(global, capacity.status());
  if (global.json) {
    Print(Cat(ToJson(*capacity).ToString(), "\n"));
    return kExitOk;
  }
  Print(Cat("server   ", Printable(capacity->server_version), "\n",  //
            "backend  ", Name(capacity->backend), "\n",              //
            "device   ", Printable(capacity->device_name), "\n",     //
            "rows     ", UseOf(capacity->device_bytes_used, capacity->device_bytes_total), "\n",
            "host     ", UseOf(capacity->host_bytes_used, capacity->host_bytes_total), "\n"));
  if (capacity->host_rows_bytes_total > 0) {
    Print(Cat("rows on the host  ",
              UseOf(capacity->host_rows_bytes_used, capacity->host_rows_bytes_total), "\n"));
  }
  if (capacity->attribute_bytes_total > 0) {
    Print(Cat("attributes  ",
              UseOf(capacity->attribute_bytes_used, capacity->attribute_bytes_total), "\n"));
  }
  return kExitOk;
}

}  // namespace

void AddServerCommands(CLI::App& app, const GlobalOptions& global, Action* action) {
  auto service = std::make_shared<std::string>();
  auto watch = std::make_shared<bool>(false);
  CLI::App* health = app.add_subcommand("health", "Show whether the server is ready to serve");
  health->add_option("--service", *service,
                     "One service, such as nearfield.v1.Retrieval [the server as a whole]");
  health->add_flag("--watch", *watch, "Print the status now and after each change, until stopped");
  health->footer(
      "Exits with 0 where the status is SERVING, else with 1; waits 5 s unless --timeout says "
      "otherwise.\n"
      "As a container's probe:\n"
      "  HEALTHCHECK CMD [\"nearfield\", \"health\"]");
  health->callback([&global, action, service, watch] {
    *action = [&global, service, watch] {
      return *watch ? Watch(global, *service) : Check(global, *service);
    };
  });
  CLI::App* limits = app.add_subcommand("limits", "The limits of the server");
  limits->callback([&global, action] { *action = [&global] { return ShowLimits(global); }; });
  CLI::App* capacity = app.add_subcommand("capacity", "Memory of the server, used and free");
  capacity->callback([&global, action] { *action = [&global] { return ShowCapacity(global); }; });
}

}  // namespace nearfield::client
