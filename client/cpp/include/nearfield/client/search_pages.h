// SearchPages: one search whose answer is received in pages.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

// Created by Client::SearchAll. Thread safety: used by one thread at a time. All pages are of one
// epoch.
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

  // Returns the next page, with one result; nullopt after the last one. If the connection is lost
  // or the server is busy, the search continues after the last page. It is retried as the client's
  // RetryPolicy allows, with the tries counted from each page. Errors: the server's status, which
  // all later calls return too; Internal (malformed replies).
  absl::StatusOr<std::optional<SearchAnswer>> Next();

 private:
  friend class Client;
  class Impl;
  explicit SearchPages(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client
