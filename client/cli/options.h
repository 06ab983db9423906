// Options that several commands take, declared once.
#ifndef NEARFIELD_CLIENT_CLI_OPTIONS_H_
#define NEARFIELD_CLIENT_CLI_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "client/formats/vector_file.h"
#include "nearfield/client/types.h"

namespace nearfield::client {

// An option whose value is one of a few names. `Target` is an E or a std::optional<E>.
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

inline CLI::Option* AddFormatOption(CLI::App& app, std::optional<FileFormat>* target) {
  return AddNamedOption<FileFormat>(app, "--format", target,
                                    "Format of the file, where its name does not end in it",
                                    {{"npy", FileFormat::kNpy},
                                     {"fbin", FileFormat::kFbin},
                                     {"fvecs", FileFormat::kFvecs},
                                     {"jsonl", FileFormat::kJsonl}});
}

}  // namespace nearfield::client

#endif  // NEARFIELD_CLIENT_CLI_OPTIONS_H_
