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
    found = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            value = small_values.held_by(parameter)
            is_changed = parameter.grad is not None and small_values.is_known(parameter)
            if is_changed and isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
                found.append((parameter, _apart(value)))
    return found


def keep(before: list[tuple[Any, Any]]) -> None:
    """After the step, for those of which nothing is known any more."""
    for parameter, value in before:
        if not small_values.is_likely(parameter) and parameter.shape == value.shape:
            small_values.remember(parameter, value)


def _apart(value: Any) -> Any:
    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        return value.detach() + _CHANGE
