/* The C ABI of libnearfield.so: a data directory, its engine and its service in this process. The
 * calls, their messages and their errors are those of proto/nearfield/v1, serialized; the answers
 * are those of nearfield-server to the bit. There is no network and no gRPC.
 *
 * A handle is a number. A handle that was closed, or never existed, is refused with NF_CANCELLED:
 * no order of calls touches freed memory. Thread safety: every function may be called by any number
 * of threads, with one exception: nf_send of one stream by one thread at a time, and nf_receive
 * likewise. A process that forks cannot use its handles in the child (NF_FAILED_PRECONDITION).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NF_API __attribute__((visibility("default")))

/* Changes when a function or a struct of this file changes incompatibly. */
#define NF_ABI_VERSION 3

/* The status codes that this file names; nf_reply has all of google.rpc.Code. */
enum { NF_OK = 0, NF_CANCELLED = 1, NF_FAILED_PRECONDITION = 9, NF_UNIMPLEMENTED = 12 };

/* An open data directory; 0: none. */
typedef uint64_t nf_server;
/* A call with a stream of messages; 0: none. */
typedef uint64_t nf_stream;

/* The result of a call. The bytes belong to the library until nf_free; all of them may be empty. */
typedef struct nf_reply {
  int32_t code;        /* google.rpc.Code */
  int32_t has_message; /* nf_receive: 1: data is a message; 0: the stream has ended with `code` */
  const char* data;    /* the serialized response */
  size_t size;
  const char* message; /* of the error, UTF-8, ends with a zero */
  const char* details; /* a serialized google.rpc.Status */
  size_t details_size;
  const char* request_id; /* ends with a zero */
  int64_t retry_after_ms; /* -1: no hint */
  void* owner;
} nf_reply;

/* The options of a call. All zero: no deadline, no names. */
typedef struct nf_options {
  int64_t timeout_us;     /* time until the deadline; 0: none */
  const char* caller;     /* the name by which the engine is shared fairly; null: none */
  const char* request_id; /* null: one is drawn */
  /* Null; or called about every 50 ms by a thread that waits in nf_call, nf_search, nf_send or
   * nf_receive, or that runs a search in the first two: another result than 0 cancels the call.
   * Valid until the call or the stream has ended. */
  int32_t (*interrupted)(void* context);
  void* context; /* its argument */
} nf_options;

/* Returns NF_ABI_VERSION of the library. */
NF_API uint32_t nf_abi_version(void);
/* Returns the version of nearfield: "0.1.0". */
NF_API const char* nf_version(void);

/* Opens a data directory, checks the engine against the oracle, and loads the collections.
 * settings: lines "name = value" as in the server's configuration file; data_dir is required, and
 * "none" keeps the collections in memory. Settings of the network have no effect. The log goes to
 * stderr; log_level is "error" unless given.
 * Returns the code of `reply`: INVALID_ARGUMENT (a setting), FAILED_PRECONDITION (another process,
 * or this one, has opened the directory; or there is too little memory), DATA_LOSS (the directory
 * is damaged), UNAVAILABLE (the device), INTERNAL (the self-test failed). */
NF_API int32_t nf_open(const char* settings, nf_server* server, nf_reply* reply);

/* Closes the directory. Calls in flight are cancelled and end with NF_CANCELLED. Returns when all
 * have ended and the directory can be opened again. */
NF_API void nf_close(nf_server server);

/* Makes a unary call. method: "/nearfield.v1.Retrieval/Search"; also
 * "/grpc.health.v1.Health/Check". Blocks until the call has ended; a search runs on this thread if
 * the engine is idle. The request is borrowed for the call. options: may be null. Returns the code
 * of `reply`. */
NF_API int32_t nf_call(nf_server server, const char* method, const void* request, size_t size,
                       const nf_options* options, nf_reply* reply);

/* A search without other options, in numbers. Borrowed for the call. */
typedef struct nf_plain_search {
  const char* collection;
  const float* queries; /* [queries_count, dim], row-major */
  int64_t queries_count;
  int32_t dim;
  int32_t k;            /* of every query */
  uint64_t min_epoch;   /* as SearchRequest.min_epoch; 0: none */
  uint64_t incarnation; /* of min_epoch; 0: any */
  /* The answers: the neighbors of all queries, one query after the other, best first. Undefined
   * after an error. */
  uint64_t* ids;    /* room for queries_count * k */
  float* scores;    /* as many */
  uint32_t* counts; /* [queries_count]: the number of neighbors of each query */
} nf_plain_search;

/* The part of a reply to Search that is not the neighbors. */
typedef struct nf_plain_result {
  int64_t hits_count; /* of all queries */
  uint64_t epoch;
  uint64_t incarnation;
  uint64_t queue_us; /* this and the others: nearfield.v1.SearchCost */
  uint64_t device_us;
  uint64_t total_us;
  uint64_t candidates;
  uint64_t rows_scanned;
  uint64_t bytes_read;
  uint64_t escalations_tighter;
  uint64_t escalations_canonical;
  uint64_t read_ns_min;
  uint32_t batch_size;
  int32_t backend;
  int32_t scan_precision;
  int32_t reserved;
  char request_id[136]; /* ends with a zero */
} nf_plain_result;

/* Makes the call Search as nf_call does, without messages. If the ids of the collection are texts,
 * has_message of the reply is 1 and data is the SearchResponse; answers and result are not set.
 * Otherwise the reply to a search that succeeded is empty and need not be freed. options: may be
 * null. Returns the code of `reply`. */
NF_API int32_t nf_search(nf_server server, const nf_plain_search* search, const nf_options* options,
                         nf_plain_result* result, nf_reply* reply);

/* Begins a call with a stream of messages: SearchStream, SearchAll, Scan or Upload. SearchAll and
 * Scan take their one request here; the others take null, and requests by nf_send. Returns the code
 * of `reply`: an error if the call cannot begin; else NF_OK, and `stream` is set. */
NF_API int32_t nf_begin(nf_server server, const char* method, const void* request, size_t size,
                        const nf_options* options, nf_stream* stream, nf_reply* reply);

/* Sends a request, which is borrowed for the call; null: there are no more. Blocks until the
 * service has taken the request before it. Returns 1, or 0 if the call has ended: nf_receive says
 * why. */
NF_API int32_t nf_send(nf_stream stream, const void* request, size_t size);

/* Blocks until the next message or the end. Returns 1 if there is a message, else 0 and the status
 * of the call; after the end it returns the same again. */
NF_API int32_t nf_receive(nf_stream stream, nf_reply* reply);

/* Cancels the call. It still ends, and its waiting threads return. */
NF_API void nf_cancel(nf_stream stream);
/* Cancels the call unless it has ended, and frees it. */
NF_API void nf_end(nf_stream stream);

/* Frees the bytes of a reply, and clears it. Every reply that a function has filled must be freed.
 */
NF_API void nf_free(nf_reply* reply);

#ifdef __cplusplus
} /* extern "C" */
#endif
