// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/text.h"
#include "client/formats/vector_file.h"
#include "nearfield/client/attributes.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// Adds an option whose value is one of a set of names. `Target` is an E or a std::optional<E>.
template <typename E, typename Target>
CLI::Option* AddNamedOption(CLI::App& app, const std::string& flag, Target* target,
                            const std::string& description,
                            const std::vector<std::pair<std::string, E>>& names) {
  std::vector<std::string> spellings;
  spellings.reserve(names.size());
  for (const auto& [name, value] : names) spellings.push_back(name);
  return app
      .add_option_function<std::string>(
          flag,
          [target, names](const std::string& given) {
            for (const auto& [name, value] : names) {
              if (name == given) *target = value;
            }
          },
          description)
      ->check(CLI::IsMember(spellings));
}

// Checks that an option is a whole number in [min, max]. Works on the text, so that a number too
// large for any integer type gets the same message. `max_text` stands for `max` in it.
inline CLI::Validator WholeNumber(uint64_t min, uint64_t max, const std::string& max_text = "") {
  return CLI::Validator(
      [min, max, max_text](const std::string& given) {
        const auto value = ParseNumber<uint64_t>(given);
        return value && *value >= min && *value <= max
                   ? std::string()
                   : Cat(given, ", must be a whole number, ", min, " .. ",
                         max_text.empty() ? Cat(max) : max_text);
      },
      "");
}

// Reads an option that is a number of bytes in [min, max], perhaps with a unit: 20GiB.
inline CLI::Validator ByteCount(uint64_t min, uint64_t max) {
  CLI::AsSizeValue parse(/*kb_is_1000=*/true);
  return CLI::Validator(
      [parse, min, max](std::string& text) {
        const std::string given = text;
        bool parsed = false;
        try {
          parsed = given.find('-') == std::string::npos && parse(text).empty();
        } catch (const CLI::ValidationError&) {  // its message names neither the value nor a limit
        }
        const auto value = ParseNumber<uint64_t>(text);
        return parsed && value && *value >= min && *value <= max
                   ? std::string()
                   : Cat(given, ", must be a whole number of bytes, ", min, " .. ", max,
                         ", perhaps with a unit: 20GiB, 500MB");
      },
      "BYTES");
}

// Checks that an option is a number.
inline CLI::Validator Number() {
  return CLI::Validator(
      [](const std::string& given) {
        char* end = nullptr;
        std::strtod(given.c_str(), &end);
        return !given.empty() && *end == '\0' ? std::string() : Cat(given, ", must be a number");
      },
      "");
}

// Checks that an option is a time in seconds. NaN fails both comparisons and is refused.
inline CLI::Validator Seconds() {
  return CLI::Validator(
      [](const std::string& given) {
        constexpr double kMin = 0.001;
        constexpr double kMax = 1e6;
        char* end = nullptr;
        const double seconds = std::strtod(given.c_str(), &end);
        const bool whole = !given.empty() && *end == '\0';
        return whole && seconds >= kMin && seconds <= kMax
                   ? std::string()
                   : Cat(given, ", must be ", kMin, " .. ", kMax, " seconds");
      },
      "SECONDS");
}

// Adds an option for a number of things, at least 1.
inline CLI::Option* AddCountOption(CLI::App& app, const std::string& flag, uint32_t* target,
                                   const std::string& description) {
  return app.add_option(flag, *target, description)
      ->check(WholeNumber(1, std::numeric_limits<uint32_t>::max()));
}

// Adds the option -k. Only the server knows the largest k.
inline CLI::Option* AddKOption(CLI::App& app, uint32_t* target, const std::string& description) {
  return app.add_option("-k", *target, description)
      ->check(WholeNumber(1, std::numeric_limits<uint32_t>::max(),
                          "k_max of the server (nearfield limits)"))
      ->capture_default_str();
}

// Adds a named option for enumerators whose names Name() returns.
template <typename E, typename Target>
CLI::Option* AddEnumOption(CLI::App& app, const std::string& flag, Target* target,
                           const std::string& description, std::initializer_list<E> values) {
  std::vector<std::pair<std::string, E>> names;
  for (const E value : values) names.emplace_back(Name(value), value);
  return AddNamedOption<E>(app, flag, target, description, names);
}

template <typename Target>
CLI::Option* AddMetricOption(CLI::App& app, Target* target) {
  return AddEnumOption(app, "--metric", target,
                       "How a score is computed; higher is better for each",
                       {Metric::kDot, Metric::kCosine, Metric::kL2});
}

