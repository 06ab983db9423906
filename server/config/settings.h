// All settings of the server. Each is declared once, with default, unit, limits and help on the
// member; the first choice of a ChoiceSetting is its default. --help, the manual page and
// deploy/systemd/server.conf show these texts; tests/server/server_conf_test.cc rewrites the file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "nearfield/engine/engine.h"
#include "server/config/setting.h"

namespace nearfield::server {

inline constexpr int64_t kKiB = 1024;
inline constexpr int64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kGiB = 1024 * kMiB;
inline constexpr int64_t kMemoryMax = 16 * 1024 * kGiB;
inline constexpr int64_t kDiskMax = 1024 * kMemoryMax;
inline constexpr int64_t kMessageMax = 2 * kGiB - 1;  // gRPC stores message sizes in an int
inline constexpr int64_t kDayMs = 24 * 3600 * 1000;
// A reply is held as a message and in serialized form until its reader has it.
inline constexpr int64_t kReplyCopies = 2;
// Bytes that an UploadRequest may add to its UploadBlock.
inline constexpr int64_t kUploadEnvelopeBytes = 16;

struct Settings : SettingList {
  // Listening address.
  TextSetting listen{
      *this, "listen", "127.0.0.1:50051",
      "Address to serve on: HOST:PORT or unix:PATH. Port 0 takes a free port. Beyond "
      "loopback the server starts only with tls_cert and key_file, or with "
      "allow_insecure."};
  TextSetting port_file{*this, "port_file", "",
                        "File that receives the bound port once the server listens; written "
                        "atomically, removed after a drain and after a failed start. Empty: none. "
                        "Must be empty if listen is unix:PATH."};
  TextSetting ops_listen{*this, "ops_listen", "127.0.0.1:9464",
                         "Address of the operations port, which serves /metrics, /livez, /readyz "
                         "and a page to look at (/) over HTTP: HOST:PORT. Port 0 takes a free "
                         "port. It has no authentication: beyond loopback, only the monitoring "
                         "should reach it. none: no such port."};

  TextSetting http_listen{
      *this, "http_listen", "127.0.0.1:50052",
      "Address to serve the calls on as HTTP and JSON: HOST:PORT. Port 0 takes a free port. TLS, "
      "keys and allow_insecure apply as to listen. none: no such port, which is the default if "
      "listen is unix:PATH."};

  // Identity.
  TextSetting tls_cert{*this, "tls_cert", "",
                       "File with the certificate of the server and its chain, PEM. With it the "
                       "server accepts TLS only. Empty: no TLS."};
  TextSetting tls_key{*this, "tls_key", "",
                      "File with the private key of tls_cert, PEM without a passphrase."};
  TextSetting tls_client_ca{*this, "tls_client_ca", "",
                            "File with the authorities, PEM, one of which must have signed the "
                            "certificate of each client. Empty: clients need no certificate."};
  NumberSetting tls_reload_s{*this, "tls_reload_s", 60, Between(1, 24 * 3600),
                             "Interval in seconds at which tls_cert, tls_key and tls_client_ca are "
                             "checked for changes. New connections use the new files."};
  TextSetting key_file{*this, "key_file", "",
                       "File of the API keys, as the command nearfield keys writes it. With it "
                       "every call needs a key. Read again on SIGHUP. Empty: calls need no key."};
  SwitchSetting allow_insecure{*this, "allow_insecure", false,
                               "Serve beyond loopback without TLS or without keys. Only for a port "
                               "that trusted callers alone can reach."};

  // Storage.
  TextSetting data_dir{
      *this, "data_dir", "",
      "Directory that stores the collections. Created if it does not exist; used by one server at "
      "a time. Default: /var/lib/nearfield for root, else nearfield in $XDG_DATA_HOME or "
      "~/.local/share. none: the collections are in memory only."};
  TextSetting snapshot_dir{*this, "snapshot_dir", "",
                           "Directory for snapshots, outside data_dir. Created if it does not "
                           "exist. On the file system of data_dir, a snapshot shares its files and "
                           "takes no space at first. Empty: no snapshots can be made."};
  NumberSetting snapshots_max{*this, "snapshots_max", 64, Between(1, 100000),
                              "Maximum snapshots in snapshot_dir; one more is refused."};

