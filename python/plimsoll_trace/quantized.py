"""Weights as bitsandbytes keeps them: linear layers in 8 or 4 bits, all else in 16.

bitsandbytes cannot be asked without a GPU, so layers that ask for the same memory take its place.
What they ask for follows its source; it was not measured.
"""

from __future__ import annotations

from typing import Any

import torch

from plimsoll.failure import Failure

from .workload import Settings

_PRESETS = ("int8", "int4", "int4_double")
_NOTE = (
    "quantized layers ask for what the source of bitsandbytes says; it was not measured on a GPU"
)


# Linear layers in 8 and in 4 bits that ask for the memory those of bitsandbytes ask for.

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


def applies(settings: Settings) -> bool:
    return settings.quantization in _PRESETS


def check(settings: Settings, config: str | None) -> None:
    preset = settings.quantization
    if preset in ("", "fp16"):
        return
    if preset == "cpu":
        raise Failure(
            "quantization-on-host",
            "the preset cpu does not use the GPU",
            "leave --quantization out",
        )
    if preset == "int4_offload":
        raise Failure(
            "quantization-by-memory",
            "what int4_offload keeps on the GPU depends on its memory",
            "take --quantization int4_double, which keeps all of it there",
        )
    if not config:
        raise Failure(
            "quantization-not-here",
            "only models of transformers can be quantized",
            "leave --quantization out",
        )
    if settings.training and not settings.lora:
        raise Failure(
            "quantized-not-trained",
            "quantized weights cannot be trained",
            "add --lora RANK, or --mode infer",
        )


def quantize(model: Any, settings: Settings, observer: Any) -> None:
    """Puts quantized layers in place, then records the weights as loading them asks for them."""
    observer.notes.add(_NOTE)
    kept = _kept(model)
    made: dict[int, QuantizedLinear] = {}
    compute = settings.autocast_dtype or settings.dtype
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if _is_linear(child) and id(child) not in kept:
                if id(child) not in made:
                    made[id(child)] = _layer(child, settings.quantization, compute)
                setattr(module, name, made[id(child)])
    _place(model, settings, observer)
    if settings.training:
        _for_training(model, settings, observer)


def count(model: Any) -> int:
    """Parameters as they were before they were packed."""
    packed = [m for m in model.modules() if isinstance(m, QuantizedLinear)]
    hidden = sum(m.in_features * m.out_features - m.weight.numel() for m in packed)
    return sum(p.numel() for p in model.parameters()) + hidden


def _is_linear(module: Any) -> bool:
    # GPT-2's layers are linear ones whose weight lies the other way round.
    return type(module) is torch.nn.Linear or type(module).__name__ == "Conv1D"


def _layer(layer: Any, preset: str, compute: Any) -> QuantizedLinear:
    if preset == "int8":
        return eight_bits(layer)
    return four_bits(layer, compute, double=preset == "int4_double")


def _kept(model: Any) -> set:
    """The output layer keeps its precision, and whatever shares the embedding's weights."""
    output = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    kept = set() if output is None else {id(output)}
    source = model.get_input_embeddings() if hasattr(model, "get_input_embeddings") else None
    shared = getattr(source, "weight", None)
    kept.update(id(m) for m in model.modules() if getattr(m, "weight", None) is shared is not None)
    last = [m for m in model.modules() if type(m) is torch.nn.Linear][-1:]
    return kept if output is not None else kept | {id(m) for m in last}


def _place(model: Any, settings: Settings, observer: Any) -> None:
    for module in model.modules():
        whole = 0
        if isinstance(module, QuantizedLinear):
            size = module.in_features * module.out_features * settings.dtype.itemsize
            whole = observer.ledger.allocate(size, "load", "", "t")
        for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
            observer.adopt(tensor.untyped_storage(), "load")
        observer.ledger.free(whole)


def _for_training(model: Any, settings: Settings, observer: Any) -> None:
    """As peft prepares such a model: frozen, and what is in 16 bits brought to float32."""
    model.requires_grad_(False)
    for parameter in model.parameters():
        if parameter.dtype in (torch.float16, torch.bfloat16):
            parameter.data = parameter.data.to(torch.float32)
    observer.notes.add(
        "embeddings, norms and the output layer are in float32, as peft prepares them"
    )
    if settings.checkpointing:
        model.enable_input_require_grads()
