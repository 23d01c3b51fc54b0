"""Scaled dot product attention with the kernel that CUDA picks."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable, NamedTuple

import torch
from torch.nn import functional as F

# Which kernel CUDA picks for scaled dot product attention: cuDNN's, flash, the memory-efficient one, or none of
# them: plain products of matrices (`math`).

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


# `nn.TransformerEncoderLayer` and `nn.MultiheadAttention` in evaluation: ops of their own, as CUDA runs them.
#
# They have no meta kernels. Where the attention has a mask, all scores are made, whatever kernels there are.

# Of rows up to this length the softmax masks as it reads.
_MASKED_ROW, _MASKED_ROW_BYTES = 1024, 4096
_FUSED_STEP = 8


def layers_on(capability: int) -> dict[str, Callable[..., Any]]:
    """What takes the place of these ops on a card."""
    return {
        "_native_multi_head_attention": partial(attention, capability),
        "_transformer_encoder_layer_fwd": partial(encoder_layer, capability),
    }


def encoder_layer(
    capability,
    src,
    embed_dim,
    num_heads,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    _use_gelu,
    norm_first,
    eps,
    *norms_and_products,
):
    """Takes the place of `aten::_transformer_encoder_layer_fwd`."""
    first, second, inwards, outwards = (norms_and_products[at : at + 2] for at in (0, 2, 4, 6))
    mask = norms_and_products[8] if len(norms_and_products) > 8 else None

    def norm(x, weight, bias):
        return torch.layer_norm(x, [embed_dim], weight, bias, eps)

    def product(x, weight, bias):
        # The activation is a part of the product, and takes nothing.
        return torch.addmm(bias, x.view(-1, x.shape[-1]), weight.t()).view(*x.shape[:-1], -1)

    x = norm(src, *first) if norm_first else src
    attends = (embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias)
    x = attention(capability, x, x, x, *attends, mask, need_weights=False)[0]
    x.add_(src)
    if not norm_first:
        x = norm(x, *first)
    before = x
    if norm_first:
        x = norm(x, *second)
    inner = product(x, *inwards)
    x = product(inner, *outwards)
    del inner
    x.add_(before)
    return x if norm_first else norm(x, *second)


def attention(
    capability,
    query,
    key,
    value,
    embed_dim,
    num_head,
    qkv_weight,
    qkv_bias,
    proj_weight,
    proj_bias,
    mask=None,
    need_weights=True,
    average_attn_weights=True,
    _mask_type=None,
):
    """Takes the place of `aten::_native_multi_head_attention`, of a tensor with itself."""
    samples, length, _ = query.shape
    size = embed_dim // num_head
    if not need_weights and mask is None and size % _FUSED_STEP == 0:
        heads = query.view(samples, length, num_head, size).transpose(1, 2)
        if choose(heads, heads, heads, None, False, capability=capability) != "math":
            projected = F.linear(query, qkv_weight, qkv_bias)
            q, k, v = (
                part.view(samples, length, num_head, size).transpose(1, 2)
                for part in projected.chunk(3, -1)
            )
            attended = F.scaled_dot_product_attention(q, k, v)
            rows = attended.transpose(1, 2).reshape(samples, length, embed_dim)
            return F.linear(rows, proj_weight, proj_bias), None
    projected = torch.matmul(query, qkv_weight.t())
    packed = projected.new_empty(3, samples * num_head, length, size)
    del projected
    q, k, v = packed[0], packed[1], packed[2]
    scores = torch.bmm(q, k.transpose(1, 2))
    if mask is not None:
        scores = _masked_softmax(scores.view(samples, num_head, length, length), mask)
        scores = scores.view(samples * num_head, length, length)
    # Without a mask the softmax is written where the scores are; the values go where the queries were.
    torch.bmm(scores, v, out=q)
    weights = scores.view(samples, num_head, length, length) if need_weights else None
    del scores
    rows = q.view(samples, num_head, length, size).permute(0, 2, 1, 3).contiguous()
    result = F.linear(rows.view(samples * length, embed_dim), proj_weight, proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.sum(1)
        weights /= num_head
    return result.view(samples, length, embed_dim), weights


def _masked_softmax(scores, mask):
    if mask.dtype != torch.bool:
        mask = mask.to(torch.bool)
    softmax = torch.empty_like(scores)
    row = scores.shape[-1]
    if row > _MASKED_ROW or row * scores.element_size() > _MASKED_ROW_BYTES:
        if mask.dim() == 2:
            mask = mask.view(mask.shape[0], 1, 1, mask.shape[1])
        softmax = _ATEN._softmax(scores.masked_fill(mask, float("-inf")), -1, False)
    return softmax
