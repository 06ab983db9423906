/* Functions in C that c_api_test calls. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CLayout {
  size_t shape_bytes;
  size_t shape_ragged_at;
  size_t buffers_bytes;
  size_t buffers_workspace_at;
};

struct CLayout LayoutInC(void);
/* Returns the code of nf_topk_create. */
int32_t CreateInC(int32_t device);

#ifdef __cplusplus
} /* extern "C" */
#endif
