"""Small parameters that a step changed.

A span, a temperature or a gate that a model learns is read by the program, and may say how much it keeps. By how much
a step changes it is not known, but the first steps change little: it stays about what it was initialised with.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import small_values

# Not nothing: a program may ask whether a step changed them.
_CHANGE = 1e-4


def values_before(optimizer: Any) -> list[tuple[Any, Any]]:
    """The parameters that are about to be changed, with what is known of them."""
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        found = [
            (parameter, value.detach())
            for group in optimizer.param_groups
            for parameter in group["params"]
            if parameter.grad is not None and (value := _known(parameter)) is not None
        ]
        if not found:
            return []
        # All at once: a model has hundreds, and they change in each step.
        changed = torch._foreach_add([value for _, value in found], _CHANGE)
    return [(parameter, value) for (parameter, _), value in zip(found, changed)]


def keep(before: list[tuple[Any, Any]]) -> None:
    """After the step, for those of which nothing is known any more."""
    with torch._C.DisableTorchFunction():
        for parameter, value in before:
            if not small_values.is_likely(parameter) and parameter.shape == value.shape:
                small_values.remember(parameter, value)


def _known(parameter: Any) -> Any:
    value = small_values.held_by(parameter)
    if not isinstance(value, torch.Tensor) or not small_values.is_known(parameter):
        return None
    return value if value.dtype.is_floating_point else None
