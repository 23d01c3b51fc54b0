"""Where autograd adds a second gradient into the first one's memory.

The engine adds in place when it holds the last reference, but never while a dispatch mode
watches; so the decision is taken again here, with the references the watching adds counted out.
"""

from __future__ import annotations

import torch
import torch._prims_common as _common

# Named differently across versions of PyTorch.
_dense = (
    getattr(_common, "is_non_overlapping_and_dense_or_false", None)
    or _common.is_non_overlapping_and_dense
)

# References to a tensor that nothing else holds, as counted from inside a dispatch mode: the
# engine's buffer, the two boxed copies of the call, and the Python object; for its storage,
# the tensor and the Python object.
_TENSOR_REFERENCES = 4
STORAGE_REFERENCES = 2


def accumulates_in_place(args, kwargs) -> bool:
    """Whether this `add` is the engine's, into a buffer that nothing else can see."""
    if (
        kwargs
        or len(args) != 2
        or torch._C._current_graph_task_id() == -1
        or torch.is_grad_enabled()
    ):
        return False
    old, new = args
    if (
        not (isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor))
        or old.shape != new.shape
    ):
        return False
    return (
        old._use_count() <= _TENSOR_REFERENCES
        and torch._C._storage_Use_Count(old.untyped_storage()._cdata) <= STORAGE_REFERENCES
        and (old.is_contiguous() or _dense(old))
    )