template <typename Target>
CLI::Option* AddDataTypeOption(CLI::App& app, Target* target, const std::string& description) {
  return AddEnumOption(app, "--dtype", target, description,
                       {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16});
}

template <typename Target>
CLI::Option* AddScanOption(CLI::App& app, Target* target, const std::string& description) {
  return AddEnumOption(
      app, "--scan", target, description,
      {ScanChoice::kAuto, ScanChoice::kInt8, ScanChoice::kInt16, ScanChoice::kRows});
}

template <typename Target>
CLI::Option* AddIdTypeOption(CLI::App& app, Target* target, const std::string& description) {
  return AddEnumOption(app, "--id-type", target, description, {IdType::kUint64, IdType::kString});
}

template <typename Target>
CLI::Option* AddRowPlacementOption(CLI::App& app, Target* target, const std::string& description) {
  return AddEnumOption(app, "--rows", target, description,
                       {RowPlacement::kDevice, RowPlacement::kHost});
}

inline CLI::Option* AddEmbeddingModelOption(CLI::App& app, std::string* target,
                                            const std::string& when = "") {
  return app.add_option("--embedding-model", *target,
                        when + "The model that makes its vectors; nearfield text refuses others");
}

// Makes an option that may be repeated, with one value each, so that arguments may follow.
inline CLI::Option* Repeated(CLI::Option* option) {
  return option->type_size(1)->expected(1)->allow_extra_args(false)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

inline CLI::Option* AddAttributeOption(CLI::App& app, std::vector<AttributeSpec>* target,
                                       const std::string& when = "") {
  const auto add = [target](const std::vector<std::string>& given) {
    for (const std::string& text : given) {
      const auto spec = ParseAttributeSpec(text);
      if (!spec.ok()) throw CLI::ValidationError(Cat(spec.status().message()));
      target->push_back(*spec);
    }
  };
  return Repeated(app.add_option_function<std::vector<std::string>>(
      "--attribute", add,
      when + "An attribute that rows may have and filters ask for, as NAME:TYPE; may be repeated. "
             "int64, double, bool, keyword, timestamp, or a list of them: keyword[]; "
             "NAME:timestamp:expires deletes a row after that time"));
}

inline CLI::Option* AddTokenOption(CLI::App& app, std::string* target,
                                   const std::string& description) {
  return app.add_option("--token", *target, description)
      ->check(CLI::Validator(
          [](const std::string& given) {
            return given.empty() || given.size() > 256 ? std::string("1 to 256 bytes")
                                                       : std::string();
          },
          "TOKEN"));
}

// Adds an option for the attributes to return.
inline CLI::Option* AddWithAttributesOption(CLI::App& app, std::vector<std::string>* target) {
  return app
      .add_option("--with-attributes", *target,
                  "Attributes to show, such as year,tags; '*' shows all of them")
      ->delimiter(',');
}

// Adds the options for the epoch that a command reads.
inline void AddEpochOptions(CLI::App& app, std::optional<uint64_t>* min_epoch,
                            std::optional<uint64_t>* at_epoch) {
  app.add_option("--min-epoch", *min_epoch,
                 "Wait until the collection has reached this epoch, such as the one that an "
                 "upload printed")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()));
  app.add_option("--at-epoch", *at_epoch,
                 "Read exactly this epoch: the current one, or one that nearfield collections pin "
                 "keeps")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()));
}

inline CLI::Option* AddScoreThresholdOption(CLI::App& app, std::optional<float>* target) {
  return app.add_option("--score-threshold", *target, "Only neighbors with at least this score")
      ->check(Number());
}

inline CLI::Option* AddRowOption(CLI::App& app, std::optional<uint64_t>* target) {
  return app.add_option("--row", *target, "Only this row of the file, counted from 0")
      ->check(WholeNumber(0, std::numeric_limits<uint64_t>::max()));
}

inline CLI::Option* AddFormatOption(CLI::App& app, std::optional<FileFormat>* target) {
  return AddNamedOption<FileFormat>(app, "--format", target,
                                    "Format of the file, where its name does not end in it",
                                    {{"npy", FileFormat::kNpy},
                                     {"fbin", FileFormat::kFbin},
                                     {"fvecs", FileFormat::kFvecs},
                                     {"jsonl", FileFormat::kJsonl},
                                     {"csv", FileFormat::kCsv}});
}

}  // namespace nearfield::client
