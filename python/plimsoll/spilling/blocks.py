"""The parts of a model that can be computed again: seen in a step through hooks of modules, none of them changed."""

from __future__ import annotations

import random
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
from torch.nn.modules import module as modules

from .card import Card
from .saved import LEAST_BYTES

# A block that holds more than this share of all blocks is looked into: smaller ones can be chosen more exactly.
LARGEST_SHARE = 1 / 6
# One that holds less is not worth a call.
SMALLEST_SHARE = 1 / 400
PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device, torch.Size)


@dataclass
class Seen:
    """What calls of one module saved for one graph, those of modules inside it counted in, and what a call takes."""

    module: weakref.ref[torch.nn.Module]
    name: str
    bytes: int = 0
    calls: int = 0
    seconds_of_call: float = 0.0
    # Why it cannot be computed again with the same outcome.
    aside: str | None = None
    inner: list[Seen] = field(default_factory=list)


class _Call:
    __slots__ = ("aside", "before", "inputs", "saved", "seen", "start", "watched")

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.saved: dict[int, int] = {}
        self.aside: str | None = None
        self.inputs: dict[int, int] = {}
        self.watched: list[tuple[torch.Tensor, int]] = []
        self.before: Any = None
        self.start: Any = None


class Watch:
    """Hooks of all modules while a step is measured. `saved` hears of each storage that autograd saves."""

    def __init__(
        self, card: Card, knows: Callable[[int], bool], is_again: Callable[[], bool]
    ) -> None:
        self._card, self._knows = card, knows
        # The program did not make the calls of a block that is computed again in the backward.
        self._is_again = is_again
        self._handles: list[Any] = []
        self._calls: list[_Call] = []
        self._ended: list[_Call] = []
        self._seen: dict[int, Seen] = {}
        self._marks: list[tuple[Seen, Any, Any]] = []
        self._names: dict[int, str] = {}
        # Once blocks are known, only these are timed.
        self._timed: dict[int, Seen] | None = None
        self._open: list[tuple[Seen, Any]] = []
        self.tops: list[Seen] = []
        self.fixed: set[int] = set()

    def start(self) -> None:
        if not self._handles:
            self._handles = [
                modules.register_module_forward_pre_hook(self._enter),
                modules.register_module_forward_hook(self._leave, with_kwargs=True),
            ]

    def only_times(self, blocks: list[Seen]) -> None:
        self._timed = {id(module): seen for seen in blocks for module in [seen.module()] if module}
        self._calls, self._ended, self._marks = [], [], []

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._calls, self._ended = [], []

    def saved(self, address: int, size: int) -> None:
        for call in self._calls:
            if address not in call.inputs:
                call.saved[address] = size

    def backward_begins(self) -> None:
        """Inputs that were changed in place since a block read them cannot be read again."""
        for call in self._ended:
            if any(tensor._version != version for tensor, version in call.watched):
                call.seen.aside = "its input is changed in place"
        self._ended = []

    def forward_begins(self) -> None:
        """A graph of its own begins: what blocks hold is counted of one graph."""
        for seen in self._seen.values():
            seen.bytes, seen.calls = 0, 0
        # The modules around the first saved tensor have begun before it.
        for call in self._calls:
            call.saved = {}

    def step_ended(self) -> None:
        """Calls that ended by an error are over."""
        self._calls, self._open = [], []

    def read_times(self) -> None:
        """Of all calls since the last time; the card has settled."""
        times: dict[int, list[float]] = {}
        for seen, start, end in self._marks:
            times.setdefault(id(seen), []).append(self._card.seconds_between(start, end))
        for seen in self._seen.values():
            if id(seen) in times:
                seen.seconds_of_call = sum(times[id(seen)]) / len(times[id(seen)])
        self._marks = []

    def _enter(self, module: torch.nn.Module, inputs: Any) -> None:
        if self._timed is not None:
            timed = self._timed.get(id(module))
            if timed is not None and torch.is_grad_enabled() and not self._is_again():
                self._open.append((timed, self._card.timed_mark()))
            return
        if not torch.is_grad_enabled() or torch.jit.is_tracing() or self._is_again():
            return
        if not self._calls:
            self._learn(module)
        seen = self._seen.get(id(module))
        if seen is None or seen.module() is not module:
            name = self._names.get(id(module), type(module).__name__)
            # Parts of two models may have one name.
            same = sum(name in (one.name, one.name.split("#")[0]) for one in self._seen.values())
            name = f"{name}#{same + 1}" if same else name
            seen = self._seen[id(module)] = Seen(weakref.ref(module), name)
            (self._calls[-1].seen.inner if self._calls else self.tops).append(seen)
        call = _Call(seen)
        call.aside = _why_not(module)
        self._note_inputs(call, inputs)
        call.before = _state(module)
        call.start = self._card.timed_mark()
        self._calls.append(call)

    def _leave(self, module: torch.nn.Module, inputs: Any, named: Any, output: Any) -> None:
        if self._timed is not None:
            while self._open and id(module) in self._timed and not self._is_again():
                timed, start = self._open.pop()
                if timed.module() is module:
                    self._marks.append((timed, start, self._card.timed_mark()))
                    break
            return
        if self._is_again() or not any(call.seen.module() is module for call in self._calls):
            return
        while True:
            # Calls above it ended by an error.
            call = self._calls.pop()
            if call.seen.module() is module:
                break
        self._marks.append((call.seen, call.start, self._card.timed_mark()))
        self._note_inputs(call, named)
        if not is_plain((inputs, named)):
            call.aside = call.aside or "its arguments are more than tensors"
        change = _changed(module, call.before)
        call.aside = call.aside or change
        if any(tensor._version != version for tensor, version in call.watched):
            # Of no concern to what lies around it, unless it is an input there, too.
            call.aside = call.aside or "it changes its input in place"
        outputs = {tensor.untyped_storage().data_ptr() for tensor in tensors_of(output)}
        freed = sum(
            size
            for key, size in call.saved.items()
            if key not in call.inputs and key not in outputs
        )
        # A second call needs its inputs, and no other object may hold them.
        kept = sum(
            size
            for key, size in call.inputs.items()
            if size >= LEAST_BYTES and not self._knows(key)
        )
        seen = call.seen
        seen.bytes += max(0, freed - kept)
        seen.calls += 1
        seen.aside = seen.aside or call.aside
        if self._calls:
            outer = self._calls[-1]
            inside = change or _has_hooks(module)
            if inside:
                outer.aside = outer.aside or f"{seen.name}: {inside}"
            elif call.aside and call.aside.endswith(_INHERITED):
                outer.aside = outer.aside or call.aside
        self._ended.append(call)

    def _note_inputs(self, call: _Call, values: Any) -> None:
        for tensor in tensors_of(values):
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                call.aside = call.aside or "its tensors are of a kind of their own"
                continue
            storage = tensor.untyped_storage()
            call.inputs[storage.data_ptr()] = storage.nbytes()
            call.watched.append((version_of(tensor), tensor._version))

    def _learn(self, module: torch.nn.Module) -> None:
        if id(module) in self._names:
            return
        for name, inner in module.named_modules():
            self._names.setdefault(id(inner), name or type(inner).__name__)
        for tensor in (*module.parameters(), *module.buffers()):
            if type(tensor) in (torch.Tensor, torch.nn.Parameter):
                self.fixed.add(tensor.untyped_storage().data_ptr())


