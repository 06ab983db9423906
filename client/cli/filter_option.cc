#include "client/cli/filter_option.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "client/formats/filter_text.h"
#include "client/formats/text.h"

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

CLI::Option* AddFilterOption(CLI::App& app, std::string* text, const std::string& description) {
  return app.add_option("--filter", *text, description)
      ->check(CLI::Validator(
          [](const std::string& given) {
            return given.empty() ? std::string("an empty filter") : std::string();
          },
          "FILTER"));
}

bool ResolveFilter(Client& client, const GlobalOptions& global, std::string_view collection,
                   const std::string& text, std::optional<Filter>* filter, int* exit_code) {
  if (text.empty()) return true;
  const auto info = client.GetCollection(collection);
  if (!info.ok()) {
    *exit_code = CallFailed(global, info.status());
    return false;
  }
  absl::StatusOr<Filter> parsed =
      ParseFilter(text, {.attributes = info->spec.attributes, .id_type = info->spec.id_type});
  if (!parsed.ok()) {
    *exit_code = BadInput(absl::InvalidArgumentError(Cat("--filter: ", parsed.status().message())));
    return false;
  }
  *filter = *std::move(parsed);
  return true;
}

}  // namespace nearfield::client
