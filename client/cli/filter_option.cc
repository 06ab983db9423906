#include "client/cli/filter_option.h"

#include <CLI/CLI.hpp>

namespace nearfield::client {

const char kFilterHelp[] =
    "A filter, by the attributes that the collection declares (nearfield collections show):\n"
    "  language == \"de\" and (year >= 2020 or not exists(price))\n"
    "  language in (\"de\", \"en\") and tags any (\"a\", \"b\") and not tags all (\"c\", \"d\")\n"
    "  made < \"2024-05-17T09:30:00Z\" and id in (1, 2)\n"
    "Operators: == != < <= > >= and in; any and all for lists; exists(...); and, or, not, "
    "brackets. "
    "A row without the\n"
    "attribute passes no comparison, != included; `not` is plain negation. Times are UTC text or "
    "microseconds since 1970.\n"
    "Attributes named like a word of the grammar stand in backquotes: `id` == 7.\n";

CLI::Option* AddFilterOption(CLI::App& app, std::optional<Filter>* filter,
                             const std::string& description, const std::string& flag) {
  return app
      .add_option_function<std::string>(
          flag, [filter](const std::string& text) { filter->emplace(text); }, description)
      ->check(CLI::Validator(
          [](const std::string& given) {
            return given.empty() ? std::string("an empty filter") : std::string();
          },
          "FILTER"));
}

}  // namespace nearfield::client
