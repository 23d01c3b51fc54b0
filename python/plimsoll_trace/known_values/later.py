"""Large values that are computed when somebody asks for them: most are never read.

A detector computes what each of a million anchors should become, for its loss alone. Of all that is known of
these, only what chooses rows is read.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

# Fewer values than this are computed at once.
_MANY = 1 << 16
# So many that wait for one another are enough.
_MAX_DEPTH = 48
# PyTorch's own: it is replaced while a trace runs.
_ADDRESS = torch.UntypedStorage.data_ptr
# Those that were not computed yet, in the order in which they were asked for.
_pending: dict[int, weakref.ref[Computation]] = {}


class Computation:
    """An op on known values, some of which may wait to be computed themselves."""

    def __init__(
        self,
        run: Callable[[list, dict], list[Any]],
        args: list,
        kwargs: dict,
        depth: int,
        func: Any = None,
        part: Callable[[Any, list], Any] | None = None,
    ) -> None:
        """`depth`: how many wait for one another, with this one.

        `part`: computes the only result of a part of what waits, or gives None where it needs all.
        """
        self._run = run
        self._func = func
        self._part = part
        self._args = args
        self._kwargs = kwargs
        self._given = list(_values((args, kwargs)))
        # Where those lie that were there from the start; found out when something is written.
        self._addresses: set[int] | None = None
        self._made: list[Any] | None = None
        self._is_done = False
        self.depth = depth
        key = id(self)
        _pending[key] = weakref.ref(self, lambda _: _pending.pop(key, None))

    def made(self) -> Any:
        """What it comes to, as a list of results; None where it cannot be computed."""
        if not self._is_done:
            self._is_done = True
            _pending.pop(id(self), None)
            try:
                if _is_plain():
                    self._made = self._compute()
                else:
                    with torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
                        self._made = self._compute()
            except (NotComputed, RuntimeError, TypeError, IndexError):
                self._made = None
            del self._run, self._part, self._args, self._kwargs, self._given
        return self._made

    def _compute(self) -> list[Any]:
        part = None if self._part is None else self._part(self._func, self._args)
        return self._run(now(self._args), now(self._kwargs)) if part is None else [part]

    def asked(self) -> tuple[Any, list, dict]:
        """The op, and what it is given, while it waits."""
        if self._is_done:
            raise NotComputed
        return self._func, self._args, self._kwargs

    def reads(self, address: int) -> bool:
        """Whether it is still to read values that lie in this memory."""
        if self._addresses is None:
            self._addresses = {_address(o) for o in self._given if isinstance(o, torch.Tensor)}
            self._given = [one for one in self._given if isinstance(one, Later)]
        if address in self._addresses:
            return True
        values = (one.done() for one in self._given)
        return any(value is not None and _address(value) == address for value in values)

    def done(self, index: int) -> Any:
        return self._made[index] if self._made is not None else None


class NotComputed(Exception):
    """A value that was to be computed cannot be."""


class Later:
    """One of the results of a computation."""

    depth: int

    def __init__(self, computation: Computation, index: int, shape: Any) -> None:
        self._computation = computation
        self._index = index
        self.shape = shape
        self.depth = computation.depth

    def done(self) -> Any:
        """The value, where it was computed."""
        return self._computation.done(self._index)

    def first(self, count: int) -> Any:
        """So many values from the beginning, where they are known without the others."""
        return None

    def asked(self) -> tuple[Any, list, dict]:
        """The op that it is the only result of, and what that is given; nothing of both where there are others."""
        func, args, kwargs = self._computation.asked()
        return func if self._index == 0 else None, args, kwargs

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A tensor that is saved or copied takes its value along, as a tensor that any reader knows."""
        value = self.now()
        if value is None:
            # A value of another shape than the tensor's: `likely_value_of` ignores it.
            value = torch.empty((*self.shape, 0), device="cpu")
        return value.__reduce_ex__(protocol)

    def now(self) -> Any:
        """The value; None where there is none after all."""
        made = self._computation.made()
        value = None if made is None else made[self._index]
        return value if value is not None and value.shape == self.shape else None


def now(value: Any) -> Any:
    """With the values that were waited for."""
    if isinstance(value, dict):
        return {name: now(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(now(one) for one in value)
    if not isinstance(value, Later):
        return value
    known = value.now()
    if known is None:
        raise NotComputed
    return known


class Weight:
    """What an op is given: whether any of it waits, and how much there is to compute."""

    def __init__(self, args: list, kwargs: dict) -> None:
        self.depth = self._largest = 0
        self._weigh(args)
        if kwargs:
            self._weigh(kwargs.values())

    def _weigh(self, values: Iterable[Any]) -> None:
        for value in values:
            if isinstance(value, Later):
                self.depth = max(self.depth, value.depth)
            elif isinstance(value, torch.Tensor):
                self._largest = max(self._largest, value.numel())
            elif isinstance(value, (list, tuple)):
                self._weigh(value)

    def may_wait(self, results: Any) -> bool:
        """Whether the op takes so long that it is better not run for nothing."""
        if self.depth:
            return self.depth < _MAX_DEPTH
        self._weigh(results)
        return self._largest > _MANY


def _is_plain() -> bool:
    """Whether ops are run as they are already, as for what another computation waits for."""
    no_mode = torch._C._len_torch_dispatch_stack() == 0
    return no_mode and not torch._C._is_torch_function_enabled() and not torch.is_grad_enabled()


def before_writing(value: torch.Tensor) -> None:
    """Computes all that waits for what lies in the memory of these values, which are about to change.

    One that waits for another was asked for after it.
    """
    address = _address(value)
    for reference in list(_pending.values()):
        computation = reference()
        if computation is not None and computation.reads(address):
            computation.made()


def _address(value: torch.Tensor) -> int:
    return _ADDRESS(value.untyped_storage())


def _values(given: Any) -> Iterator[Any]:
    """The values among what an op is given, known or not yet."""
    for one in given.values() if isinstance(given, dict) else given:
        if isinstance(one, (torch.Tensor, Later)):
            yield one
        elif isinstance(one, (list, tuple, dict)):
            yield from _values(one)
