/* Compiled as C: the header is C, and a C program sees the layout that the library has. */
#include "tests/engine/topk/c_api_smoke.h"

#include <stddef.h>

#include "nearfield/nearfield_topk.h"

struct CLayout LayoutInC(void) {
  struct CLayout layout;
  layout.shape_bytes = sizeof(nf_topk_shape);
  layout.shape_ragged_at = offsetof(nf_topk_shape, ragged);
  layout.buffers_bytes = sizeof(nf_topk_buffers);
  layout.buffers_workspace_at = offsetof(nf_topk_buffers, workspace);
  return layout;
}

int32_t CreateInC(int32_t device) {
  nf_topk_selector* selector = NULL;
  const int32_t code = nf_topk_create(device, &selector);
  nf_topk_destroy(selector);
  return code;
}
