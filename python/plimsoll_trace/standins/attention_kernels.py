"""Which kernel CUDA picks for scaled dot product attention: cuDNN's, flash, the memory-efficient one, or none of
them: plain products of matrices (`math`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

LOW_PRECISION = (torch.float16, torch.bfloat16)
# From here on there are flash and cuDNN's kernels, and bfloat16.
_AMPERE = 80
# Cards of these generations try cuDNN first, all others flash.
_PREFER_CUDNN = (9, 10)
# cuDNN's largest head on Hopper, and the multiple its head size must have.
_CUDNN_HEAD, _CUDNN_STEP = 256, 8
_FLASH_HEAD = 256
# The memory-efficient kernel reads so many bytes of a head at a time, where it works on tensor cores.
_EFFICIENT_BYTES = 16
# Programs switch kernels off, by these or by `torch.nn.attention.sdpa_kernel`.
_SWITCHES = torch.backends.cuda


class Asked(NamedTuple):
    """What the choice depends on."""

    query: Any
    key: Any
    value: Any
    mask: Any
    is_causal: bool
    grouped: bool

    @property
    def heads(self) -> tuple[int, int]:
        """Sizes of a head, of queries and of values."""
        return self.query.shape[3], self.value.shape[3]


def choose(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    enable_gqa: bool,
    is_causal: bool = False,
    capability: int = 90,
) -> str:
    """The first kernel in CUDA's order of preference that is switched on and takes these arguments."""
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4 or 0 in query.shape or 0 in key.shape:
        return "math"
    grouped = not (query.shape[1] == key.shape[1] == value.shape[1])
    if grouped and not enable_gqa:
        return "math"
    if any(t.stride(-1) != 1 for t in (query, key, value, *([] if mask is None else [mask]))):
        return "math"
    asked = Asked(query, key, value, mask, is_causal, grouped)
    prefers_cudnn = capability // 10 in _PREFER_CUDNN
    # Elsewhere cuDNN comes after plain products, which take all.
    if (prefers_cudnn or not _SWITCHES.math_sdp_enabled()) and _fits_cudnn(asked, capability):
        return "cudnn"
    if _fits_flash(asked, capability):
        return "flash"
    return "efficient" if _fits_efficient(asked, capability) else "math"


def _fits_cudnn(asked: Asked, capability: int) -> bool:
    mask, query = asked.mask, asked.query
    mask_learns = mask is not None and mask.requires_grad and torch.is_grad_enabled()
    return (
        capability >= _AMPERE
        and query.dtype in LOW_PRECISION
        and all(head % _CUDNN_STEP == 0 and head <= _CUDNN_HEAD for head in asked.heads)
        and not mask_learns
        and query.shape[2] > 1
        and _SWITCHES.cudnn_sdp_enabled()
    )


def _fits_flash(asked: Asked, capability: int) -> bool:
    head, of_values = asked.heads
    square = asked.query.shape[2] == asked.key.shape[2]
    return (
        capability >= _AMPERE
        and asked.query.dtype in LOW_PRECISION
        and asked.mask is None
        and head == of_values
        and head <= _FLASH_HEAD
        and (square or not asked.is_causal)
        and _SWITCHES.flash_sdp_enabled()
    )


def _fits_efficient(asked: Asked, capability: int) -> bool:
    dtype = asked.query.dtype
    known = dtype in (torch.float16, torch.float32) or (
        dtype == torch.bfloat16 and capability >= _AMPERE
    )
    if not known or asked.grouped or not _SWITCHES.mem_efficient_sdp_enabled():
        return False
    on_tensor_cores = capability >= _AMPERE or dtype == torch.float16
    step = _EFFICIENT_BYTES // dtype.itemsize if on_tensor_cores else 1
    same = asked.key.shape[3] == asked.heads[0]
    return same and not any(head % step for head in asked.heads)