  // The engine.
  ChoiceSetting backend{*this, "backend", "auto|cpu|gpu",
                        "Device that computes. auto uses the GPU if one is usable, else the CPU. "
                        "Both return the same answers."};
  TextSetting devices{*this, "devices", "",
                      "GPUs that hold the collections together: all, or CUDA ordinals as in 0,2. "
                      "Empty: one GPU, the setting device."};
  NumberSetting device{*this, "device", 0, Between(0, 255),
                       "CUDA ordinal of the GPU to use. Set devices instead to use several."};
  BytesSetting memory_bytes{*this, "memory_bytes", 0, Between(0, kMemoryMax),
                            "Memory for rows: of each GPU, allocated at start; on the CPU backend "
                            "a limit of host memory, which uploads take. 0: 85% of the free "
                            "memory of the GPU; on the CPU backend a share of what other settings "
                            "leave, at most half of the physical memory."};
  BytesSetting host_memory_bytes{*this, "host_memory_bytes", 0, Between(0, kMemoryMax),
                                 "Host memory for ids and payloads. 0: a share of what other "
                                 "settings leave, at most a quarter of the physical memory."};
  BytesSetting host_rows_bytes{
      *this, "host_rows_bytes", 0, Between(0, kMemoryMax),
      "Page-locked host memory for the rows of collections with rows: host, allocated at start. "
      "GPU only: the CPU backend has one memory for all rows."};
  BytesSetting attribute_memory_bytes{
      *this, "attribute_memory_bytes", 0, Between(0, kMemoryMax),
      "Host memory for the attributes of rows. 0: a share of what other settings leave, at most an "
      "eighth of the physical memory."};
  BytesSetting filter_cache_bytes{
      *this, "filter_cache_bytes", 256 * kMiB, Between(0, kMemoryMax),
      "Host memory for the results of recently used filters. 0: no cache."};
  BytesSetting term_memory_bytes{
      *this, "term_memory_bytes", 512 * kMiB, Between(0, kMemoryMax),
      "Host memory for the numbers that row terms of searches read: 8 bytes for each row and "
      "attribute. Recently used ones are kept. Increase it if searches with terms over large "
      "collections are refused. 0: such searches are refused."};
  NumberSetting filter_threads{*this, "filter_threads", 0, Between(0, 256),
                               "Threads that evaluate filters whose results are not cached. 0: "
                               "half of the cores, at most 8."};
  NumberSetting threads{*this, "threads", 0, Between(0, 4096),
                        "Threads of the CPU backend. 0: all cores."};
  NumberSetting batch_max{*this, "batch_max", 1024, Between(1, 65536),
                          "Maximum queries that share one pass over the rows."};
  NumberSetting self_test_seed{*this, "self_test_seed", 1, Between(0, INT64_MAX),
                               "Seed of the self-test that runs before the server serves."};

  // Limits of one request.
  NumberSetting k_max{*this, "k_max", kKMax, Between(1, kKMax),
                      "Maximum neighbors that a query may request."};
  NumberSetting queries_max{*this, "queries_max", 1024, Between(1, 65536),
                            "Maximum queries in one search; at most batch_max."};
  NumberSetting fetch_ids_max{*this, "fetch_ids_max", 10000, Between(1, 1000000),
                              "Maximum ids in one fetch, delete or update."};
  BytesSetting request_bytes_max{
      *this, "request_bytes_max", 64 * kMiB, Between(64 * kKiB, kMessageMax),
      "Maximum bytes of a message to the server. The maximum of an upload block is 16 bytes less."};
  BytesSetting response_bytes_max{*this, "response_bytes_max", 64 * kMiB,
                                  Between(64 * kKiB, kMessageMax),
                                  "Maximum bytes of a message from the server."};
  BytesSetting payload_bytes_max{*this, "payload_bytes_max", 64 * kKiB, Between(0, kGiB),
                                 "Maximum bytes of the payload of one row; at most half of an "
                                 "upload block and half of response_bytes_max."};
  NumberSetting search_ms_max{
      *this, "search_ms_max", 60000, Between(1, kDayMs),
      "Maximum milliseconds of a search, including its wait, whatever its deadline."};

