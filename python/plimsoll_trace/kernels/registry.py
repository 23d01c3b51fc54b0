"""The table of rules, and what a rule can say about one kernel launch."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Callable

import torch

from .. import ledger as kinds
from ..op_facts import name_of

_RULES: dict[str, Callable] = {}
_FAMILIES = (
    "attention",
    "convolution",
    "flex_attention",
    "indexing",
    "losses",
    "matrix_factors",
    "norms",
    "pointwise",
    "recurrent",
    "reductions",
    "sorting",
    "spectra",
)


def rule(*names: str) -> Callable[[Callable], Callable]:
    """Registers a rule for ops by name: `aten.sum` for every overload, `aten.sum.default` for one."""

    def register(function: Callable) -> Callable:
        for name in names:
            if name in _RULES:
                raise ValueError(f"{name} has a rule already: {_RULES[name].__module__}")
            _RULES[name] = function
        return function

    return register


def rule_for(name: str) -> Callable | None:
    for family in _FAMILIES:
        import_module("." + family, __package__)
    return _RULES.get(name) or _RULES.get(name.rsplit(".", 1)[0])


class Launch:
    """One op: its arguments, its results, and the requests it makes in order.

    Outputs that a rule does not place are placed after it, in the order they are returned.
    """

    def __init__(
        self, observer: Any, func: Any, args: tuple, kwargs: dict, outputs: Any, fresh: dict
    ):
        self.observer = observer
        self.gpu = observer.gpu
        self.func = func
        self.args = args
        self.kwargs = kwargs
        self.outputs = outputs
        self._fresh = fresh
        self._name = name_of(func)

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        return self.args[index] if index < len(self.args) else self.kwargs.get(name, default)

    def place(self, index: int, least: int = 0) -> None:
        """Asks for the output with this index, if it is new memory; `least`: for so many bytes, if it has fewer."""
        storage = self._fresh.pop(index, None)
        if storage is not None:
            self.observer.adopt(storage, self._name, least=least)

    def skip(self, index: int) -> None:
        """Says that the output with this index lies in host memory on CUDA."""
        storage = self._fresh.pop(index, None)
        if storage is not None:
            self.observer.ignore(storage)

    def place_all(self) -> None:
        for index in sorted(self._fresh) if len(self._fresh) > 1 else tuple(self._fresh):
            self.place(index)

    def take(self, size: int, category: str = kinds.TEMPORARY) -> int:
        """Asks for memory that is not an output; the rule gives it back."""
        observer = self.observer
        return observer.ledger.allocate(size, self._name, observer.current_module(), category)

    def give(self, *idents: int) -> None:
        for ident in idents:
            self.observer.ledger.free(ident)

    def scratch(self, *sizes: int, category: str = kinds.TEMPORARY) -> None:
        """Asks for buffers one after another and gives them back in the opposite order."""
        taken = [self.take(size, category) for size in sizes]
        self.give(*reversed(taken))

    def workspace(self, name: str, size: int) -> None:
        """Asks once a stream for what a library handle keeps; autograd's thread has a handle of its own."""
        ledger = self.observer.ledger
        stream = 0 if ledger.stream_now is None else ledger.stream_now()
        key = (name, torch._C._current_graph_task_id() != -1, stream)
        if key not in self.observer.workspaces:
            self.observer.workspaces[key] = self.take(size, kinds.WORKSPACE)

    def note(self, text: str) -> None:
        self.observer.notes.add(text)
