// All settings of the server. Each is declared once, with default, unit, limits and help on the
// member.
#ifndef NEARFIELD_SERVER_CONFIG_SETTINGS_H_
#define NEARFIELD_SERVER_CONFIG_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "nearfield/engine/engine.h"
#include "server/config/setting.h"

namespace nearfield::server {

inline constexpr int64_t kKiB = 1024;
inline constexpr int64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kGiB = 1024 * kMiB;
inline constexpr int64_t kMemoryMax = 16 * 1024 * kGiB;
inline constexpr int64_t kMessageMax = 2 * kGiB - 1;  // gRPC stores message sizes in an int
inline constexpr int64_t kDayMs = 24 * 3600 * 1000;
// A reply is held as a message and in serialized form until its reader has it.
inline constexpr int64_t kReplyCopies = 2;
// Bytes that an UploadRequest may add to its UploadBlock.
inline constexpr int64_t kUploadEnvelopeBytes = 16;

struct Settings : SettingList {
  // Listening address.
  TextSetting listen{*this, "listen", "127.0.0.1:50051",
                     "Address and port, or unix:PATH. Port 0 takes a free one. Only loopback is "
                     "safe without a proxy"};
  TextSetting port_file{*this, "port_file", "",
                        "File to write the bound port to, once listening; empty: none"};

  // Storage.
  TextSetting data_dir{*this, "data_dir", "nearfield-data",
                       "Directory that keeps the collections: made where it is missing, one server "
                       "at a time; none: they live in memory alone"};
  TextSetting snapshot_dir{*this, "snapshot_dir", "",
                           "Directory for snapshots, made where it is missing; on the file system "
                           "of data_dir they take no room at first; empty: none can be made"};
  NumberSetting snapshots_max{
      *this, "snapshots_max", 64, {1, 100000}, "Snapshots in snapshot_dir; one more is refused"};

  // The engine.
  ChoiceSetting backend{
      *this,
      "backend",
      {"auto", "cpu", "gpu"},
      "What computes: auto takes a usable GPU, else the CPU; the answers are the same"};
  NumberSetting device{*this, "device", 0, {0, 255}, "CUDA ordinal of the GPU"};
  BytesSetting memory_bytes{*this,
                            "memory_bytes",
                            0,
                            {0, kMemoryMax},
                            "Device memory for rows, taken at start; 0: 85% of a GPU's free "
                            "memory, on the CPU four sevenths of what other settings leave"};
  BytesSetting host_memory_bytes{
      *this,
      "host_memory_bytes",
      0,
      {0, kMemoryMax},
      "Host memory for ids and payloads; 0: two sevenths of what other settings leave"};
  BytesSetting host_rows_bytes{
      *this,
      "host_rows_bytes",
      0,
      {0, kMemoryMax},
      "Page-locked host memory for the rows of collections with rows: host, taken at start; GPU "
      "only, the CPU has one memory"};
  BytesSetting attribute_memory_bytes{
      *this,
      "attribute_memory_bytes",
      0,
      {0, kMemoryMax},
      "Host memory for the attributes of rows; 0: a seventh of what other settings leave"};
  BytesSetting filter_cache_bytes{*this,
                                  "filter_cache_bytes",
                                  256 * kMiB,
                                  {0, kMemoryMax},
                                  "Host memory for the answers of filters asked for lately"};
  NumberSetting filter_threads{
      *this,
      "filter_threads",
      0,
      {0, 256},
      "Threads that evaluate filters that are not in the cache; 0: half of the cores, at most 8"};
  NumberSetting threads{*this, "threads", 0, {0, 4096}, "Threads of the CPU backend; 0: all cores"};
  NumberSetting batch_max{
      *this, "batch_max", 1024, {1, 65536}, "Queries that may share one pass over the rows"};
  NumberSetting self_test_seed{
      *this, "self_test_seed", 1, {0, INT64_MAX}, "Seed of the self-test before serving"};

  // Limits of one request.
  NumberSetting k_max{*this, "k_max", kKMax, {1, kKMax}, "Neighbors a query may ask for"};
  NumberSetting queries_max{
      *this, "queries_max", 1024, {1, 65536}, "Queries in one search; at most batch_max"};
  NumberSetting fetch_ids_max{
      *this, "fetch_ids_max", 10000, {1, 1000000}, "Ids in one fetch or delete"};
  BytesSetting request_bytes_max{
      *this, "request_bytes_max", 64 * kMiB, {64 * kKiB, kMessageMax}, "A message to the server"};
  BytesSetting response_bytes_max{*this,
                                  "response_bytes_max",
                                  64 * kMiB,
                                  {64 * kKiB, kMessageMax},
                                  "A message from the server"};
  BytesSetting payload_bytes_max{
      *this, "payload_bytes_max", 64 * kKiB, {0, kGiB}, "The payload of one row"};
  NumberSetting search_ms_max{
      *this,
      "search_ms_max",
      60000,
      {1, kDayMs},
      "Milliseconds a search may take, with or without a deadline of its own"};

