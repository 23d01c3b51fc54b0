"""Work of PyTorch's compiler that only matters where kernels are built and run, or that it does again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import torch._inductor.config
import torch.utils._triton
from torch._inductor.codecache import CacheBase
from torch._inductor.codegen import wrapper
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.virtualized import V
from torch.fx._lazy_graph_module import _use_lazy_graph_module


@contextmanager
def quicker() -> Iterator[None]:
    with (
        # Python code of graphs is written when it is called, as `torch.compile` has it, and most are never called.
        _use_lazy_graph_module(True),
        # Kernels of earlier runs are found by a hash of all of Triton's files; none is looked for.
        mock.patch.object(CacheBase, "get_system", staticmethod(lambda: {"hash": ""})),
        mock.patch.object(torch.utils._triton, "triton_hash_with_backend", lambda: ""),
        mock.patch.object(DtypePropagationOpsHandler, "__init__", _filled_once()),
        _reuse_keys(),
        # Graphs are taken apart where a part of them cannot be a CUDA graph; run one after another they are the same.
        torch._inductor.config.patch(graph_partition=False),
    ):
        yield


@contextmanager
def _reuse_keys() -> Iterator[None]:
    """What buffers must have in common to lie in the same place is asked of each again and again."""
    ask = wrapper.buffer_reuse_key
    known: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()

    def buffer_reuse_key(node: Any) -> Any:
        keys = known.setdefault(V.graph, {})
        name = node.get_name()
        if name not in keys:
            keys[name] = ask(node)
        return keys[name]

    with mock.patch.object(wrapper, "buffer_reuse_key", buffer_reuse_key):
        yield


def _filled_once() -> Any:
    """Makes the table of hundreds of rules once; PyTorch makes it again for each kernel."""
    fill = DtypePropagationOpsHandler.__init__
    filled: list[Any] = []

    def __init__(self: Any) -> None:
        if self not in filled:
            fill(self)
            filled.append(self)

    return __init__
