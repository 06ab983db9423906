// ScanPages: the rows of a collection, received in pages.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nearfield/client/replies.h"

namespace nearfield::client {

// Created by Client::Scan. Thread safety: used by one thread at a time. All pages are of one epoch,
// and their rows follow one another in the order of the ids.
//
//   for (;;) {
//     auto page = pages.Next();
//     if (!page.ok()) return page.status();
//     if (!page->has_value()) break;
//     ... (*page)->ids ...
//   }
class ScanPages {
 public:
  ScanPages(ScanPages&&) noexcept;
  ScanPages& operator=(ScanPages&&) noexcept;
  ~ScanPages();  // cancels what is still running

  // Returns the next page; nullopt after the last one. A scan without rows has one empty page. If
  // the connection is lost or the server is busy, the scan continues after the last page, in the
  // same epoch. It is retried as the client's RetryPolicy allows, with the tries counted from each
  // page. Errors: the server's status (FailedPrecondition: the epoch is no longer kept), which all
  // later calls return too; Internal (malformed replies).
  absl::StatusOr<std::optional<ScanPage>> Next();

 private:
  friend class Client;
  class Impl;
  explicit ScanPages(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nearfield::client
