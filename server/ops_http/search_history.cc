#include "server/ops_http/search_history.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace nearfield::server {
namespace {

bool IsSearch(const std::string& method) {
  return method == "Search" || method == "SearchStream" || method == "SearchAll";
}

int64_t UnixMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

SearchMoment MomentOf(ServerState* state) {
  SearchMoment moment;
  moment.unix_ms = UnixMs();
  for (const auto& [key, count] : state->call_counter().counts()) {
    if (!IsSearch(key.first)) continue;
    for (size_t i = 0; i < moment.by_time.size(); ++i) {
      moment.by_time[i] += count.total_us.counts()[i];
    }
  }
  for (const auto& [method, times] : state->call_counter().engine_times()) {
    if (!IsSearch(method)) continue;
    moment.timed += times.device_us.count();
    moment.queue_us += times.queue_us.sum();
    moment.device_us += times.device_us.sum();
  }
  for (const auto& [reason, count] : state->call_counter().refusals()) moment.refused += count;
  return moment;
}

nlohmann::json JsonOf(const std::vector<SearchMoment>& moments) {
  nlohmann::json json = nlohmann::json::array();
  for (const SearchMoment& moment : moments) {
    json.push_back({{"unix_ms", moment.unix_ms},
                    {"refused", moment.refused},
                    {"timed", moment.timed},
                    {"queue_us", moment.queue_us},
                    {"device_us", moment.device_us},
                    {"by_time", moment.by_time}});
  }
  return json;
}

}  // namespace

void SearchMoments::Add(const SearchMoment& moment) {
  if (count_ % stride_ == 0) {
    if (whole_.size() == kWholeMax) {
      for (size_t i = 0; i < kWholeMax / 2; ++i) whole_[i] = whole_[2 * i];
      whole_.resize(kWholeMax / 2);
      stride_ *= 2;
    }
    whole_.push_back(moment);
  }
  recent_[count_ % kRecentMax] = moment;
  ++count_;
}

std::vector<SearchMoment> SearchMoments::recent() const {
  std::vector<SearchMoment> moments;
  for (size_t i = count_ - std::min(count_, kRecentMax); i < count_; ++i) {
    moments.push_back(recent_[i % kRecentMax]);
  }
  return moments;
}

std::shared_ptr<SearchHistory> SearchHistory::Start(ServerState* state) {
  std::shared_ptr<SearchHistory> history(new SearchHistory(state));
  Tick(history);
  return history;
}

void SearchHistory::Tick(const std::shared_ptr<SearchHistory>& history) {
  history->Take();
  history->state_->timers().Start(kEvery, [history] { Tick(history); });
}

void SearchHistory::Take() {
  const SearchMoment moment = MomentOf(state_);
  const MutexLock lock(mutex_);
  moments_.Add(moment);
}

std::string SearchHistory::Json() const {
  const MutexLock lock(mutex_);
  const nlohmann::json json = {{"unix_ms", UnixMs()},
                               {"recent", JsonOf(moments_.recent())},
                               {"whole", JsonOf(moments_.whole())}};
  return json.dump() + "\n";
}

}  // namespace nearfield::server