  NumberSetting cursor_ms{*this, "cursor_ms", 60000, Between(1, kDayMs),
                          "Milliseconds for which the epoch of a cursor is kept after its last "
                          "use. Until then its rows keep their memory, even if they are deleted."};
  NumberSetting page_rows_max{
      *this, "page_rows_max", 100000, Between(1, kRowsMax),
      "Maximum rows that all pages of one query return together. SearchAll has no such limit."};

  NumberSetting expire_interval_s{
      *this, "expire_interval_s", 60, Between(0, 86400),
      "Seconds between two deletions of the rows that have expired, in collections that declare an "
      "attribute with `expires`. 0: no row expires."};

  // Limits on concurrent work and held resources.
  NumberSetting epochs_kept_max{
      *this, "epochs_kept_max", 64, Between(1, 100000),
      "Maximum epochs kept for the cursors, SearchAll and Scan streams of one caller."};
  NumberSetting epochs_kept_percent{
      *this, "epochs_kept_percent", 10, Between(0, 100),
      "Maximum percent of each memory for rows that kept epochs may pin in addition to the current "
      "rows. Above it, the caller whose epochs pin the most loses its least recently used epoch."};
  NumberSetting collections_max{*this, "collections_max", 256, Between(1, 100000),
                                "Maximum number of collections."};
  NumberSetting queue_requests_max{
      *this, "queue_requests_max", 1024, Between(1, 1000000),
      "Maximum searches that wait for the engine. The same limit applies to calls that wait for an "
      "epoch, for a filter thread and for a read thread."};
  BytesSetting queue_bytes_max{*this, "queue_bytes_max", 256 * kMiB, Between(kMiB, kMemoryMax),
                               "Maximum bytes of the searches that wait for the engine: queries "
                               "and rows of filters. At least request_bytes_max."};
  SwitchSetting admission{*this, "admission", true,
                          "Refuse a search immediately if it is predicted to miss its deadline."};
  NumberSetting queue_ms_max{*this, "queue_ms_max", 60000, Between(1, kDayMs),
                             "Maximum predicted wait of a search in milliseconds, whatever its "
                             "deadline. Applies only with admission."};
  NumberSetting caller_share_percent{
      *this, "caller_share_percent", 80, Between(1, 100),
      "Maximum percent that one caller may hold of uploads_max, of upload_tokens_max and, while no "
      "other caller holds any, of the search queue, request bytes and reply bytes. Holds of other "
      "callers lower the last three limits."};
  BytesSetting principal_device_bytes{
      *this, "principal_device_bytes", 0, Between(0, kMemoryMax),
      "Maximum bytes of device memory that the collections of one principal may hold, unless the "
      "key "
      "file has another limit for it (nearfield keys limit), as for the next six. 0: no limit. Set "
      "them if principals that do not trust each other share a server."};
  BytesSetting principal_host_bytes{
      *this, "principal_host_bytes", 0, Between(0, kMemoryMax),
      "Maximum bytes of host memory for the ids and payloads of one principal. 0: no limit."};
  BytesSetting principal_attribute_bytes{
      *this, "principal_attribute_bytes", 0, Between(0, kMemoryMax),
      "Maximum bytes of host memory for the attributes of one principal. 0: no limit."};
  BytesSetting principal_disk_bytes{
      *this, "principal_disk_bytes", 0, Between(0, kDiskMax),
      "Maximum bytes of disk for the stored rows of one principal. 0: no limit."};
  NumberSetting principal_collections{*this, "principal_collections", 0, Between(0, 100000),
                                      "Maximum collections of one principal. 0: no limit."};
  NumberSetting principal_aliases{*this, "principal_aliases", 0, Between(0, 100000),
                                  "Maximum aliases that one principal created. 0: no limit."};
  NumberSetting principal_snapshots{*this, "principal_snapshots", 0, Between(0, 100000),
                                    "Maximum snapshots that one principal made. 0: no limit."};
  NumberSetting batch_share_percent{
      *this, "batch_share_percent", 10, Between(1, 90),
      "Percent of device time that searches of priority BATCH get while others wait."};
  BytesSetting replies_bytes_max{
      *this, "replies_bytes_max", kGiB, Between(64 * kKiB, kMemoryMax),
      "Maximum bytes of replies, from the admission of their calls until their readers have them. "
      "Each reply counts twice: as a message and in serialized form. At least twice "
      "response_bytes_max."};
  NumberSetting reply_unread_ms{
      *this, "reply_unread_ms", 30000, Between(10, kDayMs),
      "Milliseconds within which the client must take a reply; otherwise its call is cancelled."};
  BytesSetting requests_bytes_max{*this, "requests_bytes_max", 512 * kMiB,
                                  Between(64 * kKiB, kMemoryMax),
                                  "Maximum bytes of requests in flight: messages, queries and rows "
                                  "of filters. At least request_bytes_max."};
  BytesSetting transport_bytes_max{*this, "transport_bytes_max", 512 * kMiB,
                                   Between(kMiB, kMemoryMax),
                                   "Maximum bytes that gRPC may hold for connections, calls and "
                                   "incomplete messages. At least request_bytes_max."};
  NumberSetting uploads_max{*this, "uploads_max", 8, Between(1, 1000),
                            "Maximum concurrent uploads."};
  NumberSetting upload_idle_ms{*this, "upload_idle_ms", 30000, Between(10, kDayMs),
                               "Milliseconds for which the client of an upload may be silent. Each "
                               "block must arrive whole within this time."};
  BytesSetting upload_bytes_per_second_min{
      *this, "upload_bytes_per_second_min", 4 * kKiB, Between(0, kGiB),
      "Minimum bytes per second of an upload, over upload_idle_ms. A slower upload loses its place "
      "when another one is refused for lack of that place. 0: no minimum."};
  NumberSetting upload_tokens_max{*this, "upload_tokens_max", 64, Between(1, 10000),
                                  "Maximum open uploads with a token."};
  NumberSetting upload_token_s{
      *this, "upload_token_s", 24 * 3600, Between(1, 365 * 24 * 3600),
      "Seconds for which an open upload with a token is kept after its last use, and for which the "
      "token of a committed upload is remembered. Raise it if clients repeat uploads later."};
  NumberSetting upload_tokens_committed_max{
      *this, "upload_tokens_committed_max", 10000, Between(1, 10000000),
      "Maximum tokens of committed uploads that each collection remembers; the oldest are "
      "forgotten "
      "first. Each takes about 500 bytes of host memory. Raise it if a collection has more uploads "
      "with a token within the time in which clients repeat them."};
  NumberSetting verify_max{*this, "verify_max", 2, Between(1, 256),
                           "Maximum concurrent verifications; each uses one core."};
  NumberSetting streams_max{*this, "streams_max", 128, Between(1, 100000),
                            "Maximum concurrent calls (HTTP/2 streams) on one connection."};

