"""Linear layers in 8 and in 4 bits that ask for the memory those of bitsandbytes ask for."""

from __future__ import annotations

from typing import Any

import torch

# Weights that share a scale, and scales that share one where they are quantized themselves.
_BLOCK, _NESTED_BLOCK = 64, 256
_FOUR_BIT_CODES, _EIGHT_BIT_CODES = 16, 256


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


class QuantizedLinear(torch.nn.Linear):
    """A linear layer to code that looks for one, whose weight is packed and does not learn."""

    def __init__(self, layer: Any, packed: Any):
        torch.nn.Module.__init__(self)
        self.in_features, self.out_features = _sizes(layer)
        self.weight = torch.nn.Parameter(packed, requires_grad=False)
        self.bias = layer.bias

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class FourBits(QuantizedLinear):
    compute_dtype: Any = None
    stored_dtype: Any = None

    def forward(self, x):
        given = x.dtype
        x = x.to(self.compute_dtype)
        bias = None if self.bias is None else self.bias.to(self.compute_dtype)
        out = _FourBitProduct.apply(x, self, bias).to(given)
        # Adapters are added to a copy.
        return out.clone() if torch.is_grad_enabled() else out

    def whole(self) -> Any:
        """The weight turned back into 16 bits, through its scales where those are packed too."""
        scales = None
        if self.scales.dtype == torch.uint8:
            scales = torch.empty(self.scales.shape, dtype=torch.float32, device="meta")
            scales = scales + self.offset
        whole = torch.empty(
            self.out_features, self.in_features, dtype=self.stored_dtype, device="meta"
        )
        del scales
        return whole


class EightBits(QuantizedLinear):
    def forward(self, x):
        return _EightBitProduct.apply(x, self, self.bias)


def four_bits(layer: Any, compute_dtype: Any, double: bool) -> FourBits:
    count = layer.weight.numel()
    blocks = _ceil(count, _BLOCK)
    with torch.device("meta"):
        made = FourBits(layer, torch.empty(_ceil(count, 2), 1, dtype=torch.uint8))
        made.compute_dtype, made.stored_dtype = compute_dtype, layer.weight.dtype
        _keep(made, "codes", torch.empty(_FOUR_BIT_CODES, dtype=torch.float32))
        _keep(made, "scales", torch.empty(blocks, dtype=torch.uint8 if double else torch.float32))
        if double:
            _keep(
                made,
                "nested_scales",
                torch.empty(_ceil(blocks, _NESTED_BLOCK), dtype=torch.float32),
            )
            _keep(made, "nested_codes", torch.empty(_EIGHT_BIT_CODES, dtype=torch.float32))
            _keep(made, "offset", torch.empty((), dtype=torch.float32))
    return made


def eight_bits(layer: Any) -> EightBits:
    with torch.device("meta"):
        made = EightBits(layer, torch.empty(*reversed(_sizes(layer)), dtype=torch.int8))
        _keep(made, "scales", torch.empty(_sizes(layer)[1], dtype=torch.float32))
    return made


def _sizes(layer: Any) -> tuple[int, int]:
    if isinstance(layer, torch.nn.Linear):
        return layer.in_features, layer.out_features
    return layer.weight.shape[0], layer.weight.shape[1]


def _keep(module: Any, name: str, tensor: Any) -> None:
    module.register_buffer(name, tensor, persistent=False)


class _FourBitProduct(torch.autograd.Function):
    """The weight exists whole only while it is multiplied, forward and backward."""

    @staticmethod
    def forward(ctx, x, layer, bias):
        ctx.layer = layer
        return torch.nn.functional.linear(x, layer.whole().to(x.dtype), bias)

    @staticmethod
    def backward(ctx, grad):
        return torch.matmul(grad, ctx.layer.whole().to(grad.dtype)), None, None


class _EightBitProduct(torch.autograd.Function):
    """Inputs are quantized row by row, the product is in 32 bits; the input itself is kept."""

    @staticmethod
    def forward(ctx, x, layer, bias):
        ctx.layer, ctx.input = layer, x if x.requires_grad else None
        rows = x.reshape(-1, x.shape[-1])
        low = rows.to(torch.float16)
        quantized = torch.empty(rows.shape, dtype=torch.int8, device="meta")
        scales = torch.empty(rows.shape[0], dtype=torch.float32, device="meta")
        del low
        product = torch.empty(rows.shape[0], layer.out_features, dtype=torch.int32, device="meta")
        out = torch.empty(product.shape, dtype=torch.float16, device="meta")
        del product, quantized, scales
        return out.to(x.dtype).view(*x.shape[:-1], layer.out_features)

    @staticmethod
    def backward(ctx, grad):
        layer = ctx.layer
        rows = grad.reshape(-1, grad.shape[-1]).contiguous()
        whole = layer.weight.to(ctx.input.dtype).mul_(layer.scales.unsqueeze(1).mul(1 / 127))
        return torch.matmul(rows.to(whole.dtype), whole).view(ctx.input.shape), None, None