  NumberSetting cursor_ms{*this,
                          "cursor_ms",
                          60000,
                          {1, kDayMs},
                          "Milliseconds for which the epoch of a cursor is kept after it was last "
                          "asked for; its deleted rows keep their memory"};
  NumberSetting page_rows_max{
      *this,
      "page_rows_max",
      100000,
      {1, kRowsMax},
      "Rows of one order that pages of Search may reach; SearchAll has no such limit"};

  // Limits on concurrent work and held resources.
  NumberSetting epochs_kept_max{
      *this,
      "epochs_kept_max",
      64,
      {1, 100000},
      "Epochs that are kept for the cursors and SearchAll streams of one caller"};
  NumberSetting epochs_kept_percent{
      *this,
      "epochs_kept_percent",
      10,
      {0, 100},
      "Of each memory for rows, what may be held by rows that only kept epochs show; beyond, the "
      "caller that holds the most loses the epoch it did not ask for longest"};
  NumberSetting collections_max{*this, "collections_max", 256, {1, 100000}, "Collections"};
  NumberSetting queue_requests_max{
      *this, "queue_requests_max", 1024, {1, 1000000}, "Searches that may wait for the engine"};
  BytesSetting queue_bytes_max{*this,
                               "queue_bytes_max",
                               256 * kMiB,
                               {kMiB, kMemoryMax},
                               "Query bytes that may wait for the engine"};
  SwitchSetting admission{*this, "admission", true,
                          "Refuse a search at once that is predicted to miss its deadline"};
  NumberSetting queue_ms_max{*this,
                             "queue_ms_max",
                             60000,
                             {1, kDayMs},
                             "Milliseconds that a search may be predicted to wait, whatever its "
                             "deadline"};
  NumberSetting caller_share_percent{
      *this,
      "caller_share_percent",
      80,
      {1, 100},
      "Of the queue and of the replies that wait, what a lone caller may hold, with others less; "
      "of the places and open tokens of uploads, what one caller may hold"};
  NumberSetting batch_share_percent{
      *this,
      "batch_share_percent",
      10,
      {1, 90},
      "Of device time, what searches of priority BATCH get while others wait"};
  BytesSetting replies_bytes_max{*this,
                                 "replies_bytes_max",
                                 kGiB,
                                 {64 * kKiB, kMemoryMax},
                                 "Bytes of replies, from the admission of their calls until their "
                                 "readers have them; each counts as message and as its serialised "
                                 "form"};
  NumberSetting reply_unread_ms{
      *this,
      "reply_unread_ms",
      30000,
      {10, kDayMs},
      "Milliseconds in which its reader must take a reply, or its call is "
      "cancelled"};
  BytesSetting requests_bytes_max{*this,
                                  "requests_bytes_max",
                                  512 * kMiB,
                                  {64 * kKiB, kMemoryMax},
                                  "Bytes of requests in flight: messages, their queries, rows of "
                                  "their filters"};
  BytesSetting transport_bytes_max{*this,
                                   "transport_bytes_max",
                                   512 * kMiB,
                                   {kMiB, kMemoryMax},
                                   "Bytes that gRPC may hold for connections, calls and messages "
                                   "that are not complete"};
  NumberSetting uploads_max{*this, "uploads_max", 8, {1, 1000}, "Uploads at once"};
  NumberSetting upload_idle_ms{
      *this,
      "upload_idle_ms",
      30000,
      {10, kDayMs},
      "Milliseconds an upload may be silent; a block must arrive whole within them"};
  BytesSetting upload_bytes_per_second_min{
      *this,
      "upload_bytes_per_second_min",
      4 * kKiB,
      {0, kGiB},
      "Bytes a second, over upload_idle_ms, below which an upload loses its place once another "
      "one is refused for want of places; 0: never"};
  NumberSetting upload_tokens_max{
      *this, "upload_tokens_max", 64, {1, 10000}, "Open uploads with a token"};
  NumberSetting upload_token_s{*this,
                               "upload_token_s",
                               24 * 3600,
                               {1, 365 * 24 * 3600},
                               "Seconds for which an open upload with a token is kept after it was "
                               "last touched"};
  NumberSetting verify_max{
      *this, "verify_max", 2, {1, 256}, "Verifications at once, one core each"};
  NumberSetting streams_max{
      *this, "streams_max", 128, {1, 100000}, "Calls at once on one connection"};

