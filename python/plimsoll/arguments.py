"""Arguments that people give: checked where they come in, with one error that names them.

Each error is a `Failure` (code, fact, next step) and a `TypeError` or `ValueError`, as Python's own are.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from .failure import Failure


class BadValue(Failure, ValueError):
    """An argument of the right kind that cannot be."""

    def __init__(self, fact: str, next_step: str) -> None:
        super().__init__("bad-argument", fact, next_step)


class BadType(Failure, TypeError):
    """An argument of a kind that cannot be."""

    def __init__(self, fact: str, next_step: str) -> None:
        super().__init__("bad-argument", fact, next_step)


def number(name: str, value: Any, least: float, most: float = math.inf, hint: str = "") -> float:
    """A number from `least` to `most`; not a text or a truth value, however it looks.

    >>> number("interval", 0.1, 0.01)
    0.1
    """
    wanted = f"a number{_range(least, most)}"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise BadType(f"{name} must be {wanted}, not {shown(value)}", hint or f"pass {wanted}")
    if not least <= value <= most:
        raise BadValue(f"{name} must be {wanted}, not {value!r}", hint or f"pass {wanted}")
    return float(value)


def share(name: str, value: Any) -> float:
    """A share of memory, above 0 and up to 1: the one unit of all thresholds.

    A percentage is the usual mistake, so the error says what to write instead.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    hint = f"write {value / 100:g} for {value:g} %" if is_number and 1 < value <= 100 else ""
    given = number(name, value, 0, 1, hint)
    if given == 0:
        raise BadValue(f"{name} must be above 0 and at most 1, not {value!r}", "pass 0.85 for 85 %")
    return given


def whole(name: str, value: Any, least: int) -> int:
    wanted = f"a whole number, {least} or more"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadType(f"{name} must be {wanted}; not {shown(value)}", f"pass {wanted}")
    if value < least:
        raise BadValue(f"{name} must be {wanted}; not {value!r}", f"pass {wanted}")
    return int(value)


def size(name: str, value: Any, least: int = 0) -> int:
    """A number of bytes."""
    hint = "write 8 * 2**30 for 8 GiB"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise BadType(f"{name} must be a whole number of bytes, not {shown(value)}", hint)
    if value < least:
        fact = f"{name} must be a whole number of bytes, {least} or more; not {value!r}"
        raise BadValue(fact, hint)
    return int(value)


def optional_size(name: str, value: Any, least: int = 0) -> int | None:
    return None if value is None else size(name, value, least)


def truth(name: str, value: Any, hint: str = "") -> bool:
    if not isinstance(value, bool):
        fact = f"{name} must be True or False, not {shown(value)}"
        raise BadType(fact, hint or f"write {name}=True, or leave it out")
    return value


def one_of(name: str, value: Any, choices: Any) -> Any:
    """One of a few words."""
    if value not in choices:
        words = ", ".join(map(str, choices))
        raise BadValue(f"{name} must be one of {words}; not {shown(value)}", "pass one of them")
    return value


def function(name: str, value: Any) -> Any:
    """Something to call, or nothing."""
    if value is not None and not callable(value):
        fact = f"{name} must be a function, not {shown(value)}"
        raise BadType(fact, f"pass a function, or leave {name} out")
    return value


def model(name: str, value: Any) -> Any:
    """A model as PyTorch knows it."""
    from torch import nn

    if not isinstance(value, nn.Module):
        fact = f"{name} must be a torch.nn.Module, not {shown(value)}"
        raise BadType(fact, "build or load the model first (plimsoll.load)")
    return value


def optimizer(name: str, value: Any) -> Any:
    """Something with parameter groups, or nothing."""
    if value is not None and not hasattr(value, "param_groups"):
        fact = f"{name} must be an optimizer of torch, not {shown(value)}"
        raise BadType(fact, "pass torch.optim.AdamW(model.parameters()) or another of torch.optim")
    return value


def dtype(name: str, value: Any) -> Any:
    """A floating type of torch, or nothing."""
    import torch

    if value is not None and not (isinstance(value, torch.dtype) and value.is_floating_point):
        fact = f"{name} must be a floating type such as torch.bfloat16, not {shown(value)}"
        raise BadType(fact, f"pass {name}=torch.bfloat16, or leave it out")
    return value


def shown(value: Any) -> str:
    """A value in an error: short, and never a whole model or dataset."""
    kind = type(value).__name__
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else f"a {kind}"
    return text if len(text) <= 60 else f"a {kind}"


def _range(least: float, most: float) -> str:
    return f" from {least:g} to {most:g}" if math.isfinite(most) else f", {least:g} or more"
