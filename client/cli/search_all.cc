#include "client/cli/search_all.h"

#include <cstdio>
#include <utility>

#include "client/cpp/status_macros.h"
#include "client/cpp/text.h"

namespace nearfield::client {

absl::StatusOr<int> PrintAllPages(Client& client, const GlobalOptions& global,
                                  const SearchAllJob& job, const SearchOutputOptions& output) {
  NF_ASSIGN_OR_RETURN(SearchPages pages, client.SearchAll(job.collection, job.query, job.options));
  std::string cursor;  // continues after the printed rows
  uint64_t rows_count = 0;
  for (uint64_t page = 1;; ++page) {
    absl::StatusOr<std::optional<SearchAnswer>> answer = pages.Next();
    if (!answer.ok()) {
      const int exit_code = ReportError(global, answer.status());
      if (!cursor.empty()) {
        PrintError(Cat("to continue after the rows above: --cursor ", CursorText(cursor)));
      }
      return exit_code;
    }
    if (!answer->has_value()) {
      if (!cursor.empty()) PrintError(Cat("rows follow: --cursor ", CursorText(cursor)));
      return kExitOk;
    }
    SearchAnswer& found = **answer;
    QueryAnswer one{.epoch = found.epoch, .neighbors = std::move(found.results[0])};
    cursor = one.neighbors.next_cursor;
    if (page > 1 && Count(one.neighbors.ids) == 0) continue;  // sent by earlier servers
    const SearchReport report{.query_number = job.query_number,
                              .label = page == 1 ? job.label : Cat(job.label, ", page ", page),
                              .answer = &one,
                              .cost = &found.cost,
                              .first_place = rows_count};
    Print(FormatReport(report, output));
    std::fflush(stdout);  // a reader may use each page before the next one
    rows_count += Count(one.neighbors.ids);
  }
}

}  // namespace nearfield::client