  // Audit of answers and rows in production.
  NumberSetting audit_share{*this,
                            "audit_share",
                            100,
                            {0, 1000000000},
                            "One in so many searches is checked against the oracle, off its path; "
                            "0: none"};
  NumberSetting audit_cpu_percent{
      *this,
      "audit_cpu_percent",
      3,
      {1, 100},
      "Of one core, what that audit takes at most; what it cannot check then it drops"};
  TextSetting audit_dir{*this, "audit_dir", "",
                        "Directory for records of wrong answers; empty: audit in data_dir"};
  NumberSetting scrub_interval_s{*this,
                                 "scrub_interval_s",
                                 24 * 3600,
                                 {0, 365 * 24 * 3600},
                                 "Seconds from one comparison of all resident rows with those in "
                                 "data_dir to the next; 0: none"};
  BytesSetting scrub_bytes_per_second{*this,
                                      "scrub_bytes_per_second",
                                      32 * kMiB,
                                      {64 * kKiB, kMemoryMax},
                                      "Bytes of rows that this comparison reads in a second, at "
                                      "most"};

  // Connections, shutdown and logging.
  NumberSetting keepalive_ms{*this,
                             "keepalive_ms",
                             60000,
                             {1000, kDayMs},
                             "Milliseconds of silence before a connection is probed"};
  NumberSetting keepalive_timeout_ms{*this,
                                     "keepalive_timeout_ms",
                                     20000,
                                     {100, kDayMs},
                                     "Milliseconds a probe may stay unanswered"};
  NumberSetting connections_max{*this,
                                "connections_max",
                                1024,
                                {1, 1000000},
                                "Connections at once; at most half of the descriptors that the "
                                "process may open. One more is closed at once"};
  NumberSetting connection_idle_ms{*this,
                                   "connection_idle_ms",
                                   300000,
                                   {100, kDayMs},
                                   "Milliseconds a connection may be without a call before it is "
                                   "closed"};
  NumberSetting connection_age_ms{*this,
                                  "connection_age_ms",
                                  3600000,
                                  {100, kDayMs},
                                  "Milliseconds after which a connection takes no new call; the "
                                  "calls on it run to their end"};
  NumberSetting drain_ms{
      *this, "drain_ms", 25000, {0, kDayMs}, "Milliseconds that calls in flight get after SIGTERM"};
  SwitchSetting reflection{*this, "reflection", false, "Answer gRPC reflection"};
  ChoiceSetting log_format{*this, "log_format", {"text", "json"}, "Log lines on stderr"};
  ChoiceSetting log_level{*this,
                          "log_level",
                          {"info", "debug", "warning", "error"},
                          "Least level that is logged; requests are info. Reloaded by SIGHUP"};
  ChoiceSetting log_requests{*this,
                             "log_requests",
                             {"some", "all"},
                             "Calls that are logged; some: those that failed or were slow, and a "
                             "sample. Reloaded by SIGHUP"};
  NumberSetting log_slow_ms{*this,
                            "log_slow_ms",
                            1000,
                            {0, kDayMs},
                            "Milliseconds from which a call is slow. Reloaded by SIGHUP"};
  NumberSetting log_sample{*this,
                           "log_sample",
                           100,
                           {0, 1000000000},
                           "One in this many other calls is logged; 0: none. Reloaded by SIGHUP"};

  // Checks rules that involve several settings. Errors: InvalidArgument.
  absl::Status Validate() const;
  EngineOptions ToEngineOptions() const;
  // Returns the directory for records of wrong answers; empty: none are written.
  std::string AuditDir() const;
  // Returns true if the collections are stored in a data directory.
  bool keeps_data() const { return data_dir.value() != "none"; }
  // Returns the maximum bytes of an UploadBlock as a serialized message.
  int64_t upload_block_bytes_max() const {
    return request_bytes_max.value() - kUploadEnvelopeBytes;
  }
  // Returns one line "name = value  # source" for each setting. A configuration file accepts this
  // form.
  std::string Effective() const;
};

// Returns true if `listen` can only be reached from this machine.
bool IsLoopback(const std::string& listen);

}  // namespace nearfield::server

#endif  // NEARFIELD_SERVER_CONFIG_SETTINGS_H_
