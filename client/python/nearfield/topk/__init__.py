"""The k highest scores of each row, on the GPU or the CPU: exact, sorted, ties by index.

    from nearfield.topk import topk

    values, indices = topk(logits, k=50)                       # torch, CuPy, JAX, NumPy
    values, indices = topk(scores, k=2048, lengths=lengths)    # rows of different lengths

Order: the higher score first; of equal scores, the smaller index. Every NaN ranks last, below -inf
(torch.topk has it first); -0 is returned as +0. The result depends on the scores alone, to the bit.

The package nearfield-topk has this module under the name nearfield_topk, and needs NumPy alone.

On a GPU the work is enqueued on the caller's current stream by libnearfield_topk.so, of the
package nearfield-topk or nearfield-native. Nothing is copied to the host, and nothing waits, except
for JAX, which shows no stream: there the call returns when the result is complete. NumPy arrays,
and tensors of torch or JAX on the CPU, are selected on the host with the same result to the bit.

CUDA graphs: make one call on the device before the first capture. A captured call allocates its
workspace in the capture, where torch keeps it for the graph, and each replay first zeroes 14 MiB of
it. A workspace from `make_workspace` that the caller keeps avoids both, and CuPy requires one.

`nearfield.topk.torch_operator` registers torch.ops.nearfield.topk for torch.compile.
"""

from __future__ import annotations

from ._select import TopK, algorithms, choice, make_workspace, topk
from ._workspaces import Workspace

__all__ = ["TopK", "Workspace", "algorithms", "choice", "make_workspace", "topk"]
