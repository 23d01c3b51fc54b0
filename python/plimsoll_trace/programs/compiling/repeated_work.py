"""Work that PyTorch's compiler does again and again, done once: results without memory, and formulas."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from types import ModuleType
from typing import Any, Callable, NamedTuple
from unittest import mock

import sympy
import torch
import torch._subclasses.fake_tensor as fakes
from sympy import Add, Basic, Expr, Integer, Mul, S, Symbol, Wild
from sympy.functions.elementary.miscellaneous import MinMaxBase
from torch._inductor import compile_fx, sizevars, utils
from torch._inductor.sizevars import SizeVarAllocator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree as pytree
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

# Results of operations on tensors without memory, which PyTorch works out while it captures and lowers a graph.
#
# Layers of a model are alike, so most operations are asked for again and again with the same sizes. PyTorch
# remembers them as well, but takes longer to find one than many an operation takes.

_KNOWN = "_plimsoll_results"
_SEQUENCES = (tuple, list, torch.fx.immutable_collections.immutable_list, torch.Size)
_PLAIN = (
    *(int, float, bool, str, type(None)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
_PROXY = torch._C._TorchDispatchModeKey.PROXY
# Older ones remember in another form.
_NAMES = ("_CacheKeyState", "_DispatchCacheValidEntry")
_NAMESPACES = ("aten", "prims")
# What values decide, and what changes the form of an argument.
_ASKS = {
    torch.Tag.data_dependent_output,
    torch.Tag.dynamic_output_shape,
    torch.Tag.inplace_view,
}
# Stands where PyTorch has to be asked each time.
_ASK = object()


class _Unknown(Exception):
    """An argument that is more than its form."""


class _Result(NamedTuple):
    """Which argument it is, or is a view of; neither for new memory."""

    given: int | None
    viewed: int | None
    facts: Any


@contextmanager
def results_once() -> Iterator[None]:
    if not all(hasattr(fakes, name) for name in _NAMES):
        yield
        return
    quick = _remembered(FakeTensorMode._cached_dispatch_impl)
    with (
        mock.patch.object(FakeTensorMode, "_cached_dispatch_impl", quick),
        mock.patch.object(compile_fx, "FakeTensorProp", _Values),
    ):
        yield


class _Values(FakeTensorProp):
    """The values of a whole graph, which are worked out before it is lowered: without the dispatcher where known."""

    def run_node(self, n: Any) -> Any:
        if n.op != "call_function" or not _depends_on_forms(n.target, self._mode):
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        try:
            # Of a node: PyTorch takes some operations apart before it asks for their results.
            key = n.op, _key(self._mode, n.target, args, kwargs)
        except _Unknown:
            return super().run_node(n)
        known = _known(self._mode)
        if key in known:
            n.meta["val"] = _made(self._mode, known[key], args)
            return n.meta["val"]
        result = super().run_node(n)
        seen = _seen(self._mode, result, args)
        if seen is not None:
            known[key] = seen
        return result


def _remembered(ask: Callable) -> Callable:
    def _cached_dispatch_impl(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if self.shape_env is not None or self.in_kernel_invocation:
            return ask(self, func, types, args, kwargs)
        try:
            key = _key(self, func, args, kwargs)
        except _Unknown:
            return ask(self, func, types, args, kwargs)
        known = _known(self)
        found = known.get(key)
        if found is None:
            result = ask(self, func, types, args, kwargs)
            known[key] = _reported(self, func, args, kwargs)
            return result
        if found is _ASK:
            return ask(self, func, types, args, kwargs)
        results, several = found
        made = [_made(self, result, args) for result in results]
        return tuple(made) if several else made[0]

    return _cached_dispatch_impl


def _known(mode: Any) -> dict[Any, Any]:
    """What is known of a capture's operations: it goes with its mode."""
    return mode.__dict__.setdefault(_KNOWN, {})


