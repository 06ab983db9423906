// The searches that wait: one line for each group that can share a pass, in the order of turns.
#ifndef NEARFIELD_SERVER_BATCHING_TICKET_LINES_H_
#define NEARFIELD_SERVER_BATCHING_TICKET_LINES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "server/batching/caller_table.h"
#include "server/batching/clock.h"
#include "server/batching/pass_times.h"
#include "server/batching/search_request.h"

namespace nearfield::server {

// One search in its line; what choosing needs lies here, so that only those chosen are touched.
struct LineEntry {
  double start = 0;     // on the virtual clock of its priority
  uint64_t number = 0;  // of arrival
  int64_t queries = 0;
  int32_t k_max = 0;   // of its queries
  double cost_us = 0;  // predicted
  int64_t bytes = 0;
  int64_t reply_bytes = 0;
  TimePoint deadline = TimePoint::max();
  CallerTable::Caller* caller = nullptr;
  std::unique_ptr<SearchTicket> ticket;
};

// The searches of one group and priority, ordered by (start, number).
class TicketLine {
 public:
  bool empty() const { return entries_.empty(); }
  size_t size() const { return entries_.size(); }
  int64_t queries() const { return queries_; }
  const LineEntry& front() const { return entries_.front(); }
  const LineEntry& at(size_t index) const { return entries_[index]; }

  // At either end in constant time: those of a busy caller go last, those of a quiet one first.
  void Insert(LineEntry entry);
  LineEntry PopFront();

  // Queries of the searches whose turn is before one that starts at `start`, from their mean.
  double QueriesBefore(double start) const;

  // Asks `choose` of each search from the front on, and hands those that leave to `out`, with the
  // choice.
  enum class Choice : uint8_t { kTake, kDrop, kSkip, kStop };  // both of the first leave
  template <typename Choose, typename Out>
  void TakeFromFront(Choose choose, Out out) {
    size_t kept = 0;
    size_t looked = 0;
    for (; looked < entries_.size(); ++looked) {
      LineEntry& entry = entries_[looked];
      const Choice choice = choose(std::as_const(entry));
      if (choice == Choice::kStop) break;
      if (choice != Choice::kSkip) {
        queries_ -= entry.queries;
        out(entry, choice);
      } else {
        if (kept != looked) entries_[kept] = std::move(entry);
        ++kept;
      }
    }
    if (kept == looked) return;
    // Those that were skipped move to the end of the gap, so that the rest of the line stays.
    std::move_backward(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(kept),
                       entries_.begin() + static_cast<std::ptrdiff_t>(looked));
    entries_.erase(entries_.begin(), entries_.begin() + static_cast<std::ptrdiff_t>(looked - kept));
  }

 private:
  std::deque<LineEntry> entries_;
  int64_t queries_ = 0;
};

// What a search asks of the device: it scans with all others of its pass, but rows behind k_max,
// and those behind the earlier pages of its order, it looks for alone.
struct SearchWork {
  bool shared = true;     // it takes part in the scan of the pass
  int64_t own_scans = 0;  // of one query

  // k_max: what one scan finds. Requires that all queries of a request skip alike.
  static SearchWork Of(const SearchRequest& request, int64_t k_max);
  friend bool operator==(const SearchWork& a, const SearchWork& b) {
    return a.shared == b.shared && a.own_scans == b.own_scans;
  }
};

// Searches of one collection, at the same epoch, over the same rows, with the same work, that
// return the same parts of rows.
struct TicketGroup {
  TicketGroup(const SearchRequest& request, SearchWork work_in)
      : collection(request.collection.get()),
        parts(request.parts),
        epoch(EpochOf(request)),
        filtered(request.queries.front().filter != nullptr),
        filter(request.queries.front().filter),
        work(work_in) {}
  // Nothing: the current one when the pass begins.
  static std::optional<uint64_t> EpochOf(const SearchRequest& request) {
    if (request.at == nullptr) return std::nullopt;
    return request.at->epoch();
  }
  bool Fits(const SearchRequest& request, SearchWork wanted) const;
  // Of a pass of so many of its queries.
  double PredictUs(double queries) const { return PassUs(*times, kind, work, queries); }
  static double PassUs(const PassTimes& times, PassKind kind, SearchWork work, double queries);
  bool empty() const { return lines[0].empty() && lines[1].empty(); }
  TicketLine& line(SearchPriority priority) { return lines[IndexOf(priority)]; }
  const TicketLine& line(SearchPriority priority) const { return lines[IndexOf(priority)]; }

  const Collection* const collection;  // alive while something waits
  const RowParts parts;
  const std::optional<uint64_t> epoch;
  const bool filtered;
  const std::weak_ptr<const RowFilter> filter;
  const SearchWork work;
  std::shared_ptr<PassTimes> times;
  PassKind kind;  // of all that came since it was empty
  std::array<TicketLine, kPriorities> lines;
};

// All that waits. Callers' counts are kept here, since every search comes and goes this way. Not
// thread-safe.
class TicketLines {
 public:
  // `callers` outlives the lines.
  explicit TicketLines(CallerTable* callers) : callers_(callers) {}

  bool empty() const { return requests_ == 0; }
  int64_t requests() const { return requests_; }
  int64_t bytes() const { return bytes_; }
  // Whether a search of this priority waits.
  bool Waits(SearchPriority priority) const { return waiting_[IndexOf(priority)] > 0; }
  // The deadline of none that waits is earlier.
  TimePoint earliest_deadline() const { return earliest_deadline_; }

  // The group of the request, made where there is none.
  TicketGroup* GroupOf(const SearchRequest& request, SearchWork work);
  const std::vector<std::unique_ptr<TicketGroup>>& groups() const { return groups_; }
  // The group whose first search has the earliest turn; null where none of this priority waits.
  TicketGroup* First(SearchPriority priority) const;

  void Insert(TicketGroup* group, LineEntry entry);
  LineEntry PopFront(TicketGroup* group, SearchPriority priority);
  template <typename Choose, typename Out>
  void TakeFromFront(TicketGroup* group, SearchPriority priority, Choose choose, Out out) {
    group->line(priority).TakeFromFront(choose, [&](LineEntry& entry, TicketLine::Choice choice) {
      Leaves(entry);
      out(entry, choice);
    });
  }

  // Hands over all whose deadline is not after `now` and, with `cancelled_too`, all whose caller
  // has gone. Cost: every search that waits is looked at.
  void Sweep(TimePoint now, bool cancelled_too, const std::function<void(LineEntry&)>& dead);
  // Hands over everything.
  void Clear(SearchTickets* all);

 private:
  void Leaves(const LineEntry& entry);

  CallerTable* const callers_;
  std::vector<std::unique_ptr<TicketGroup>> groups_;
  int64_t requests_ = 0;
  int64_t bytes_ = 0;
  std::array<int64_t, kPriorities> waiting_{};
  uint64_t next_number_ = 0;
  TimePoint earliest_deadline_ = TimePoint::max();
};

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_BATCHING_TICKET_LINES_H_
