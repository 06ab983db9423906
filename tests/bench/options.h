// The command lines of the benchmarks: kinds of options that they share, on top of CLI11. An option
// is --name=value or --name value; the values of a list are separated by commas.
#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/bench/names.h"

namespace nearfield::bench {

// Adds an option for a positive number, or for a list of them.
template <typename Value>
CLI::Option* AddPositive(CLI::App& app, const std::string& name, Value& value,
                         const std::string& help = "") {
  return app.add_option(name, value, help)
      ->check(CLI::PositiveNumber)
      ->delimiter(',')
      ->capture_default_str();
}

// Adds an option for one of the names, or for a list of them.
template <typename Value, typename T, size_t kSize>
CLI::Option* AddNamed(CLI::App& app, const std::string& name, Value& value,
                      const Names<T, kSize>& names, const std::string& help = "") {
  const std::vector<std::pair<std::string, T>> table(names.begin(), names.end());
  std::string one_of;
  for (const auto& [text, each] : names) one_of += (one_of.empty() ? "" : "|") + std::string(text);
  return app.add_option(name, value, help)
      ->transform(CLI::CheckedTransformer(table).description(one_of))
      ->delimiter(',');
}

// Adds --tiny. Add it before the options whose values `set` changes: given as well, they win.
inline void AddTiny(CLI::App& app, const std::function<void()>& set) {
  app.add_flag_callback("--tiny", set, "a few seconds on any machine; checks, times little");
}

}  // namespace nearfield::bench
