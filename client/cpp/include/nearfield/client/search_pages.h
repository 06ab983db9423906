// One search whose answer comes in pages.
#ifndef NEARFIELD_CLIENT_SEARCH_PAGES_H_
#define NEARFIELD_CLIENT_SEARCH_PAGES_H_

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

// Made by Client::SearchAll; used by one thread at a time. All pages are of one epoch.
//
//   for (;;) {
//     auto page = pages.Next();
//     if (!page.ok()) return page.status();
//     if (!page->has_value()) break;
//     ... (*page)->results[0] ...
//   }
class SearchPages {
 public:
  SearchPages(SearchPages&&) noexcept;
  SearchPages& operator=(SearchPages&&) noexcept;
  ~SearchPages();  // cancels what is still running

  // The next page, with one result; nothing after the last one. Where the connection is lost or the
  // server is busy, the search goes on behind the last page, as often as the client's RetryPolicy
  // says, counted anew after each page. Errors: the server's status, which stays; Internal where
  // the server's words do not fit together.
  absl::StatusOr<std::optional<SearchAnswer>> Next();

 private:
  friend class Client;
  class Impl;
  explicit SearchPages(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_SEARCH_PAGES_H_