def _key(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """All that PyTorch goes by, and never less."""
    return (
        func,
        torch.get_default_dtype(),
        torch._C._get_default_device(),
        torch.is_inference_mode_enabled(),
        torch._C._get_dispatch_mode(_PROXY) is None,
        *(_form(mode, value) for value in args),
        *((name, _form(mode, value)) for name, value in kwargs.items()),
    )


def _form(mode: Any, value: Any) -> Any:
    kind = type(value)
    if kind is FakeTensor:
        if (
            value.fake_mode is not mode
            or value.constant is not None
            or value.layout is not torch.strided
        ):
            raise _Unknown
        return (
            *(value.shape, value.stride(), value.storage_offset(), value.dtype, value.fake_device),
            *(value.requires_grad, value.is_conj(), value.is_neg(), value.is_inference()),
            value.untyped_storage().nbytes(),
        )
    if kind in _PLAIN:
        return kind, value
    if kind in _SEQUENCES:
        return kind, *(_form(mode, one) for one in value)
    raise _Unknown


def _reported(mode: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """What PyTorch itself remembers: it knows which results depend on nothing else."""
    try:
        key = mode._cache_key(fakes._CacheKeyState(None), func, args, kwargs)
    except Exception:
        return _ASK
    entry = FakeTensorMode.cache.get(key)
    if not isinstance(entry, fakes._DispatchCacheValidEntry):
        return _ASK
    results = []
    for one in entry.output_infos:
        facts = one.metadata
        if one.inplace_idx is None and (facts is None or facts.is_conj or facts.is_neg):
            return _ASK
        if facts is not None and facts.layout is not torch.strided:
            return _ASK
        results.append(_Result(one.inplace_idx, one.view_idx, facts))
    return results, entry.is_output_tuple


def _depends_on_forms(target: Any, mode: Any) -> bool:
    return (
        isinstance(target, torch._ops.OpOverload)
        and mode.shape_env is None
        and target.namespace in _NAMESPACES
        and not target._schema.is_mutable
        and _ASKS.isdisjoint(target.tags)
    )


def _seen(mode: Any, result: Any, args: Any) -> _Result | None:
    """None for results that cannot be made from this alone."""
    if type(result) is not FakeTensor or result.fake_mode is not mode:
        return None
    if result.constant is not None or result.is_conj() or result.is_neg():
        return None
    if result.layout is not torch.strided:
        return None
    facts = fakes.extract_tensor_metadata(result)
    given = [place for place, one in enumerate(args) if one is result]
    if given:
        return _Result(given[0], None, facts)
    own = _storage(result)
    tensors = [one for one in pytree.arg_tree_leaves(*args) if isinstance(one, torch.Tensor)]
    if not any(_storage(one) == own for one in tensors):
        return _Result(None, None, facts)
    viewed = [place for place, one in enumerate(args) if one is tensors[0]]
    return _Result(None, viewed[0], facts) if len(tensors) == 1 and viewed else None


def _storage(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _made(mode: Any, result: _Result, args: Any) -> Any:
    if result.given is not None:
        return args[result.given]
    facts = result.facts
    # Past the dispatcher, which takes ten times as long for it.
    with torch._C._DisableTorchDispatch():
        plain = torch.empty_strided(
            facts.shape,
            facts.stride,
            dtype=facts.dtype,
            device="meta",
            requires_grad=facts.requires_grad,
        )
        if result.viewed is not None:
            storage = args[result.viewed].untyped_storage()
            plain.set_(storage, facts.storage_offset, facts.shape, facts.stride)
        return FakeTensor(mode, plain, facts.device)


# Formulas of places in memory, which Inductor works out with SymPy: the same ones again and again.
#
# Each is worked out once while a function is captured. What is asked depends on nothing but the formula.

_REPLACE = "sympy_subs"
_UNITS = ("sympy.physics", "sympy.physics.units")


# Parts of formulas that Inductor looks for: divisions with a remainder, and multiples of them.
#
# SymPy solves for the unknown parts of such a pattern. In a number times a division they can be read off.


def quickly_matched(solve: Callable) -> Callable:
    """In place of `Basic.match`."""

    def match(self: Any, pattern: Any, old: bool = False) -> Any:
        if old or not isinstance(pattern, Expr):
            return solve(self, pattern, old=old)
        # Without unknown parts there is nothing to solve.
        if not pattern.has(Wild):
            return {} if self == pattern else None
        if (terms := _excluded_term(pattern)) is not None:
            variable, rest = terms
            return rest.matches(self - variable)
        wanted, found = _parts(pattern), _parts(self)
        if wanted is None or not all(map(_is_simple, wanted)):
            return solve(self, pattern)
        if found is not None:
            return _compared(found, wanted)
        return solve(self, pattern) if self.has(ModularIndexing) else None

    return match


def _excluded_term(pattern: Any) -> tuple[Any, Any] | None:
    """Of a sum of a variable and what does not depend on it: both."""
    if type(pattern) is not Add or len(pattern.args) != 2:
        return None
    variable, rest = pattern.args
    if type(variable) is Wild:
        variable, rest = rest, variable
    known = isinstance(variable, Symbol) and type(variable) is not Wild and type(rest) is Wild
    return (variable, rest) if known and rest.exclude == (variable,) else None


def _parts(formula: Any) -> tuple[Any, ...] | None:
    """Of a factor times a division: the factor, what is divided, by what, and what the remainder is taken of."""
    if type(formula) is ModularIndexing:
        return (S.One, *formula.args)
    if type(formula) is not Mul or len(formula.args) != 2:
        return None
    first, second = formula.args
    if type(first) is ModularIndexing:
        first, second = second, first
    known = isinstance(first, Integer) or type(first) is Wild
    return (first, *second.args) if known and type(second) is ModularIndexing else None


def _is_simple(part: Any) -> bool:
    return type(part) is Wild or not part.has(Wild)


def _compared(parts: tuple[Any, ...], wanted: tuple[Any, ...]) -> dict[Any, Any] | None:
    found: dict[Any, Any] = {}
    for part, pattern in zip(parts, wanted):
        if type(pattern) is Wild:
            if pattern.matches(part) is None or found.setdefault(pattern, part) != part:
                return None
        elif part != pattern:
            return None
    return found


@contextmanager
def formulas_once() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(MinMaxBase, "__new__", _made_once()))
        stack.enter_context(mock.patch.object(SizeVarAllocator, "simplify", _expanded_once()))
        stack.enter_context(mock.patch.object(Basic, "match", quickly_matched(Basic.match)))
        ranges = "_simplify_with_ranges"
        if hasattr(SizeVarAllocator, ranges):
            quick = _without_divisions(getattr(SizeVarAllocator, ranges))
            stack.enter_context(mock.patch.object(SizeVarAllocator, ranges, quick))
        # PyTorch keeps the last 256 of these.
        joined = getattr(getattr(sizevars, "_join_dimensions_cached", None), "__wrapped__", None)
        if joined is not None:
            every = lru_cache(maxsize=None)(joined)
            stack.enter_context(mock.patch.object(sizevars, "_join_dimensions_cached", every))
        replace, replaced = utils.sympy_subs, _replaced_once()
        for module in list(sys.modules.values()):
            # Each module of Inductor has it under its own name.
            if vars(module).get(_REPLACE) is replace:
                stack.enter_context(mock.patch.object(module, _REPLACE, replaced))
        stack.enter_context(_without_units())
        yield


@contextmanager
def _without_units() -> Iterator[None]:
    """SymPy asks of each formula that it makes simpler whether it has metres or seconds in it.

    To load all units of physics for that takes half a second.
    """
    missing = [name for name in _UNITS if name not in sys.modules]
    units: Any = ModuleType(_UNITS[-1])
    units.Quantity = type("Quantity", (Basic,), {})
    sys.modules.update(dict.fromkeys(missing, units))
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


def _made_once() -> Callable:
    """A minimum or a maximum: SymPy compares each part with each other one."""
    make = MinMaxBase.__new__
    known: dict[Any, Any] = {}

    def __new__(cls: Any, *args: Any, **settings: Any) -> Any:
        if settings:
            return make(cls, *args, **settings)
        # Numbers that are equal may be of different kinds.
        key = cls, args, tuple(map(type, args))
        if key not in known:
            known[key] = make(cls, *args)
        return known[key]

    return __new__


def _replaced_once() -> Callable:
    """The variables of a formula, replaced by others: layers that are alike ask for the same."""
    replace = utils.sympy_subs
    known: dict[Any, Any] = {}

    def sympy_subs(formula: Any, by: dict[Any, Any]) -> Any:
        # Numbers that are equal may be of different kinds.
        key = formula, type(formula), *by.items(), *map(type, by.values())
        if key not in known:
            known[key] = replace(formula, by)
        return known[key]

    return sympy_subs


def _expanded_once() -> Callable:
    known: dict[Any, Any] = {}

    def simplify(self: Any, formula: Any) -> Any:
        key = type(formula), formula
        if key not in known:
            known[key] = sympy.expand(formula)
        return known[key].xreplace(self.replacements)

    return simplify


def _without_divisions(work_out: Callable) -> Callable:
    """How large its parts may be matters for divisions only."""

    def _simplify_with_ranges(self: Any, formula: Any, ranges: Any) -> Any:
        simple = sizevars.join_dimensions(self.simplify(formula))
        if simple.has(ModularIndexing, FloorDiv):
            return work_out(self, formula, ranges)
        return simple

    return _simplify_with_ranges
