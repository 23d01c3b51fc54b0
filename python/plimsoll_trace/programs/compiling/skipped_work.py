"""Work of PyTorch's compiler that only matters where kernels are built and run, or that it does again and again."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any, Callable
from unittest import mock
from weakref import WeakKeyDictionary

import torch
import torch._inductor.config
import torch.utils._triton
from sympy import Basic, Eq, Expr, Ge, Gt, Integer, Le, Lt, S
from sympy.core.relational import _Inequality
from sympy.logic.boolalg import BooleanAtom
from torch import _prims_common
from torch._inductor import ir, lowering, pattern_matcher
from torch._inductor.codecache import CacheBase
from torch._inductor.codegen import triton, wrapper
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler
from torch._inductor.pattern_matcher import (
    FailedMatch,
    MultiOutputPattern,
    PatternExpr,
    PatternMatcherPass,
)
from torch._inductor.sizevars import SizeVarAllocator
from torch._inductor.virtualized import V
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

from .equal_kernels import written_once
from .repeated_work import formulas_once, results_once

_UNSUPPORTED = "unsupported_input_tensor"
# What every kernel reads and writes.
_USUAL = {torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool}
_MODES = (FakeTensorMode, FunctionalTensorMode, ProxyTorchDispatchMode)


# Patterns that Inductor looks for in a graph: those with an operation that the graph has nowhere are not tried.
#
# It knows a hundred ways to write attention, and tries each of them at each division, transposition and view.

_FUNCTION = "call_function"
_NOWHERE = FailedMatch("an operation that the graph has nowhere")


@contextmanager
def possible_patterns() -> Iterator[None]:
    known = _Known()
    apply = PatternMatcherPass.apply

    def from_the_start(self: Any, graph: Any) -> int:
        # Between two passes, nodes are changed in place.
        known.state = None
        return apply(self, graph)

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(PatternMatcherPass, "apply", from_the_start))
        # The second has a way to begin of its own.
        for kind in (PatternExpr, MultiOutputPattern):
            begin = _only_possible(kind.match, known)
            stack.enter_context(mock.patch.object(kind, "match", begin))
        yield


class _Known:
    def __init__(self) -> None:
        self._groups: dict[Any, set[frozenset]] = {}
        self._possible: dict[Any, bool] = {}
        # The graph that these hold for, and how many nodes were made in it: new ones may make patterns possible.
        self.state: tuple[Any, int, int] | None = None

    def is_possible(self, pattern: Any, graph: Any) -> bool:
        table = graph._find_nodes_lookup_table.table
        now = (graph, len(graph._graph_namespace._used_names), len(table))
        if now != self.state:
            self.state = now
            self._possible.clear()
        if pattern not in self._possible:
            if pattern not in self._groups:
                self._groups[pattern] = needed(pattern)
            groups = self._groups[pattern]
            self._possible[pattern] = all(_has_one(table, group) for group in groups)
        return self._possible[pattern]


def _only_possible(match: Callable, known: _Known) -> Callable:
    def only_possible(self: Any, node: Any) -> Any:
        return match(self, node) if known.is_possible(self, node.graph) else _NOWHERE

    return only_possible


def _has_one(table: dict, group: frozenset) -> bool:
    return any(table.get((_FUNCTION, target)) for target in group)


def needed(pattern: Any) -> set[frozenset]:
    """Operations that a graph with this pattern has: at least one of each group."""
    groups, seen, parts = set(), set(), [pattern]
    while parts:
        part = parts.pop()
        # Parts are shared, as the queries of attention are.
        if not isinstance(part, PatternExpr) or part in seen:
            continue
        seen.add(part)
        if isinstance(part, MultiOutputPattern):
            parts.extend(part.outputs)
        elif isinstance(part, pattern_matcher.ListOf):
            parts.append(part.pattern)
        elif isinstance(part, pattern_matcher.RepeatedExpr):
            parts.append(part.inner_pattern)
        elif isinstance(part, pattern_matcher._TargetExpr):
            if part.op == _FUNCTION:
                groups.add(frozenset(part.fns_set))
            parts.extend(getattr(part, "flat_args_kwargs", ((),))[0])
    return groups


_COMPARED: dict[type, Callable] = {
    Eq: operator.eq,
    Ge: operator.ge,
    Gt: operator.gt,
    Le: operator.le,
    Lt: operator.lt,
}
# Older ones ask for it under another name.
_DENSE = "_is_non_overlapping_and_dense_or_false"


@contextmanager
def compared_once() -> Iterator[None]:
    """Sizes that are numbers, compared as numbers; formulas once.

    Inductor asks SymPy, which first looks at what is known of both sides, and at how their kinds compare.
    """
    with ExitStack() as stack:
        for kind in (Eq, _Inequality):
            new = _compared_at_once(kind.__new__)
            stack.enter_context(mock.patch.object(kind, "__new__", new))
        answer = _answered_at_once(SizeVarAllocator.evaluate_expr)
        stack.enter_context(mock.patch.object(SizeVarAllocator, "evaluate_expr", answer))
        stack.enter_context(mock.patch.object(Expr, "is_constant", _told_once(Expr.is_constant)))
        types = _types_once(lowering.get_promoted_dtype)
        stack.enter_context(mock.patch.object(lowering, "get_promoted_dtype", types))
        if hasattr(_prims_common, _DENSE):
            dense = _dense_once(getattr(_prims_common, _DENSE))
            stack.enter_context(mock.patch.object(_prims_common, _DENSE, dense))
        yield


def _compared_at_once(make: Callable) -> Callable:
    known: dict[Any, Any] = {}

    def __new__(cls: Any, left: Any, right: Any, **options: Any) -> Any:
        if options or cls not in _COMPARED or not isinstance(left, (Basic, int)):
            return make(cls, left, right, **options)
        if _is_number(left) and _is_number(right):
            return S.true if _COMPARED[cls](int(left), int(right)) else S.false
        if not isinstance(right, (Basic, int)):
            return make(cls, left, right)
        # Numbers that are equal may be of different kinds.
        key = cls, left, right, type(left), type(right)
        if key not in known:
            known[key] = make(cls, left, right)
        return known[key]

    return __new__


def _is_number(value: Any) -> bool:
    return isinstance(value, Integer) or type(value) is int


def _answered_at_once(ask: Callable) -> Callable:
    """PyTorch looks for guards and writes logs also where the answer is known."""

    def evaluate_expr(self: Any, formula: Any, *args: Any, **settings: Any) -> Any:
        if isinstance(formula, BooleanAtom):
            return formula
        return ask(self, formula, *args, **settings)

    return evaluate_expr


def _told_once(tell: Callable) -> Callable:
    """Whether a formula has one value only: SymPy tries some, and looks for the fractions that they are."""
    known: dict[Any, Any] = {}

    def is_constant(self: Any, *wrt: Any, **flags: Any) -> Any:
        if wrt or flags:
            return tell(self, *wrt, **flags)
        key = type(self), self
        if key not in known:
            known[key] = tell(self)
        return known[key]

    return is_constant


def _dense_once(ask: Callable) -> Callable:
    """Whether a tensor has no gaps: PyTorch makes a class to find it, each time."""
    known: dict[Any, bool] = {}

    def is_dense(sizes: Any, strides: Any) -> bool:
        if not all(type(one) is int for one in (*sizes, *strides)):
            return ask(sizes, strides)
        key = tuple(sizes), tuple(strides)
        if key not in known:
            known[key] = ask(sizes, strides)
        return known[key]

    return is_dense


def _types_once(find: Callable) -> Callable:
    """The type of a result: PyTorch makes tensors to find it, each time."""
    known: dict[Any, Any] = {}

    def get_promoted_dtype(*args: Any, **settings: Any) -> Any:
        key = tuple(map(_kind, args)), tuple(settings.items())
        if None in key[0]:
            return find(*args, **settings)
        if key not in known:
            known[key] = find(*args, **settings)
        return known[key]

    return get_promoted_dtype


def _kind(value: Any) -> Any:
    """Of an argument: all that the type of the result depends on; None where that is not known."""
    if isinstance(value, (bool, int, float)):
        return type(value)
    if hasattr(value, "get_dtype") and hasattr(value, "get_size"):
        return len(value.get_size()), value.get_dtype()
    return None


@contextmanager
def skipping_work() -> Iterator[None]:
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
