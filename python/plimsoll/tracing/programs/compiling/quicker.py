"""Work of PyTorch's compiler that only matters where kernels are built and run, or that it does again and again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary

import torch
import torch._inductor.config
import torch.utils._triton
from torch._inductor import ir, lowering
from torch._inductor.codecache import CacheBase
from torch._inductor.codegen import triton, wrapper
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

from .comparisons import compared_once
from .equal_kernels import written_once
from .fake_results import results_once
from .formulas import formulas_once
from .patterns import possible_patterns

_UNSUPPORTED = "unsupported_input_tensor"
# What every kernel reads and writes.
_USUAL = {torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool}
_MODES = (FakeTensorMode, FunctionalTensorMode, ProxyTorchDispatchMode)


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
        possible_patterns(),
        written_once(),
        formulas_once(),
        compared_once(),
        results_once(),
        # Which lines of a model a kernel stands for is written beside it.
        mock.patch.object(triton, "get_kernel_metadata", _no_metadata),
        mock.patch.object(ir, "get_kernel_metadata", _no_metadata),
        mock.patch.object(
            lowering, _UNSUPPORTED, _plain_at_once(lowering.unsupported_input_tensor)
        ),
        _unlogged(),
        _called_directly(),
    ):
        yield


def _no_metadata(*_: Any) -> tuple[str, str]:
    return "", ""


def _plain_at_once(ask: Any) -> Any:
    """Whether kernels cannot read a tensor: PyTorch asks it four things, for each argument of each operation."""

    def unsupported_input_tensor(t: Any, node: Any = None) -> bool:
        plain = type(t) is FakeTensor and t.dtype in _USUAL and t.layout is torch.strided
        return False if plain and t.fake_device.type == "cuda" else ask(t, node)

    return unsupported_input_tensor


@contextmanager
def _unlogged() -> Iterator[None]:
    """PyTorch writes each graph as text for its debug log, also where that log is off."""
    texts = {"_log_joint_graph": None, "_log_fw_bw_graphs": (None, None)}
    module: Any = None
    # Older ones have no such module, or write nothing.
    with suppress(ImportError):
        module = import_module("torch._functorch._aot_autograd.graph_compile")
    with ExitStack() as stack:
        for name, text in texts.items():
            if hasattr(module, name):
                unwritten = mock.patch.object(module, name, lambda *_, text=text: text)
                stack.enter_context(unwritten)
        yield


@contextmanager
def _called_directly() -> Iterator[None]:
    """Each op passes some modes, and each switches Dynamo off, which is never on here."""
    with ExitStack() as stack:
        for mode in _MODES:
            own = getattr(mode.__torch_dispatch__, "__wrapped__", None)
            if own is not None:
                stack.enter_context(mock.patch.dict(vars(own), {"__dynamo_disable": own}))
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
