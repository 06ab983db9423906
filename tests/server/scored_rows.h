// Rows of an answer with the bits of their scores.
#pragma once

#include <bit>
#include <cstdint>
#include <ostream>
#include <vector>

#include "tests/server/pages_fixture.h"

namespace nearfield::server {

struct Scored {
  float score = 0;
  uint64_t id = 0;

  bool operator==(const Scored& other) const {
    return id == other.id && std::bit_cast<uint32_t>(score) == std::bit_cast<uint32_t>(other.score);
  }
};
inline std::ostream& operator<<(std::ostream& out, const Scored& row) {
  return out << row.id << "=" << row.score;
}

inline std::vector<Scored> RowsOf(const pb::QueryResult& result) {
  std::vector<Scored> rows;
  for (int i = 0; i < result.scores_size(); ++i) {
    rows.push_back({.score = result.scores(i), .id = result.ids().numbers(i)});
  }
  return rows;
}
inline std::vector<Scored> RowsOf(const Pages& pages) {
  std::vector<Scored> rows;
  for (int64_t i = 0; i < pages.all.ids.size(); ++i) {
    rows.push_back(
        {.score = pages.all.scores[static_cast<size_t>(i)], .id = pages.all.ids.number(i)});
  }
  return rows;
}

}  // namespace nearfield::server
