"""Quantized models (`torch.ao.quantization`): they run in host memory, with values.

What is converted gets plausible values first: the weights of a model have none.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch

from ...standins.imports import when_imported
from ...standins.patches import Patches
from .. import values
from ..parameters import keeping_values
from ..places import HOST, Places

_CALLS = {
    "torch.ao.quantization": ("convert", "quantize_dynamic"),
    "torch.ao.quantization.quantize": ("convert", "quantize_dynamic"),
    "torch.ao.quantization.quantize_fx": ("convert_fx", "convert_to_reference_fx"),
}


def install(patches: Patches, places: Places, observer: Any) -> None:
    for module, names in _CALLS.items():
        when_imported(module, _replacing(patches, places, observer, names))


def _replacing(
    patches: Patches, places: Places, observer: Any, names: tuple[str, ...]
) -> Callable[[Any], None]:
    def replace(module: Any) -> None:
        for name in names:
            patches.set(module, name, _converting(getattr(module, name), places, observer))

    return replace


def _converting(convert: Any, places: Places, observer: Any) -> Any:
    form = inspect.signature(convert)
    first = next(iter(form.parameters))

    def converted(*args: Any, **kwargs: Any) -> Any:
        bound = form.bind(*args, **kwargs)
        if not bound.arguments.get("inplace"):
            bound.arguments[first] = copy.deepcopy(bound.arguments[first])
        with keeping_values():
            _give_values(bound.arguments[first], places, observer)
            return convert(*bound.args, **bound.kwargs)

    return converted


def _give_values(model: Any, places: Places, observer: Any) -> None:
    for module in model.modules():
        for kind in (module._parameters, module._buffers):
            for name, tensor in kind.items():
                if tensor is not None and places.where(tensor) == HOST:
                    kind[name] = _with_values(tensor, observer)
        lowest, highest = (module._buffers.get(name) for name in ("min_val", "max_val"))
        if lowest is not None and highest is not None and lowest.shape == highest.shape:
            # The range that an observer has seen.
            module._buffers["max_val"] = torch.maximum(highest, lowest + 1)


def _with_values(tensor: Any, observer: Any) -> Any:
    held = values.plausible(tensor, observer)
    if not isinstance(tensor, torch.nn.Parameter):
        return held
    return torch.nn.Parameter(held, requires_grad=tensor.requires_grad)
