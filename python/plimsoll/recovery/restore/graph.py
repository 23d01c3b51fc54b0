"""Lets go of the graph that a failed microbatch made, where variables that live on still hold it."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

# Outputs of models are dicts or data classes of tensors, lists of layers in them; deeper lies something else.
DEEPEST = 4
MAX_VALUES = 10_000


def mark() -> int | None:
    """The number that the next operation with a gradient gets; None without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    next_number = getattr(torch.autograd, "_get_sequence_nr", None)
    if next_number is not None:
        return int(next_number())
    with torch.enable_grad():
        node = torch.zeros((), requires_grad=True, device="cpu").clone().grad_fn
    number = getattr(node, "_sequence_nr", None)
    return None if number is None else number()


def let_go(frame: FrameType | None, since: int | None) -> None:
    """Detaches and empties the tensors among a frame's variables that were made since a mark.

    The frame goes on: its `loss` or `outputs` would keep all activations alive until they are assigned again,
    which is after the next forward. A single number keeps its value.
    """
    if frame is None or since is None:
        return
    torch = sys.modules["torch"]
    for tensor in _tensors(_variables(frame), torch.Tensor):
        node = tensor.grad_fn
        number = getattr(node, "_sequence_nr", None)
        if number is None or number() < since:
            continue
        del node, number
        is_number = tensor.numel() == 1
        try:
            tensor.detach_()
        except RuntimeError:
            # A view cannot be detached in place; without its data it holds the graph, and no values.
            pass
        if not is_number:
            tensor.data = tensor.new_empty(0)


def _variables(frame: FrameType) -> list[Any]:
    found = frame.f_locals
    values = list(found.values())
    # Before Python 3.13 this is a copy that the frame keeps, and with it every value in it.
    if isinstance(found, dict) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        found.clear()
    return values


def _tensors(values: list[Any], kind: type) -> Iterator[Any]:
    waiting = [(value, 0) for value in values]
    seen: set[int] = set()
    while waiting and len(seen) < MAX_VALUES:
        value, depth = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, kind):
            yield value
        elif depth < DEEPEST:
            waiting += [(inner, depth + 1) for inner in _inner(value)]


def _inner(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, (list, tuple)):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return list(vars(value).values()) if hasattr(value, "__dict__") else []
    return []