  // Audit of answers and rows in production.
  NumberSetting audit_one_in{*this, "audit_one_in", 100, Between(0, 1000000000),
                             "Audit one search in every N against the oracle, outside the request "
                             "path. 0 disables the audit."};
  NumberSetting audit_cpu_percent{
      *this, "audit_cpu_percent", 3, Between(1, 100),
      "Maximum percent of one core that the audit of searches uses. Answers that it cannot check "
      "within this limit are dropped and counted."};
  TextSetting audit_dir{*this, "audit_dir", "",
                        "Directory for records of wrong answers. Empty: audit in data_dir; no "
                        "records if data_dir is none."};
  NumberSetting scrub_interval_s{
      *this, "scrub_interval_s", 24 * 3600, Between(0, 365 * 24 * 3600),
      "Seconds from the start of the server to the first scrub, which compares all resident rows "
      "with data_dir, and from the start of one scrub to the next. 0: no scrub."};
  BytesSetting scrub_bytes_per_second{*this, "scrub_bytes_per_second", 32 * kMiB,
                                      Between(64 * kKiB, kMemoryMax),
                                      "Maximum bytes of rows that a scrub reads per second."};

  // Connections, shutdown and logging.
  NumberSetting keepalive_ms{*this, "keepalive_ms", 60000, Between(1000, kDayMs),
                             "Milliseconds of silence after which a connection is probed."};
  NumberSetting keepalive_timeout_ms{*this, "keepalive_timeout_ms", 20000, Between(100, kDayMs),
                                     "Milliseconds for which a probe may stay unanswered."};
  NumberSetting connections_max{
      *this, "connections_max", 1024, Between(1, 1000000),
      "Maximum concurrent connections; at most half of the file descriptors that the process may "
      "open. One more is closed immediately."};
  NumberSetting http_connections_max{
      *this, "http_connections_max", 256, Between(1, 1000000),
      "Maximum concurrent connections on http_listen, each with one call; at most a quarter of the "
      "file descriptors that the process may open. One more is closed immediately."};
  NumberSetting connection_idle_ms{
      *this, "connection_idle_ms", 300000, Between(100, kDayMs),
      "Milliseconds after which a connection without a call is closed."};
  NumberSetting connection_age_ms{
      *this, "connection_age_ms", 3600000, Between(100, kDayMs),
      "Milliseconds after which a connection takes no new call. The calls on it run to their end."};
  NumberSetting drain_ms{*this, "drain_ms", 25000, Between(0, kDayMs),
                         "Milliseconds that calls in flight get after SIGTERM or SIGINT."};
  SwitchSetting reflection{*this, "reflection", false, "Enable gRPC server reflection."};
  ChoiceSetting log_format{*this, "log_format", "text|json", "Format of the log lines on stderr."};
  ChoiceSetting log_level{
      *this, "log_level", "info|debug|warning|error",
      "Minimum level of the lines that are logged. Requests have level info; those that fail by a "
      "fault of the server have level error. Reloaded on SIGHUP."};
  ChoiceSetting log_requests{*this, "log_requests", "some|all",
                             "Calls that are logged. some: calls that failed, slow calls and a "
                             "sample of the others. Reloaded on SIGHUP."};
  NumberSetting log_slow_ms{
      *this, "log_slow_ms", 1000, Between(0, kDayMs),
      "A call that takes this many milliseconds or more is slow. Reloaded on SIGHUP."};
  NumberSetting log_sample{*this, "log_sample", 100, Between(0, 1000000000),
                           "Log one in every N calls that neither failed nor were slow; 0 logs "
                           "none of them. Reloaded on SIGHUP."};

  // Checks rules that involve several settings. Errors: InvalidArgument.
  absl::Status Validate() const;
  // Checks that a server beyond loopback has TLS and keys, or may do without. Errors:
  // InvalidArgument.
  absl::Status CheckExposure() const;
  // Returns true if the server is beyond loopback without TLS or keys, which allow_insecure allows.
  bool IsExposed() const;
  // Returns the address of the calls that is beyond loopback, listen or http_listen; null: none is.
  const TextSetting* BeyondLoopback() const;
  EngineOptions ToEngineOptions() const;
  // Returns the CUDA ordinals of the GPUs; {kAllDevices} for all.
  std::vector<int32_t> Gpus() const;
  // Returns the directory for records of wrong answers; empty: none are written.
  std::string AuditDir() const;
  // Returns true if there is an operations port.
  bool has_ops_port() const { return ops_listen.value() != "none"; }
  // Returns true if there is a port for HTTP and JSON.
  bool has_http_port() const;
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
