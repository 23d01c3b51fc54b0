"""Arguments that people give: checked where they come in, with one error that names them."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def number(name: str, value: Any, least: float, most: float = math.inf, hint: str = "") -> float:
    """A number from `least` to `most`; a text or a truth value is none, however it looks.

    >>> number("interval", 0.1, 0.01)
    0.1
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(
            f"{name} is a number{_range(least, most)}, not {_shown(value)}{_then(hint)}"
        )
    if not least <= value <= most:
        raise ValueError(f"{name} is a number{_range(least, most)}, not {value!r}{_then(hint)}")
    return value


def share(name: str, value: Any) -> float:
    """A share of memory, above 0 and up to 1. A percentage is the usual mistake, so it is told."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    hint = f"write {value / 100:g} for {value:g} %" if is_number and 1 < value <= 100 else ""
    given = number(name, value, 0, 1, hint)
    if given == 0:
        raise ValueError(f"{name} is a share above 0 and up to 1, not {value!r}")
    return given


def percent(name: str, value: Any) -> float:
    """A percentage above 1: a share is the usual mistake, so it is told."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    hint = f"write {100 * value:g} for that share" if is_number and 0 < value < 1 else ""
    return number(name, value, 1, 100, hint)


def whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} is a whole number, {least} or more; not {_shown(value)}")
    if value < least:
        raise ValueError(f"{name} is a whole number, {least} or more; not {value!r}")
    return value


def size(name: str, value: Any, least: int = 0) -> int:
    """A number of bytes."""
    hint = "write 8 * 2**30 for 8 GiB"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} is a whole number of bytes, not {_shown(value)}; {hint}")
    if value < least:
        raise ValueError(f"{name} is a whole number of bytes, {least} or more; not {value!r}")
    return value


def optional_size(name: str, value: Any, least: int = 0) -> int | None:
    return None if value is None else size(name, value, least)


def truth(name: str, value: Any, hint: str = "") -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, not {_shown(value)}{_then(hint)}")
    return value


def function(name: str, value: Any) -> Any:
    """Something to call, or nothing."""
    if value is not None and not callable(value):
        raise TypeError(f"{name} is a function, not {_shown(value)}")
    return value


def model(name: str, value: Any) -> Any:
    """A model as PyTorch knows it."""
    from torch import nn

    if not isinstance(value, nn.Module):
        hint = "build or load the model first (plimsoll.load)" if isinstance(value, str) else ""
        raise TypeError(f"{name} is a torch.nn.Module, not {_shown(value)}{_then(hint)}")
    return value


def optimizer(name: str, value: Any) -> Any:
    """Something with parameter groups, or nothing."""
    if value is not None and not hasattr(value, "param_groups"):
        raise TypeError(f"{name} is an optimizer of torch, not {_shown(value)}")
    return value


def dtype(name: str, value: Any) -> Any:
    """A floating type of torch, or nothing."""
    import torch

    if value is not None and not (isinstance(value, torch.dtype) and value.is_floating_point):
        raise TypeError(f"{name} is a floating type such as torch.bfloat16, not {_shown(value)}")
    return value


def _range(least: float, most: float) -> str:
    return f" from {least:g} to {most:g}" if math.isfinite(most) else f", {least:g} or more"


def _shown(value: Any) -> str:
    kind = type(value).__name__
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {kind}"
    return text if len(text) <= 60 else f"a {kind}"


def _then(hint: str) -> str:
    return f"; {hint}" if hint else ""
