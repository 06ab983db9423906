/* The C ABI of libnearfield_topk.so, the selection library: finds the k highest scores of each row
 * of a batch in the memory of a GPU, sorted. The contract of the results is that of
 * nearfield/engine/select.h: the higher score first, of equal scores the smaller index, NaN last;
 * the same bits for every algorithm and every run.
 *
 *   nf_topk_selector* selector;
 *   nf_topk_create(0, &selector);
 *   nf_topk_shape shape = {.struct_bytes = sizeof shape, .type = NF_TOPK_FLOAT32, .batch = 1024,
 *                          .n = 50000, .k = 2048};
 *   int64_t bytes;
 *   nf_topk_workspace_bytes(selector, &shape, NULL, &bytes);
 *   ... allocate `bytes` of device memory at `workspace`, then once:
 *   nf_topk_init_workspace(selector, workspace, bytes, stream);
 *   ... and any number of times:
 *   nf_topk_run(selector, &shape, &buffers, NULL, stream);
 *
 * Each function that returns int32_t returns NF_TOPK_OK or the code of the error, a number of
 * google.rpc.Code; nf_topk_last_error then has the message. No function throws.
 * algorithm: a name that nf_topk_algorithm_name returns; null means "adaptive", which chooses.
 * stream: a cudaStream_t; null means the legacy default stream. Functions that enqueue work use the
 * device of the selector, and leave the current device of the thread as it was.
 * Thread safety: every function may be called by any number of threads; nf_topk_destroy must be the
 * last call with its selector. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NF_TOPK_API __attribute__((visibility("default")))

/* Changes when a function or a struct of this file changes incompatibly. */
#define NF_TOPK_ABI_VERSION 1

/* The codes that the functions return. */
enum {
  NF_TOPK_OK = 0,
  NF_TOPK_INVALID_ARGUMENT = 3, /* the message names the field, the value and the limit */
  NF_TOPK_NOT_FOUND = 5,        /* no such algorithm */
  NF_TOPK_UNIMPLEMENTED = 12,   /* built without CUDA, or the algorithm cannot select the shape */
  NF_TOPK_INTERNAL = 13,
  NF_TOPK_UNAVAILABLE = 14 /* no driver, no such device, or a call of CUDA failed */
};

/* Types of scores. */
enum {
  NF_TOPK_FLOAT32 = 1,
  NF_TOPK_FLOAT16 = 2,
  NF_TOPK_BFLOAT16 = 3,
  NF_TOPK_INT32 = 4,
  NF_TOPK_UINT32 = 5
};

/* The index of a padded place: a ragged row with fewer than k scores. */
#define NF_TOPK_NO_INDEX 0xffffffffu

/* The selections of one device. */
typedef struct nf_topk_selector nf_topk_selector;

/* Zero the members that are not set. */
typedef struct nf_topk_shape {
  uint32_t struct_bytes; /* sizeof(nf_topk_shape) */
  int32_t type;          /* NF_TOPK_FLOAT32, ... */
  int64_t batch;         /* rows, 1 to 65,535 */
  int64_t n;             /* scores in a row; of ragged rows: the most that a row may have */
  int64_t k;             /* 1 to n */
  int64_t column_stride; /* distance between neighboring scores of a row; 0 means 1 */
  int32_t ragged;        /* 1: rows have bounds in device memory; else 0 */
  int32_t reserved;      /* 0 */
} nf_topk_shape;

/* Device memory of the caller. No two buffers may overlap. Zero the members that are not set. */
typedef struct nf_topk_buffers {
  uint32_t struct_bytes; /* sizeof(nf_topk_buffers) */
  uint32_t reserved;     /* 0 */
  const void* scores;    /* rows `stride` scores apart; aligned as one score */
  int64_t stride;        /* 0 means n * column_stride */
  /* Row r has the scores of the columns [row_begin[r], row_end[r]), and its indices count from
   * row_begin[r]. A begin below 0 counts as 0, a length below 0 as 0, above n as n. A row with
   * fewer than k scores is padded: index NF_TOPK_NO_INDEX, value -inf, or the lowest value of an
   * integer type. Only if the shape is ragged. */
  const int32_t* row_begin; /* [batch]; null: all 0 */
  const int32_t* row_end;   /* [batch]; null: all n */
  void* values;             /* [batch, k] of the type of the scores, best first */
  uint32_t* indices;        /* [batch, k] */
  void* workspace;          /* 256-byte aligned, as nf_topk_init_workspace left it */
  int64_t workspace_bytes;  /* at least nf_topk_workspace_bytes of the shape */
} nf_topk_buffers;

