// The files of the page of the operations port, from server/ops_http/page.
#pragma once

#include <span>
#include <string_view>

namespace nearfield::server {

struct PageFile {
  const char* path;  // in the URL
  const char* content_type;
  std::string_view content;
};

std::span<const PageFile> PageFiles();

}  // namespace nearfield::server
