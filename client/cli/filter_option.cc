#include "client/cli/filter_option.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "client/formats/filter_text.h"
#include "client/formats/status_macros.h"
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

absl::StatusOr<std::optional<Filter>> ResolveFilter(Client& client, std::string_view collection,
                                                    const std::string& text) {
  if (text.empty()) return std::nullopt;
  NF_ASSIGN_OR_RETURN(const CollectionInfo info, client.GetCollection(collection));
  absl::StatusOr<Filter> parsed =
      ParseFilter(text, {.attributes = info.spec.attributes, .id_type = info.spec.id_type});
  if (parsed.ok()) return *std::move(parsed);
  return absl::InvalidArgumentError(Cat("--filter: ", parsed.status().message()));
}

}  // namespace nearfield::client
