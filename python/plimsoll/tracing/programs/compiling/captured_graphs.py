"""CUDA graphs that a program records by itself: the steps run once, into a pool of memory of their own.

What was recorded is repeated without asking for memory again.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import torch

from ...standins.patches import Patches
from .graphs import own_pool

_NOTE = (
    "CUDA graphs that the program records were followed: they keep a pool of memory of their own, which the rest of "
    "the program cannot use"
)
_CALLABLES = (
    "make_graphed_callables was left out: its graphs keep a pool of memory of their own, "
    "so that the peak may be higher"
)


def install(patches: Patches, observer: Any) -> None:
    # Of the stream on which all graphs are recorded; they stay.
    workspaces: dict[Any, int] = {}

    class CUDAGraph:
        def __init__(self, *_: Any, **__: Any) -> None:
            self._recording: ExitStack | None = None

        def capture_begin(self, *_: Any, **__: Any) -> None:
            observer.notes.add(_NOTE)
            self._recording = ExitStack()
            self._recording.enter_context(own_pool(observer.ledger))
            before, observer.workspaces = observer.workspaces, workspaces
            self._recording.callback(setattr, observer, "workspaces", before)

        def capture_end(self) -> None:
            if self._recording is not None:
                self._recording.close()
                self._recording = None

        def pool(self) -> tuple[int, int]:
            return (0, 1)

        def replay(self, *_: Any, **__: Any) -> None:
            return None

        reset = instantiate = debug_dump = enable_debug_mode = replay
        register_generator_state = replay

    class graph:
        """Between its begin and its end everything is recorded."""

        def __init__(self, cuda_graph: Any, *_: Any, **__: Any) -> None:
            self._graph = cuda_graph

        def __enter__(self) -> None:
            observer.ledger.empty_cache()
            self._graph.capture_begin()

        def __exit__(self, *_: Any) -> None:
            self._graph.capture_end()

    def make_graphed_callables(callables: Any, *_: Any, **__: Any) -> Any:
        observer.notes.add(_CALLABLES)
        observer.graphs = True
        return callables

    for module in (torch.cuda, torch.cuda.graphs):
        patches.set(module, "CUDAGraph", CUDAGraph)
        patches.set(module, "graph", graph)
        patches.set(module, "graph_pool_handle", lambda: (0, 1))
        patches.set(module, "make_graphed_callables", make_graphed_callables)
