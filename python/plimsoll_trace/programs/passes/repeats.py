"""A model that runs without gradients, or generates texts, again and again, on inputs of the same shapes.

Evaluations written by hand, and games that are played before a step, have no loader that could be
shortened, and an evaluation that generates texts takes as many operations as a training. Once two passes
asked for the same, the next ones are written down from them: while that may be new, all that they ask for;
later only what they leave, unless more is held than ever before.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils import _pytree as trees

from ... import small_values
from ..places import GPU, Places
from ..watch import Watch
from .written import bound, ident_of, steps_of, write_steps

# Passes of fewer ops than this cost too little.
_LEAST_OPS = 40
# So many are written in full.
_WRITTEN_IN_FULL = 4
# A pass that is written counts as so many ops on the clock of the trace, so that an endless loop ends.
_OPS_OF_WRITTEN = 5
# What layers of adapters say of themselves.
_ADAPTER_STATES = ("disable_adapters", "merged")
_PLAIN = (type(None), bool, int, float, str, torch.dtype)


class _Pass:
    """What a pass asked for and left."""

    def __init__(
        self, steps: list[tuple], leaves: list[Any], values: list[Any], tree: Any, copies: list
    ):
        self.steps = steps
        # Of each result that holds whole numbers, where they are known: the words of a text.
        self.values = values
        # Copies of weights that autocast keeps: the weight, its slot and the copy's type.
        self.copies = copies
        # Of each result: its slot, shape, strides, offset and type; of others the value itself.
        self.leaves = leaves
        self.tree = tree
        self.written = 0
        # The most that was held when one began.
        self.level = 0

    def alike(self, other: _Pass) -> bool:
        return self.steps == other.steps and self.leaves == other.leaves and self.tree == other.tree


class Repeats:
    def __init__(self, observer: Any, places: Places, watch: Watch) -> None:
        self._observer = observer
        self._places = places
        self._watch = watch
        # By module: the last pass on inputs of each kind, and whether the one before was like it.
        self._passes: weakref.WeakKeyDictionary[Any, dict] = weakref.WeakKeyDictionary()

    def call(self, module: Any, forward: Any, args: tuple, kwargs: dict) -> Any:
        """An outermost forward pass: run, or written down."""
        kind = None if torch.is_grad_enabled() else self._kind(module, args, kwargs)
        return self._call(kind, module, forward, args, kwargs)

    def generate(self, model: Any, generate: Any, args: tuple, kwargs: dict) -> Any:
        """All tokens of a call of `generate()`: run, or written down."""
        plain = {name: _plain_settings(value) for name, value in kwargs.items()}
        kind = self._kind(model, args, plain)
        if kind is not None:
            kind = ("generate", _plain_settings(model.generation_config), *_layers(model), *kind)
        return self._call(kind, model, generate, args, kwargs)

    def _call(self, kind: Any, module: Any, forward: Any, args: tuple, kwargs: dict) -> Any:
        if kind is None:
            return forward(module, *args, **kwargs)
        known = self._passes.setdefault(module, {})
        last, is_steady = known.get(kind, (None, False))
        if is_steady:
            return self._written(last)
        ledger, ops = self._observer.ledger, self._observer.ops
        start = len(ledger.events)
        outputs = forward(module, *args, **kwargs)
        if self._observer.ops - ops >= _LEAST_OPS:
            seen = self._seen(ledger.events[start:], outputs)
            known[kind] = (seen, seen is not None and last is not None and seen.alike(last))
        return outputs

    def _kind(self, module: Any, args: tuple, kwargs: dict) -> Any:
        """All that a pass depends on; None where that cannot be told."""
        kept = len(self._observer.autocast.copies())
        parts: list[Any] = [module.training, torch.is_autocast_enabled("cuda"), kept]
        leaves, tree = trees.tree_flatten((args, kwargs))
        for leaf in leaves:
            if type(leaf) in (torch.Tensor, torch.nn.Parameter):
                with torch._C.DisableTorchFunction():
                    parts.append((leaf.shape, _layout(leaf), leaf.dtype, leaf.device.type))
            elif type(leaf) in _PLAIN:
                parts.append((type(leaf), leaf))
            else:
                return None
        return (*parts, str(tree))

    def _seen(self, events: list, outputs: Any) -> _Pass | None:
        fresh = {event[1] for event in events if event[0] == "a"}
        leaves, tree = trees.tree_flatten(outputs)
        slots: dict[int, Any] = {}
        kept: list[Any] = []
        values: list[Any] = []
        for leaf in leaves:
            values.append(_whole_numbers(leaf))
            if type(leaf) in _PLAIN:
                kept.append(leaf)
                continue
            if type(leaf) is not torch.Tensor:
                return None
            ident = ident_of(self._observer, leaf)
            if ident not in fresh or self._places.of(leaf) != GPU:
                return None
            slot = slots.setdefault(ident, ("result", len(slots)))
            with torch._C.DisableTorchFunction():
                place = (leaf.shape, leaf.stride(), leaf.storage_offset(), leaf.dtype)
                kept.append((slot, leaf.untyped_storage().nbytes(), *place))
        copies = []
        for number, (weight, copy) in enumerate(self._observer.autocast.copies()):
            if (ident := ident_of(self._observer, copy)) in fresh:
                slots[ident] = ("copy", number)
                copies.append((weight, slots[ident], copy.dtype))
        steps = steps_of(events, {}, slots)
        return None if steps is None else _Pass(steps, kept, values, tree, copies)

    def _written(self, last: _Pass) -> Any:
        observer = self._observer
        observer.ops += _OPS_OF_WRITTEN
        self._watch.ticked()
        steps, held = last.steps, observer.ledger.live_bytes
        last.written += 1
        if last.written > _WRITTEN_IN_FULL and held <= last.level:
            steps = [step for step in steps if step[0] == "a" and isinstance(step[5], tuple)]
        last.level = max(last.level, held)
        made = write_steps(observer.ledger, steps, {})
        for weight, slot, dtype in last.copies:
            copy = bound(observer, self._places, weight.shape, dtype, made[slot])
            observer.autocast.keep(weight, copy)
        storages: dict[Any, Any] = {}
        leaves = []
        for leaf, value in zip(last.leaves, last.values):
            if not isinstance(leaf, tuple):
                leaves.append(leaf)
                continue
            slot, size, shape, strides, offset, dtype = leaf
            if slot not in storages:
                ident = made[slot]
                storages[slot] = bound(observer, self._places, size, torch.uint8, ident)
            with torch._C.DisableTorchFunction(), _unseen(observer):
                whole = storages[slot].view(dtype)
                leaves.append(whole.as_strided(shape, strides, offset))
            if value is not None:
                small_values.remember(leaves[-1], value.clone())
        return trees.tree_unflatten(leaves, last.tree)


def _whole_numbers(leaf: Any) -> Any:
    if type(leaf) is not torch.Tensor or leaf.dtype.is_floating_point:
        return None
    return small_values.value_of(leaf)


def _plain_settings(value: Any) -> Any:
    """How to generate, as text that can be compared.

    What is not set is taken at its default by each call, and a trainer writes these defaults down after the first.
    """
    if not hasattr(value, "to_json_string"):
        return value
    defaults = getattr(value, "_get_default_generation_params", dict)
    return json.dumps({**defaults(), **json.loads(value.to_json_string())}, sort_keys=True)


def _layers(model: Any) -> Iterator[tuple]:
    """Programs generate before and after they add adapters, switch them off, or cast the model."""
    for layer in model.modules():
        yield type(layer), *(bool(getattr(layer, name, False)) for name in _ADAPTER_STATES)
    yield tuple(parameter.dtype for parameter in model.parameters())


def _layout(tensor: Any) -> tuple:
    """All that kernels go by: the order of its dimensions, and which of them run on without a gap.

    The last 256 tokens of a text that grows lie further and further apart, row by row, but are read alike.
    """
    dims = [
        (step, -size, dim) for dim, (step, size) in enumerate(zip(tensor.stride(), tensor.shape))
    ]
    layout, end = [], 1
    for step, size, dim in sorted(dims):
        if size != -1:
            layout.append((dim, step == end, step == 0))
            end = step * -size
    return tuple(layout)


class _unseen:
    """Views that the program did not ask for."""

    def __init__(self, observer: Any):
        self._observer = observer

    def __enter__(self) -> None:
        self._observer.recording = False

    def __exit__(self, *_: Any) -> None:
        self._observer.recording = True
