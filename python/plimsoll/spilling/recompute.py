"""Computes chosen blocks again in the backward, wrapped from outside: PyTorch's checkpointing without reentrance."""

from __future__ import annotations

import copy
import functools
import random
import weakref
from typing import Any, Callable

import torch
from torch.utils.checkpoint import checkpoint

from .blocks import NORMS, is_cache, is_plain
from .saved import Saved, SavedStore

_ABSENT = object()


class Recompute:
    """Which modules are computed again. Classes are wrapped, so that copies of a module know nothing of it."""

    def __init__(self, store: SavedStore) -> None:
        self._store = store
        self._chosen: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._costs: dict[int, tuple[int, float]] = {}
        self._wrapped: dict[type, Any] = {}
        self.seconds = 0.0
        self.is_running = False
        # While turns are measured: the begin and the end of each time.
        self.marks: list[tuple[Any, Any]] | None = None
        self.ended: Callable[[], None] = lambda: None

    def choose(self, blocks: list[tuple[torch.nn.Module, int, float]]) -> None:
        """Each with the bytes that it holds while it is computed again, and the seconds that this takes."""
        self._chosen = {id(module): weakref.ref(module) for module, _, _ in blocks}
        self._costs = {id(module): (size, seconds) for module, size, seconds in blocks}
        kinds = {type(module) for module, _, _ in blocks}
        for kind in set(self._wrapped) - kinds:
            self._unwrap(kind)
        for kind in kinds - set(self._wrapped):
            self._wrap(kind)

    def close(self) -> None:
        self.choose([])

    @property
    def is_on(self) -> bool:
        return bool(self._chosen)

    def runs_again(self, module: torch.nn.Module) -> int:
        """Counts it; the bytes that it will hold."""
        size, seconds = self._costs.get(id(module), (0, 0.0))
        self.seconds += seconds
        return size

    def _wrap(self, kind: type) -> None:
        self._wrapped[kind] = kind.__dict__.get("forward", _ABSENT)
        real: Callable[..., Any] = vars(kind).get("forward") or getattr(kind, "forward")  # noqa: B009
        ours = self

        @functools.wraps(real)
        def forward(self: torch.nn.Module, *arguments: Any, **named: Any) -> Any:
            known = ours._chosen.get(id(self))
            if known is None or known() is not self or not torch.is_grad_enabled():
                return real(self, *arguments, **named)
            return ours._run(real, self, arguments, named)

        setattr(kind, "forward", forward)  # noqa: B010

    def _unwrap(self, kind: type) -> None:
        before = self._wrapped.pop(kind)
        if before is _ABSENT:
            delattr(kind, "forward")
        else:
            setattr(kind, "forward", before)  # noqa: B010

    def _run(
        self, real: Callable[..., Any], module: torch.nn.Module, arguments: Any, named: Any
    ) -> Any:
        if not is_plain((arguments, named)) or torch.compiler.is_compiling():
            return real(module, *arguments, **named)
        again = _Again(self, self._store, real, module)
        again.take((arguments, named))
        try:
            # Arguments and random numbers are kept by ourselves: arguments can then be spilled, too.
            return checkpoint(again.run, use_reentrant=False, preserve_rng_state=False)
        finally:
            again.has_run = True


class _Again:
    """One call of one block: made once in the forward, and again when the backward asks for it."""

    def __init__(
        self,
        all_blocks: Recompute,
        store: SavedStore,
        real: Callable[..., Any],
        module: torch.nn.Module,
    ) -> None:
        self.has_run = False
        self._all = all_blocks
        self._store, self._real, self._module = store, real, module
        self._first: Any = None
        self._kept: Any = None
        self._random: Any = None

    def take(self, call: Any) -> None:
        self._first = call
        self._random = (torch.get_rng_state(), self._store.card.random_state(), random.getstate())
        with torch.no_grad():
            self._kept = self._keep(call)

    def run(self) -> Any:
        if not self.has_run:
            (arguments, named), self._first = self._first, None
            return self._real(self._module, *arguments, **named)
        return self._run_again()

    def _run_again(self) -> Any:
        card = self._store.card
        self._store.make_room(self._all.runs_again(self._module))
        now = (torch.get_rng_state(), card.random_state(), random.getstate())
        self._set_random(self._random)
        norms = _own_statistics(self._module)
        start = None if self._all.marks is None else card.timed_mark()
        self._all.is_running = True
        try:
            arguments, named = self._restore(self._kept)
            return self._real(self._module, *arguments, **named)
        finally:
            self._all.is_running = False
            if start is not None and self._all.marks is not None:
                self._all.marks.append((start, card.timed_mark()))
            self._all.ended()
            for norm, buffers in norms:
                norm._buffers.update(buffers)
            self._set_random(now)

    def _set_random(self, state: Any) -> None:
        torch.set_rng_state(state[0])
        self._store.card.set_random_state(state[1])
        random.setstate(state[2])

    def _keep(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            is_weight = value.is_leaf and value.requires_grad
            # Without its graph: the block's own one leads there.
            return _Kept(self._store.pack(value if is_weight else value.detach()), value)
        if type(value) in (tuple, list):
            return type(value)(self._keep(one) for one in value)
        if type(value) is dict:
            return {name: self._keep(one) for name, one in value.items()}
        return _fresh(value) if is_cache(value) else value

    def _restore(self, value: Any) -> Any:
        if isinstance(value, _Kept):
            return value.tensor(self._store)
        if type(value) in (tuple, list):
            return type(value)(self._restore(one) for one in value)
        if type(value) is dict:
            return {name: self._restore(one) for name, one in value.items()}
        return _fresh(value) if is_cache(value) else value


class _Kept:
    """A tensor that a block was called with."""

    __slots__ = ("_needs_gradient", "_saved", "_weight")

    def __init__(self, saved: Saved, tensor: torch.Tensor) -> None:
        self._needs_gradient = tensor.requires_grad
        self._saved = saved
        self._weight = tensor if tensor.is_leaf and tensor.requires_grad else None

    def tensor(self, store: SavedStore) -> torch.Tensor:
        value = store.unpack(self._saved)
        if self._weight is not None:
            return self._weight
        return value.detach().requires_grad_(self._needs_gradient)


def _fresh(cache: Any) -> Any:
    """A cache as it is now: calls that add to it replace its tensors and change none."""
    made = copy.copy(cache)
    made.layers = [copy.copy(layer) for layer in cache.layers]
    return made


def _own_statistics(module: torch.nn.Module) -> list[tuple[torch.nn.Module, dict[str, Any]]]:
    """Running statistics were averaged by the forward; what is computed again averages copies of them."""
    found = []
    for norm in module.modules():
        if isinstance(norm, NORMS) and norm._buffers:
            found.append((norm, dict(norm._buffers)))
            for name, buffer in norm._buffers.items():
                if buffer is not None:
                    norm._buffers[name] = buffer.detach().clone()
    return found
