// Manual pages, written from the declarations of a program.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace nearfield {

struct ManPageFacts {
  int section = 1;
  std::string_view version;
  std::string_view see_also;  // "nearfield-server(8)"
};

// Returns the page in the macros of man(7). A footer of the program becomes sections: each of its
// paragraphs begins with a title line that ends in a colon.
std::string ManPage(const CLI::App& program, const ManPageFacts& facts);

}  // namespace nearfield
