// Launches the refine kernels: after a stage they score queued rows and raise thresholds, and at
// the end they write the answers.
#include <algorithm>
#include <array>

#include "engine/gpu/kernels/batch/batch_refine_kernel.cuh"
#include "engine/gpu/kernels/batch/batch_table.h"

namespace nearfield::gpu {
namespace {

// Returns whether queries with row terms have the variant.
bool ServesTerms(RefineVariant variant) {
  return variant == RefineVariant::kMany || variant == RefineVariant::kSmall ||
         variant == RefineVariant::kLargeK;
}

constexpr std::array kVariants = {RefineVariant::kMany, RefineVariant::kFewKeys,
                                  RefineVariant::kFew, RefineVariant::kSmall,
                                  RefineVariant::kLargeK};

BatchRefinePointer KernelOf(RowType row, RefineVariant variant, bool terms) {
  switch (row) {
    case RowType::kFloat32: return BatchRefineFloat32(variant, terms);
    case RowType::kFloat16: return BatchRefineFloat16(variant, terms);
    case RowType::kBFloat16: break;
  }
  return BatchRefineBFloat16(variant, terms);
}

// Up to one query per SM of an H100 or H200 (132), a block of kRefineMany threads per query is
// faster. With more queries, several smaller blocks per SM are.
constexpr int kManyThreadsQueriesMax = 132;

// Returns the dynamic shared memory of a block.
int64_t SharedBytes(RefineVariant variant, int32_t dimension) {
  const int32_t code_bytes = CodeBytesOf(dimension);
  switch (variant) {
    case RefineVariant::kMany:
      return RefineSharedBytes<kRefineMany, false, kBatchKeys>(dimension, code_bytes);
    case RefineVariant::kFewKeys:
      return RefineSharedBytes<kRefineFewest, false, kBatchFewKeys>(dimension, code_bytes);
    case RefineVariant::kFew:
      return RefineSharedBytes<kRefineFew, false, kBatchKeys>(dimension, code_bytes);
    case RefineVariant::kSmall:
      return RefineSharedBytes<kRefineFew, true, kBatchKeys>(dimension, code_bytes);
    case RefineVariant::kLargeK: break;
  }
  return RefineSharedBytes<kRefineMany, true, kBatchKeysOfLargeK>(dimension, code_bytes);
}

int ThreadsOf(RefineVariant variant) {
  switch (variant) {
    case RefineVariant::kMany:
    case RefineVariant::kLargeK: return kRefineMany;
    case RefineVariant::kFewKeys: return kRefineFewest;
    case RefineVariant::kFew:
    case RefineVariant::kSmall: break;
  }
  return kRefineFew;
}

int64_t StaticSharedBytes(RefineVariant variant) {
  switch (variant) {
    case RefineVariant::kFewKeys: return sizeof(RefineShared<kBatchFewKeys>);
    case RefineVariant::kLargeK: return sizeof(RefineShared<kBatchKeysOfLargeK>);
    case RefineVariant::kMany:
    case RefineVariant::kFew:
    case RefineVariant::kSmall: break;
  }
  return sizeof(RefineShared<kBatchKeys>);
}

// Returns the largest dimension, in whole slices, that the variant serves on this device.
int32_t ServedDimension(RefineVariant variant, const BatchDevice& device) {
  return LargestDimension(device, [variant](int32_t dimension) {
    return SharedBytes(variant, dimension) + StaticSharedBytes(variant);
  });
}

RefineVariant VariantFor(const BatchArgs& args, const BatchDevice& device) {
  if (args.k_max > kBatchUsualKMax) return RefineVariant::kLargeK;
  const bool few_keys = args.k_max <= kBatchFewKMax && !args.overflowed;
  const RefineVariant variant = args.queries <= kManyThreadsQueriesMax ? RefineVariant::kMany
                                : few_keys                             ? RefineVariant::kFewKeys
                                                                       : RefineVariant::kFew;
  const bool serves = args.rotation.dimension <= ServedDimension(variant, device) &&
                      (args.terms == nullptr || ServesTerms(variant));
  return serves ? variant : RefineVariant::kSmall;
}

}  // namespace

cudaError_t PrepareBatchRefine(const BatchDevice& device, BatchDimensions* dimensions) {
  BatchDimensions largest = {.usual_k = 0, .large_k = 0};
  for (const RefineVariant variant : kVariants) {
    const int32_t served = ServedDimension(variant, device);
    if (served == 0) continue;
    int32_t& of_k = variant == RefineVariant::kLargeK ? largest.large_k : largest.usual_k;
    // It serves few of the searches, and the others need no less memory.
    if (variant != RefineVariant::kFewKeys) of_k = std::max(of_k, served);
    for (const RowType row : {RowType::kFloat32, RowType::kFloat16, RowType::kBFloat16}) {
      for (const bool terms : {false, true}) {
        if (terms && !ServesTerms(variant)) continue;
        const cudaError_t error =
            cudaFuncSetAttribute(reinterpret_cast<const void*>(KernelOf(row, variant, terms)),
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(SharedBytes(variant, served)));
        if (error != cudaSuccess) return error;
      }
    }
  }
  dimensions->usual_k = std::min(dimensions->usual_k, largest.usual_k);
  dimensions->large_k = std::min(dimensions->large_k, largest.large_k);
  return cudaSuccess;
}

cudaError_t LaunchBatchRefine(RowType row, const BatchArgs& args, const BatchStage& stage,
                              const BatchDevice& device, cudaStream_t stream) {
  const RefineVariant variant = VariantFor(args, device);
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(args.queries));
  config.blockDim = dim3(static_cast<unsigned>(ThreadsOf(variant)));
  config.dynamicSmemBytes = static_cast<size_t>(SharedBytes(variant, args.rotation.dimension));
  config.stream = stream;
  BatchStage copy = stage;
  void* parameters[] = {const_cast<BatchArgs*>(&args), &copy};
  return cudaLaunchKernelExC(
      &config, reinterpret_cast<const void*>(KernelOf(row, variant, args.terms != nullptr)),
      parameters);
}

}  // namespace nearfield::gpu
