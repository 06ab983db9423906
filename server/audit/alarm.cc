#include "server/audit/alarm.h"

#include <ctime>
#include <utility>

namespace nearfield::server {
namespace {

Alarm::Options WithClock(Alarm::Options options) {
  if (options.unix_seconds == nullptr) {
    options.unix_seconds = [] { return static_cast<int64_t>(std::time(nullptr)); };
  }
  return options;
}

}  // namespace

Alarm::Alarm(Options options)
    : options_(WithClock(std::move(options))), folder_(options_.record_dir) {}

template <typename Mismatch>
void Alarm::RaiseOne(const Mismatch& mismatch) {
  options_.stop();  // before anything slow
  mismatches_.fetch_add(1);
  const RecordContext context = {.server_version = options_.server_version,
                                 .engine = options_.engine,
                                 .unix_seconds = options_.unix_seconds()};
  options_.report(Explain(mismatch),
                  folder_.Write(EncodeRecord(context, mismatch), context.unix_seconds));
}

void Alarm::Raise(const AnswerMismatch& mismatch) { RaiseOne(mismatch); }
void Alarm::Raise(const RowMismatch& mismatch) { RaiseOne(mismatch); }

}  // namespace nearfield::server
