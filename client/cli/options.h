// Options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "client/formats/text.h"
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
// large for any integer type gets the same message.
inline CLI::Validator WholeNumber(uint64_t min, uint64_t max) {
  return CLI::Validator(
      [min, max](const std::string& given) {
        uint64_t value = 0;
        const char* end = given.data() + given.size();
        const auto parsed = std::from_chars(given.data(), end, value);
        const bool good = parsed.ec == std::errc() && parsed.ptr == end && !given.empty() &&
                          value >= min && value <= max;
        return good ? std::string() : Cat(given, ", must be a whole number, ", min, " .. ", max);
      },
      "");
}

// Adds an option for a number of things, at least 1.
inline CLI::Option* AddCountOption(CLI::App& app, const std::string& flag, uint32_t* target,
                                   const std::string& description) {
  return app.add_option(flag, *target, description)
      ->check(WholeNumber(1, std::numeric_limits<uint32_t>::max()));
}

template <typename Target>
CLI::Option* AddMetricOption(CLI::App& app, Target* target) {
  return AddNamedOption<Metric>(
      app, "--metric", target, "How a score is computed; higher is better for each",
      {{"dot", Metric::kDot}, {"cosine", Metric::kCosine}, {"l2", Metric::kL2}});
}

template <typename Target>
CLI::Option* AddDataTypeOption(CLI::App& app, Target* target, const std::string& description) {
  return AddNamedOption<DataType>(app, "--dtype", target, description,
                                  {{"float32", DataType::kFloat32},
                                   {"float16", DataType::kFloat16},
                                   {"bfloat16", DataType::kBFloat16}});
}

template <typename Target>
CLI::Option* AddIdTypeOption(CLI::App& app, Target* target, const std::string& description) {
  return AddNamedOption<IdType>(app, "--id-type", target, description,
                                {{"uint64", IdType::kUint64}, {"string", IdType::kString}});
}

template <typename Target>
CLI::Option* AddScanOption(CLI::App& app, Target* target, const std::string& description) {
  return AddNamedOption<ScanChoice>(
      app, "--scan", target, description,
      {{"auto", ScanChoice::kAuto}, {"int8", ScanChoice::kInt8}, {"rows", ScanChoice::kRows}});
}

template <typename Target>
CLI::Option* AddRowPlacementOption(CLI::App& app, Target* target, const std::string& description) {
  return AddNamedOption<RowPlacement>(
      app, "--rows", target, description,
      {{"device", RowPlacement::kDevice}, {"host", RowPlacement::kHost}});
}

inline CLI::Option* AddAttributeOption(CLI::App& app, std::vector<AttributeSpec>* target,
                                       const std::string& when = "") {
  return app
      .add_option_function<std::vector<std::string>>(
          "--attribute",
          [target](const std::vector<std::string>& given) {
            for (const std::string& text : given) {
              const auto spec = ParseAttributeSpec(text);
              if (!spec.ok()) throw CLI::ValidationError(Cat(spec.status().message()));
              target->push_back(*spec);
            }
          },
          when +
              "An attribute that rows may have and filters ask for, as NAME:TYPE; may be repeated. "
              "int64, double, bool, keyword, timestamp, or a list of them: keyword[]")
      ->type_size(1)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

inline CLI::Option* AddMinEpochOption(CLI::App& app, std::optional<uint64_t>* target) {
  return app.add_option("--min-epoch", *target,
                        "Wait until the collection has reached this epoch, such as the one that an "
                        "upload printed");
}

inline CLI::Option* AddScoreThresholdOption(CLI::App& app, std::optional<float>* target) {
  return app.add_option("--score-threshold", *target, "Only neighbors with at least this score");
}

inline CLI::Option* AddFormatOption(CLI::App& app, std::optional<FileFormat>* target) {
  return AddNamedOption<FileFormat>(app, "--format", target,
                                    "Format of the file, where its name does not end in it",
                                    {{"npy", FileFormat::kNpy},
                                     {"fbin", FileFormat::kFbin},
                                     {"fvecs", FileFormat::kFvecs},
                                     {"jsonl", FileFormat::kJsonl}});
}

}  // namespace nearfield::client
