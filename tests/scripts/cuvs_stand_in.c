// Stands in for libcuvs_c.so in tests: an exact search in host memory with cuVS's signatures.
// Declares its structs as DLPack's and cuVS's headers do, so that other layouts in the caller give
// other answers. `stand_in_calls` returns the calls so far.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct { int32_t device_type, device_id; } DLDevice;
typedef struct { uint8_t code, bits; uint16_t lanes; } DLDataType;
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor*);
} DLManagedTensor;
typedef struct { uintptr_t addr; int type; } cuvsFilter;
typedef struct { uintptr_t addr; DLDataType dtype; } cuvsBruteForceIndex;

enum { kFailed, kSuccess };
enum { kInt, kFloat = 2, kCuda = 2, kInnerProduct = 6 };
static const uintptr_t kResources = (uintptr_t)0xfedcba9876543210;

static char calls[4096];
static const char* last_error;
static cuvsBruteForceIndex index_memory;
static int64_t rows_count, dim;

const char* stand_in_calls(void) { return calls; }
const char* cuvsGetLastErrorText(void) { return last_error; }

static int Record(const char* call) {
  strncat(strncat(calls, call, sizeof calls - strlen(calls) - 1), "\n", sizeof calls - strlen(calls) - 1);
  return kSuccess;
}

static int Fail(const char* text) {
  last_error = text;
  return kFailed;
}

static bool IsMatrix(const DLTensor* tensor, int code, int bits) {
  return tensor->ndim == 2 && tensor->device.device_type == kCuda && tensor->device.device_id == 0 &&
         tensor->dtype.code == code && tensor->dtype.bits == bits && tensor->dtype.lanes == 1 &&
         tensor->strides == NULL && tensor->byte_offset == 0;
}

int cuvsVersionGet(uint16_t* major, uint16_t* minor, uint16_t* patch) {
  *major = 26, *minor = 2, *patch = 1;
  return kSuccess;
}

int cuvsRMMPoolMemoryResourceEnable(int initial_percent, int max_percent, bool managed) {
  char call[64];
  snprintf(call, sizeof call, "pool %d %d %d", initial_percent, max_percent, managed);
  return Record(call);
}

int cuvsRMMMemoryResourceReset(void) { return Record("pool reset"); }

int cuvsResourcesCreate(uintptr_t* resources) {
  *resources = kResources;
  return Record("resources create");
}

int cuvsResourcesDestroy(uintptr_t resources) {
  return resources == kResources ? Record("resources destroy") : Fail("other resources");
}

int cuvsStreamSet(uintptr_t resources, void* stream) {
  char call[64];
  snprintf(call, sizeof call, "stream %#llx", (unsigned long long)(uintptr_t)stream);
  return resources == kResources ? Record(call) : Fail("other resources");
}

int cuvsBruteForceIndexCreate(cuvsBruteForceIndex** index) {
  *index = &index_memory;
  return Record("index create");
}

int cuvsBruteForceIndexDestroy(cuvsBruteForceIndex* index) {
  return index == &index_memory ? Record("index destroy") : Fail("other index");
}

int cuvsBruteForceBuild(uintptr_t resources, DLManagedTensor* rows, int metric, float argument, cuvsBruteForceIndex* index) {
  if (resources != kResources || index != &index_memory) return Fail("other resources or index");
  if (!IsMatrix(&rows->dl_tensor, kFloat, 32)) return Fail("rows are no matrix of fp32");
  if (metric != kInnerProduct || argument != 0.0F) return Fail("other metric");
  index->addr = (uintptr_t)rows->dl_tensor.data;
  rows_count = rows->dl_tensor.shape[0], dim = rows->dl_tensor.shape[1];
  return Record("build");
}

int cuvsBruteForceSearch(uintptr_t resources, cuvsBruteForceIndex* index, DLManagedTensor* queries, DLManagedTensor* neighbors,
                         DLManagedTensor* distances, cuvsFilter filter) {
  if (resources != kResources || index != &index_memory) return Fail("other resources or index");
  const DLTensor *asked = &queries->dl_tensor, *found = &neighbors->dl_tensor, *scores = &distances->dl_tensor;
  if (!IsMatrix(asked, kFloat, 32) || asked->shape[1] != dim) return Fail("queries do not fit the rows");
  if (!IsMatrix(found, kInt, 64) || !IsMatrix(scores, kFloat, 32)) return Fail("results have other types");
  if (filter.addr != 0 || filter.type != 0) return Fail("a filter");
  const int64_t k = found->shape[1];
  for (int64_t query = 0; query < asked->shape[0]; ++query) {
    int64_t* ids = (int64_t*)found->data + query * k;
    float* best = (float*)scores->data + query * k;
    for (int64_t row = 0, held = 0; row < rows_count; ++row) {
      float score = 0;
      for (int64_t i = 0; i < dim; ++i)
        score += ((float*)asked->data)[query * dim + i] * ((float*)index->addr)[row * dim + i];
      int64_t place = held < k ? held++ : k;
      for (; place > 0 && best[place - 1] < score; --place)
        if (place < k) best[place] = best[place - 1], ids[place] = ids[place - 1];
      if (place < k) best[place] = score, ids[place] = row;
    }
  }
  return Record("search");
}
