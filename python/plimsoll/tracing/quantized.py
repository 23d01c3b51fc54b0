"""Weights as bitsandbytes keeps them: linear layers in 8 or 4 bits, all else in 16.

bitsandbytes cannot be asked without a GPU, so layers that ask for the same memory take its place.
What they ask for follows its source; it was not measured.
"""

from __future__ import annotations

from typing import Any

import torch

from ..failure import Failure
from .standins.quantized_linear import QuantizedLinear, eight_bits, four_bits
from .workload import Settings

_PRESETS = ("int8", "int4", "int4_double")
_NOTE = (
    "quantized layers ask for what the source of bitsandbytes says; it was not measured on a GPU"
)


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