_INHERITED = "(all around it)"


def candidates(tops: list[Seen]) -> list[Seen]:
    """Blocks that can be chosen one by one, none inside another, in the order of the forward."""
    total = sum(seen.bytes for seen in tops)
    return [one for seen in tops for one in _inside(seen, total)]


def _inside(seen: Seen, total: int) -> list[Seen]:
    if seen.bytes < total * SMALLEST_SHARE or seen.bytes <= 0:
        return []
    if seen.aside is None and seen.calls > 0 and seen.bytes <= total * LARGEST_SHARE:
        return [seen]
    found = [one for inner in seen.inner for one in _inside(inner, total)]
    covered = sum(one.bytes for one in found)
    if seen.aside is None and seen.bytes <= total / 2 and covered < seen.bytes / 2:
        return [seen]
    return found


def is_plain(value: Any) -> bool:
    """Whether a call with it can be made again: no object among it that the call may change."""
    if isinstance(value, (torch.Tensor, *PLAIN)):
        return True
    if type(value) in (tuple, list):
        return all(is_plain(one) for one in value)
    if type(value) is dict:
        return all(is_plain(one) for one in value.values())
    return is_cache(value)


def is_cache(value: Any) -> bool:
    """Keys and values that transformers keeps though it trains."""
    kind = type(value)
    return kind.__name__ == "DynamicCache" and kind.__module__ == "transformers.cache_utils"


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from tensors_of(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_of(one)


def version_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor without memory that has the version of another."""
    with torch.no_grad():
        follower = tensor.detach()
        follower.data = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return follower


def _why_not(module: torch.nn.Module) -> str | None:
    kind = type(module)
    if isinstance(module, torch.jit.ScriptModule):
        return "it is a compiled script"
    if kind.__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None):
        return "it is compiled"
    if "forward" in module.__dict__:
        return "its forward was replaced"
    if kind.__name__.startswith("FullyShardedDataParallel"):
        return f"its weights are sharded {_INHERITED}"
    for parameter in module._parameters.values():
        if parameter is not None and type(parameter) is not torch.nn.Parameter:
            return f"its weights are of a kind of their own {_INHERITED}"
    return None


def _has_hooks(module: torch.nn.Module) -> str | None:
    """Hooks inside of a block would run twice."""
    hooks = (
        module._forward_hooks,
        module._forward_pre_hooks,
        module._backward_hooks,
        module._backward_pre_hooks,
    )
    return "it has hooks of its own" if any(hooks) else None


# What a normalisation counts and averages is kept by the one that computes again (`recompute.py`).
NORMS = torch.nn.modules.batchnorm._NormBase


def _state(module: torch.nn.Module) -> Any:
    buffers = {}
    if not isinstance(module, NORMS):
        buffers = {
            name: (id(buffer), buffer._version)
            for name, buffer in module._buffers.items()
            if buffer is not None
        }
    attributes = {name: id(value) for name, value in module.__dict__.items()}
    return attributes, buffers, random.getstate(), _numpy_state()


def _changed(module: torch.nn.Module, before: Any) -> str | None:
    attributes, buffers, chance, numpy_chance = _state(module)
    if attributes != before[0] or buffers != before[1]:
        return "its forward changes the module"
    if chance != before[2] or numpy_chance != before[3]:
        return "it draws random numbers that are not PyTorch's"
    return None


def _numpy_state() -> Any:
    numpy = sys.modules.get("numpy.random")
    state: Callable[[], Any] | None = getattr(numpy, "get_state", None)
    if state is None:
        return None
    name, keys, place, *rest = state()
    return (name, keys.tobytes(), place, *rest)
