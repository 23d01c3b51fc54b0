"""Scaled dot product attention with the kernel that CUDA picks."""

from __future__ import annotations

import math
from typing import Any, Callable

import torch

from .attention_kernels import LOW_PRECISION, choose

_ATEN = torch.ops.aten
_EFFICIENT_MASK_STEP = 8
_FLASH_STEP = 8


def attention_on(capability: int) -> Callable:
    """Takes the place of `aten::scaled_dot_product_attention` on a card."""

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        kernel = choose(query, key, value, attn_mask, enable_gqa, is_causal, capability)
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

    return attention


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
    if head % _FLASH_STEP:
        pad = (0, _FLASH_STEP - head % _FLASH_STEP)
        query, key, value = (torch.nn.functional.pad(t, pad) for t in (query, key, value))
    out = _ATEN._scaled_dot_product_flash_attention(
        query, key, value, dropout_p, is_causal, False, scale=scale
    )[0]
    return out[..., :head] if out.shape[3] != head else out


def _math(query, key, value, mask, dropout_p, is_causal, scale, enable_gqa):
    """Plain products and a softmax; temporaries are dropped in the order C++ drops them."""
    dtype = query.dtype
    if dtype in LOW_PRECISION:
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
