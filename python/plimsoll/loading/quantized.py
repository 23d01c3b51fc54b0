"""Linear layers whose weights are kept in 8 or 4 bits, in plain PyTorch: any device, no other package."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

# NF4 of the QLoRA paper: quantiles of a normal distribution, so that each value is used as often.
NF4 = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
    -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
    0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
    0.7229568362236023, 1.0,
]  # fmt: skip
BLOCK = 64
SCALES_BLOCK = 256


def quantize(
    model: Any,
    bits: int,
    double: bool,
    compute_dtype: Any,
    keep: Iterable[str] = ("lm_head", "embed_out"),
) -> int:
    """Replaces every linear layer but the heads; how many were. Weights are made dense when they are used."""
    from torch import nn

    kept = tuple(keep)
    # Places, not layers: each layer's weights are freed as soon as its successor stands.
    found = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if (isinstance(child, nn.Linear) or type(child).__name__ == "Conv1D") and name not in kept
    ]
    for parent, name in found:
        setattr(parent, name, quantized_linear(getattr(parent, name), bits, double, compute_dtype))
    return len(found)


def quantized_linear(layer: Any, bits: int, double: bool, compute_dtype: Any) -> Any:
    made = _layer_class()(layer, bits, double, compute_dtype)
    return made.to(layer.weight.device) if layer.weight.device.type != "meta" else made


@cache
def _layer_class() -> Any:
    """One class for all layers, made when torch is there. It must not know a layer: it would keep its weights."""
    from torch import nn
    from torch.nn import functional

    class QuantizedLinear(nn.Module):
        """Holds what `pack` made; a dense weight lives only while its layer runs."""

        def __init__(self, layer: Any, bits: int, double: bool, compute_dtype: Any) -> None:
            super().__init__()
            turned = type(layer).__name__ == "Conv1D"
            weight = layer.weight.detach().t() if turned else layer.weight.detach()
            self.out_features, self.in_features = weight.shape
            self.bits = bits
            for name, tensor in pack(weight.contiguous().float(), bits, double).items():
                self.register_buffer(name, tensor)
            bias = getattr(layer, "bias", None)
            self.bias = (
                None
                if bias is None
                else nn.Parameter(bias.detach().to(compute_dtype), requires_grad=False)
            )

        def forward(self, value: Any) -> Any:
            weight = unpack(
                dict(self.named_buffers(recurse=False)),
                self.bits,
                (self.out_features, self.in_features),
            )
            weight = weight.to(value.dtype)
            return functional.linear(
                value, weight, None if self.bias is None else self.bias.to(value.dtype)
            )

        def extra_repr(self) -> str:
            return f"{self.in_features}, {self.out_features}, bits={self.bits}"

    return QuantizedLinear


def pack(weight: Any, bits: int, double: bool) -> dict[str, Any]:
    import torch

    if bits == 8:
        scale = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
        return {"packed": (weight / scale).round().to(torch.int8), "scale": scale}
    flat = weight.reshape(-1)
    pad = -flat.numel() % BLOCK
    blocks = torch.nn.functional.pad(flat, (0, pad)).reshape(-1, BLOCK)
    scale = blocks.abs().amax(dim=1).clamp_min(1e-12)
    code = torch.tensor(NF4, device=weight.device)
    middle = (code[1:] + code[:-1]) / 2
    nearest = torch.bucketize(blocks / scale[:, None], middle).to(torch.uint8).reshape(-1)
    packed = nearest[0::2] << 4 | nearest[1::2]
    if not double:
        return {"packed": packed, "scale": scale}
    mean = scale.mean()
    rest = torch.nn.functional.pad(scale - mean, (0, -scale.numel() % SCALES_BLOCK)).reshape(
        -1, SCALES_BLOCK
    )
    outer = rest.abs().amax(dim=1, keepdim=True).clamp_min(1e-12) / 127
    return {
        "packed": packed,
        "scale": (rest / outer).round().to(torch.int8),
        "outer": outer,
        "mean": mean,
    }


def unpack(parts: dict[str, Any], bits: int, shape: Any) -> Any:
    import torch

    if bits == 8:
        return parts["packed"].float() * parts["scale"]
    packed, scale = parts["packed"], parts["scale"]
    if "outer" in parts:
        scale = (scale.float() * parts["outer"]).reshape(-1) + parts["mean"]
    code = torch.tensor(NF4, device=packed.device)
    values = code[torch.stack((packed >> 4, packed & 15), dim=1).reshape(-1).long()].reshape(
        -1, BLOCK
    )
    dense = (values * scale.reshape(-1)[: values.shape[0], None]).reshape(-1)
    return dense[: shape[0] * shape[1]].reshape(shape)
