"""`nn.TransformerEncoderLayer` and `nn.MultiheadAttention` in evaluation: ops of their own, as CUDA runs them.

They have no meta kernels. Where the attention has a mask, all scores are made, whatever kernels there are.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

import torch
from torch.nn import functional as F

from .attention_kernels import choose

_ATEN = torch.ops.aten
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
