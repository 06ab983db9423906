// nearfield counters
#include <CLI/CLI.hpp>

#include "client/cli/command.h"
#include "client/cli/json_output.h"
#include "client/cli/search_output.h"
#include "client/cli/text_output.h"
#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {
namespace {

void PrintCalls(const Counters& counters) {
  Table table(
      {"method", "status", Table::Right("calls"), Table::Right("rows"), Table::Right("mean us")});
  for (const Counters::Calls& each : counters.calls) {
    const uint64_t mean_us = each.calls_count == 0 ? 0 : each.total_us / each.calls_count;
    table.Add({Printable(each.method), Printable(each.status), Grouped(each.calls_count),
               Grouped(each.rows_count), Grouped(mean_us)});
  }
  Print(table.ToString());
}

absl::StatusOr<int> ShowCounters(const GlobalOptions& global) {
  NF_ASSIGN_OR_RETURN(Client client, ConnectTo(global));
  NF_ASSIGN_OR_RETURN(const auto counters, client.GetCounters());
  if (global.json) {
    Print(ToJson(counters));
    return kExitOk;
  }
  const Counters::Passes& passes = counters.passes;
  const Counters::Audit& audit = counters.audit;
  const Counters::Connections& connections = counters.connections;
  Print(Cat("since ", TimeText(counters.started_unix_ms / 1000), " UTC\n"));
  PrintCalls(counters);
  Print(Cat("passes       ", Grouped(passes.passes_count), ", on the device for ",
            Grouped(passes.device_us / 1000), " ms, ",
            HumanBytes(static_cast<double>(passes.bytes_read)), " read\n",  //
            "queries      ", Grouped(passes.queries_int8_count), " int8, ",
            Grouped(passes.queries_rows_count), " rows; ", Grouped(passes.candidates),
            " candidates\n",                                             //
            "escalations  ", EscalationsText(passes.escalations), "\n",  //
            "audit        ", Grouped(audit.answers_audited_count), " answers checked, ",
            Grouped(audit.answers_dropped_count), " dropped, ", Grouped(audit.answers_failed_count),
            " failed; ", Grouped(audit.mismatches_count), " wrong\n",  //
            "connections  ", Grouped(connections.open_count), " open, ",
            Grouped(connections.accepted_count), " accepted, ", Grouped(connections.refused_count),
            " refused; ", Grouped(connections.pauses_count), " pauses of accepting\n",  //
            "log          ", Grouped(counters.log_lines_dropped_count), " lines dropped\n"));
  return kExitOk;
}

}  // namespace

void AddCountersCommand(CLI::App& app, const GlobalOptions& global, Action* action) {
  CLI::App* counters =
      app.add_subcommand("counters", "Show sums of what the server has done since its start");
  counters->footer(
      "Calls by method and status; device passes, each counted once however many searches shared "
      "it;\n"
      "queries that needed a tighter threshold or a scan of the exact rows; the audit of answers;\n"
      "connections, and lines of the log that were dropped.");
  OnChosen(counters, action, [&global] { return ShowCounters(global); });
}

}  // namespace nearfield::client
