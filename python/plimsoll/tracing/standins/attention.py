"""Scaled dot product attention with the kernel that CUDA picks: cuDNN, efficient, or plain math."""

from __future__ import annotations

import math

import torch

_ATEN = torch.ops.aten
_LOW_PRECISION = (torch.float16, torch.bfloat16)
# cuDNN's largest head on Hopper, and the multiple its head size must have.
_CUDNN_HEAD, _CUDNN_STEP = 256, 8
_EFFICIENT_MASK_STEP = 8
# Programs switch kernels off, by these or by `torch.nn.attention.sdpa_kernel`.
_SWITCHES = torch.backends.cuda


def attention(
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    *,
    scale=None,
    enable_gqa=False,
):
    """Takes the place of `aten::scaled_dot_product_attention`."""
    kernel = choose(query, key, value, attn_mask, enable_gqa)
    mask = _as_bias(attn_mask, query.dtype)
    if kernel == "cudnn":
        grad = _needs_grad(query, key, value)
        results = _ATEN._scaled_dot_product_cudnn_attention(
            query, key, value, mask, grad, dropout_p, is_causal, False, scale=scale
        )
        out, sums, *_, seed, offset, _ = results
        # C++ lets go of the row sums first, then of the dropout state.
        del results, sums, seed, offset, _
        return out
    if kernel == "flash":
        return _flash(query, key, value, dropout_p, is_causal, scale)
    if kernel == "efficient":
        if mask is not None:
            mask = _aligned(mask).expand(
                query.shape[0], query.shape[1], query.shape[2], key.shape[2]
            )
        grad = _needs_grad(query, key, value)
        return _ATEN._scaled_dot_product_efficient_attention(
            query, key, value, mask, grad, dropout_p, is_causal, scale=scale
        )[0]
    return _math(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa)


def choose(query, key, value, mask, enable_gqa: bool) -> str:
    """The first kernel in CUDA's order of preference that is switched on and takes these arguments."""
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4 or 0 in query.shape or 0 in key.shape:
        return "math"
    grouped = not (query.shape[1] == key.shape[1] == value.shape[1])
    if grouped and not enable_gqa:
        return "math"
    if any(t.stride(-1) != 1 for t in (query, key, value, *([] if mask is None else [mask]))):
        return "math"
    mask_learns = mask is not None and mask.requires_grad and torch.is_grad_enabled()
    if query.dtype in _LOW_PRECISION:
        heads = (query.shape[3], value.shape[3])
        plain = all(h % _CUDNN_STEP == 0 and h <= _CUDNN_HEAD for h in heads)
        if plain and not mask_learns and query.shape[2] > 1 and _SWITCHES.cudnn_sdp_enabled():
            return "cudnn"
        same = query.shape[3] <= 256 and query.shape[3] == value.shape[3]
        if mask is None and same and _SWITCHES.flash_sdp_enabled():
            return "flash"
    known = query.dtype in (*_LOW_PRECISION, torch.float32)
    if not grouped and known and _SWITCHES.mem_efficient_sdp_enabled():
        return "efficient"
    return "math"


def _needs_grad(*tensors) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _as_bias(mask, dtype):
    if mask is None or mask.dtype != torch.bool:
        return mask
    zero = torch.scalar_tensor(0.0, dtype=dtype, device=mask.device)
    lowest = torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device)
    bias = torch.where(mask, zero, lowest)
    del lowest, zero
    return bias


def _aligned(mask):
    steps = list(mask.stride()[:-1])
    if all(s % _EFFICIENT_MASK_STEP == 0 for s in steps) and mask.stride(-1) == 1:
        return mask
    last = mask.shape[-1]
    padded = torch.nn.functional.pad(mask, (0, _EFFICIENT_MASK_STEP - last % _EFFICIENT_MASK_STEP))
    return padded[..., :last]


def _flash(query, key, value, dropout_p, is_causal, scale):
    head = query.shape[3]
    scale = scale if scale is not None else 1 / math.sqrt(head)
    if head % 8:
        pad = (0, 8 - head % 8)
        query, key, value = (torch.nn.functional.pad(t, pad) for t in (query, key, value))
    out = _ATEN._scaled_dot_product_flash_attention(
        query, key, value, dropout_p, is_causal, False, scale=scale
    )[0]
    return out[..., :head] if out.shape[3] != head else out


def _math(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa):
    """Plain products and a softmax; temporaries are dropped in the order C++ drops them."""
    dtype = query.dtype
    if dtype in _LOW_PRECISION:
        query, key, value = query.float(), key.float(), value.float()
    factor = math.sqrt(scale if scale is not None else 1 / math.sqrt(query.shape[-1]))
    scaled = query * factor
    if is_causal:
        ones = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device)
        lower = ones.tril()
        del ones
        mask = _as_bias(lower, query.dtype)
        del lower
    keys, values = key, value
    if enable_gqa:
        keys = key.repeat_interleave(query.shape[-3] // key.shape[-3], dim=-3)
        values = value.repeat_interleave(query.shape[-3] // value.shape[-3], dim=-3)
    scores = torch.matmul(scaled, keys.transpose(-2, -1) * factor)
    if mask is not None:
        scores.add_(mask)
    weights = torch._safe_softmax(scores, -1)
    del scores
    if dropout_p > 0:
        weights = torch.dropout(weights, dropout_p, True)
    # The weights are returned too, in the caller's type, and dropped by the caller.
    copied = weights.to(dtype)
    product = torch.matmul(weights, values)
    result = product.to(dtype)
    del product, weights, keys, values, mask, scaled, value, key, query, copied
    return result
