"""CUDA graphs of compiled code (`mode="reduce-overhead"`): memory in a pool that nothing else uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import torch

from ...ledger import WORKSPACE, Ledger

GRAPHS = (
    "CUDA graphs were followed (torch.compile with reduce-overhead): they keep a pool of memory of their own, with "
    "what the compiled part holds and a copy of what it is given, which the rest of the program cannot use"
)
GRAPHS_LEFT_OUT = (
    "CUDA graphs were left out: they keep a pool of memory of their own, which the rest of the program cannot use, so "
    "that the peak may be up to 40 % higher"
)
# Memory of another stream is kept apart in the allocator, as that of a pool is. No program has as many streams.
_POOL = 255
# The first call runs as it is, the second is recorded, and from then on the recording is repeated.
_RECORDED = 2


def in_graphs(run: Callable[[list], Any], observer: Any) -> Callable[[list], Any]:
    """Compiled code that is recorded: what it asks for lies in the pool, at all later calls as well."""
    ledger = observer.ledger
    given: list[set[int]] = []

    def call(inputs: list) -> Any:
        copies: list[int] = []
        with own_pool(ledger), _own_workspaces(observer):
            if len(given) < _RECORDED:
                tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
                given.append({observer.allocation_of(one) for one in tensors})
                if len(given) == _RECORDED:
                    copies = _copies(ledger, given[1] - given[0])
                    # What is cached and unused goes back before a recording.
                    ledger.empty_cache()
            result = run(inputs)
            for copy in copies:
                ledger.free(copy)
        return result

    call._boxed_call = True  # type: ignore[attr-defined]
    return call


def _copies(ledger: Ledger, allocations: set[int]) -> list[int]:
    """A recording reads the same places each time: what lies elsewhere at each call is copied into the pool."""
    events = [ledger.asked(ident) for ident in sorted(allocations)]
    return [
        ledger.allocate(event[2], "cuda graph input", "", WORKSPACE)
        for event in events
        if event is not None and event[6:] != (_POOL,)
    ]


@contextmanager
def _own_workspaces(observer: Any) -> Iterator[None]:
    """Before and after, libraries give back the workspaces that they keep elsewhere."""
    observer.give_back_workspaces()
    try:
        yield
    finally:
        observer.give_back_workspaces()


@contextmanager
def own_pool(ledger: Ledger) -> Iterator[None]:
    before = ledger.stream_now
    ledger.stream_now = lambda: _POOL
    try:
        yield
    finally:
        ledger.stream_now = before
