"""Rows of different lengths in one tensor (nested tensors of layout jagged).

What they consist of is asked for its device where no mode answers: there it is `meta`, for what lies on the GPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nested._internal import nested_tensor, sdpa
from torch.nn.attention import SDPBackend

from ...standins.patches import Patches

_HALVES = (torch.float16, torch.bfloat16)
# The widest head that PyTorch's flash attention takes.
_WIDEST_HEAD = 256


def install(patches: Patches) -> None:
    _making(patches)
    select, cast = sdpa._select_sdp_backend, sdpa._autocast

    def selected(query: Any, *args: Any) -> Any:
        return _kernel(query, *args) if _is_bare(query) else select(query, *args)

    def autocast(query: Any, key: Any, value: Any, mask: Any) -> Any:
        if not _is_bare(query):
            return cast(query, key, value, mask)
        if not torch.is_autocast_enabled("cuda"):
            return query, key, value, mask
        dtype = torch.get_autocast_dtype("cuda")
        return tuple(one if one is None else one.to(dtype) for one in (query, key, value, mask))

    patches.set(sdpa, "_select_sdp_backend", selected)
    patches.set(sdpa, "_autocast", autocast)
    # Nothing is counted here but memory.
    patches.set(sdpa, "_is_computing_meta_flops", lambda _: False)


def _making(patches: Patches) -> None:
    """They are made for the device that the rows are on in truth."""
    kind = nested_tensor.NestedTensor
    make = kind.__new__

    def __new__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return make(cls, *args, **kwargs)

    patches.set(kind, "__new__", __new__)


def _is_bare(tensor: Any) -> bool:
    with torch._C.DisableTorchFunction():
        return tensor.device.type == "meta"


def _kernel(
    query: Any, key: Any, value: Any, mask: Any, dropout: float, is_causal: bool, grouped: bool
) -> Any:
    """The first that PyTorch would take on a card: it asks each in this order whether it can."""
    params = sdpa.SDPAParams(query, key, value, mask, dropout, is_causal, grouped)
    flash = torch.backends.cuda.flash_sdp_enabled() and query.dtype in _HALVES and mask is None
    if flash and query.size(-1) <= _WIDEST_HEAD and sdpa._can_use_flash_sdpa_jagged(params):
        return SDPBackend.FLASH_ATTENTION
    efficient = torch.backends.cuda.mem_efficient_sdp_enabled() and not grouped
    if efficient and sdpa._can_use_efficient_sdpa_jagged(params):
        return SDPBackend.EFFICIENT_ATTENTION
    return SDPBackend.MATH
