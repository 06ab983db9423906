// ScoreColumn: the scores of an answer. It owns them, or it refers to memory that a device has
// filled and keeps that alive.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace nearfield {

class ScoreColumn {
 public:
  using value_type = float;
  using const_iterator = const float*;

  ScoreColumn() = default;
  ScoreColumn(std::vector<float> scores) : own_(std::move(scores)) {}  // NOLINT
  ScoreColumn(std::initializer_list<float> scores) : own_(scores) {}
  // Refers to `scores`, which `owner` keeps alive, in place of its own.
  void Lend(absl::Span<const float> scores, std::shared_ptr<const void> owner) {
    own_.clear();
    lent_ = scores;
    owner_ = std::move(owner);
  }

  absl::Span<const float> span() const { return owner_ != nullptr ? lent_ : own_; }
  size_t size() const { return span().size(); }
  bool empty() const { return span().empty(); }
  const float* data() const { return span().data(); }
  const float* begin() const { return data(); }
  const float* end() const { return data() + size(); }
  float front() const { return span().front(); }
  float back() const { return span().back(); }
  const float& operator[](size_t index) const { return span()[index]; }

  // Returns the scores to change. Copies them first if they are lent.
  std::vector<float>& Mutable() {
    if (owner_ != nullptr) own_.assign(lent_.begin(), lent_.end());
    owner_.reset();
    return own_;
  }
  void push_back(float score) { Mutable().push_back(score); }

  friend bool operator==(const ScoreColumn& a, const ScoreColumn& b) {
    return a.span() == b.span();
  }

 private:
  std::vector<float> own_;
  absl::Span<const float> lent_;
  std::shared_ptr<const void> owner_;  // null: the scores are in own_
};

}  // namespace nearfield