/* Returns NF_TOPK_ABI_VERSION of the library. */
NF_TOPK_API uint32_t nf_topk_abi_version(void);
/* Returns the version of nearfield: "0.1.0". */
NF_TOPK_API const char* nf_topk_version(void);

/* Returns the message of the last call of this thread that failed, UTF-8; "" if none has. Valid
 * until the thread's next call that fails. */
NF_TOPK_API const char* nf_topk_last_error(void);

/* Loads the kernels on the device, a CUDA ordinal. Call it outside the capture of a graph.
 * Errors: UNAVAILABLE, UNIMPLEMENTED (built without CUDA). */
NF_TOPK_API int32_t nf_topk_create(int32_t device, nf_topk_selector** selector);
/* Frees the selector; null is allowed. Work that it has enqueued continues. */
NF_TOPK_API void nf_topk_destroy(nf_topk_selector* selector);

/* Return the name of the algorithm `i` and a sentence about it; null if there are no more. 0 is
 * "adaptive". They belong to the selector. */
NF_TOPK_API const char* nf_topk_algorithm_name(const nf_topk_selector* selector, int32_t i);
NF_TOPK_API const char* nf_topk_algorithm_summary(const nf_topk_selector* selector, int32_t i);

/* Returns NF_TOPK_OK if the algorithm can select the shape.
 * Errors: INVALID_ARGUMENT, NOT_FOUND, UNIMPLEMENTED (names the field, the value and the limit). */
NF_TOPK_API int32_t nf_topk_supports(const nf_topk_selector* selector, const nf_topk_shape* shape,
                                     const char* algorithm);

/* Writes the name of the algorithm that "adaptive" runs for the shape to `name`. It belongs to the
 * selector. Errors: INVALID_ARGUMENT. */
NF_TOPK_API int32_t nf_topk_choice(const nf_topk_selector* selector, const nf_topk_shape* shape,
                                   const char** name);

/* Writes the bytes of workspace that the shape needs to `bytes`. One workspace may serve many
 * shapes and algorithms, one call at a time: use the largest size. Errors: as nf_topk_supports. */
NF_TOPK_API int32_t nf_topk_workspace_bytes(const nf_topk_selector* selector,
                                            const nf_topk_shape* shape, const char* algorithm,
                                            int64_t* bytes);

/* Zeroes the counters of a workspace; every call leaves them zero. Asynchronous. Call it once,
 * before the first use, on the stream of that use or one that precedes it; and again after a call
 * that failed on the device. Errors: INVALID_ARGUMENT, UNAVAILABLE. */
NF_TOPK_API int32_t nf_topk_init_workspace(const nf_topk_selector* selector, void* workspace,
                                           int64_t bytes, void* stream);

/* Enqueues the selection. Asynchronous; does not allocate or synchronize; can be captured in a CUDA
 * graph, which then uses these buffers whenever it runs.
 * Errors: as nf_topk_supports; also INVALID_ARGUMENT (buffers), UNAVAILABLE. */
NF_TOPK_API int32_t nf_topk_run(const nf_topk_selector* selector, const nf_topk_shape* shape,
                                const nf_topk_buffers* buffers, const char* algorithm,
                                void* stream);

/* Blocks until the work that was enqueued on the stream is done. Errors: UNAVAILABLE. */
NF_TOPK_API int32_t nf_topk_wait(const nf_topk_selector* selector, void* stream);

#ifdef __cplusplus
} /* extern "C" */
#endif
