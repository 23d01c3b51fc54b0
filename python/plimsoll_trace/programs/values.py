"""Values where a program reads them: what is known of a tensor, else something plausible."""

from __future__ import annotations

import ast
import functools
import math
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch

from .. import small_values
from ..assumed import shares
from ..op_facts import is_mutable
from ..scalars import SAME, UNKNOWN, Scalars
from .loops.rewritten import is_the_programs

_ATEN = torch.ops.aten
# Places in a list: the first is sure to exist.
_PLACES = {
    _ATEN.argmax.default,
    _ATEN.argmin.default,
    _ATEN.multinomial.default,
    _ATEN.nonzero.default,
    _ATEN.argsort.default,
    _ATEN.randint.default,
    _ATEN.randint.low,
}
# Of many words, the first ones often have a meaning of their own, such as the end of a text: one in the middle is
# taken where so many are known to be there.
_AMONG = {_ATEN.argmax.default, _ATEN.argmin.default, _ATEN.multinomial.default}
_MANY = 32
# A value is one among many: a token is hardly ever the one that ends a text.
_IS_ONE = {
    _ATEN.eq.Scalar: False,
    _ATEN.ne.Scalar: True,
}
# A mask in numbers may have so many; fewer are looked at first.
_LARGEST_MASK, _FIRST = 1 << 22, 256
_CAT = _ATEN.cat.default
_NOT = {_ATEN.logical_not.default, _ATEN.bitwise_not.default}
_EITHER = {
    _ATEN.bitwise_or.Tensor,
    _ATEN.bitwise_or_.Tensor,
    _ATEN.logical_or.default,
    _ATEN.logical_or_.default,
}
_BOTH = {
    _ATEN.bitwise_and.Tensor,
    _ATEN.bitwise_and_.Tensor,
    _ATEN.logical_and.default,
    _ATEN.logical_and_.default,
}
_OF_ALL = {_ATEN.all.default, _ATEN.any.default, _ATEN.all.dim, _ATEN.any.dim}
_KEEP_USUAL = {*_EITHER, *_BOTH, *_NOT, *SAME, *_OF_ALL}
# What a mask comes to of which a part is set: how many, whether any, whether all.
_COUNTS = {
    _ATEN.sum.default: lambda expected, size: round(expected),
    _ATEN.any.default: lambda expected, size: expected >= 1,
    _ATEN.all.default: lambda expected, size: expected >= size,
}
# A count is held against these to ask whether there are any.
_MORE_THAN = {_ATEN.gt.Scalar: (0,), _ATEN.ge.Scalar: (1,), _ATEN.ne.Scalar: (0,)}
_ASKS = {_ATEN.any.default, _ATEN.sum.default, *_MORE_THAN}
_READS = {_ATEN._local_scalar_dense.default, _ATEN.is_nonzero.default}
_START, _FACTOR = 2.0, 0.999
# The largest of some values is above all others that are read: programs span a range with the smallest.
_LARGEST = {_ATEN.max.default, _ATEN.amax.default}
_ABOVE = 1.0


# Which way a program goes at a condition that only its data decide.
#
# `if mask.any(): loss = loss + part(x[mask])` is about rows that are taken, and the most is counted: the program goes
# the way that works on them. `if (x < 0).any(): raise ...` is about what should not be. Which of both it is can be read
# in the program.

_MAX_SOURCE_BYTES = 4 * 2**20
_BRANCHES = (ast.If, ast.IfExp, ast.Assert)
_LEAVES = (ast.Raise, ast.Break, ast.Continue)
_ENDS = ("exit", "quit", "abort")


def some_are_taken() -> bool | None:
    """The answer to `mask.any()` at the line that runs now; None if that line is not a condition."""
    branch = _asking_branch(sys._getframe(1))
    return None if branch is None else _works(branch)


def holds() -> bool | None:
    """What a condition is for the program to go on, where it fails otherwise; None where it does not."""
    branch = _asking_branch(sys._getframe(1))
    if isinstance(branch, ast.Assert):
        return not _is_negated(branch)
    if isinstance(branch, ast.If) and any(isinstance(one, ast.Raise) for one in branch.body):
        return _is_negated(branch)
    return None


def _asking_branch(frame: Any) -> Any:
    """The condition at the innermost line of the program that runs now."""
    while frame is not None and not is_the_programs(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else _branches(frame.f_code.co_filename).get(frame.f_lineno)


def _is_negated(branch: Any) -> bool:
    return isinstance(branch.test, ast.UnaryOp) and isinstance(branch.test.op, ast.Not)


@functools.cache
def _branches(path: str) -> dict[int, Any]:
    """The conditions of a file, by the lines on which they are asked; the innermost of several."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(_MAX_SOURCE_BYTES), path)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return {}
    found: dict[int, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, _BRANCHES):
            last = node.test.end_lineno or node.test.lineno
            found.update(dict.fromkeys(range(node.test.lineno, last + 1), node))
    return found


def _works(branch: Any) -> bool:
    """Whether the program goes on with what is chosen if there is any."""
    negated = _is_negated(branch)
    if isinstance(branch, ast.Assert):
        return not negated
    if negated:
        return True
    if isinstance(branch, ast.IfExp):
        return not isinstance(branch.body, ast.Constant)
    return not any(map(_is_left, branch.body))


def _is_left(statement: ast.stmt) -> bool:
    """Whether the program goes no further here, or has nothing to go on with."""
    if isinstance(statement, ast.Return):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return ast.unparse(statement.value.func).rpartition(".")[2] in _ENDS
    return isinstance(statement, _LEAVES)


class PlausibleScalars(Scalars):
    """As a training that goes well reports them: losses fall from one reading to the next.

    Zero would end programs: a count that is divided by, a loss that is as low as it gets.
    """

    def __init__(self, share_of: Callable[[Any], float | None] = lambda _mask: None) -> None:
        """share_of: the part of a mask that is set, where that is known."""
        super().__init__()
        self._share_of = share_of
        self._loss = _START
        # Storages of places, of which one was taken: they are not all that one.
        self._places: set[int] = set()
        # Storages that say whether any of a mask are set, or how many, of which nothing is known.
        self._some: set[int] = set()
        # Storages of the largest of some values.
        self._largest: set[int] = set()
        # Tensors of booleans that are not known: what most of them are.
        self._usual: dict[int, bool] = {}
        # Weak references to storages in host memory, by address: they tell when one is freed.
        self._ends: dict[int, Any] = {}

    def concerns(self, func: Any) -> bool:
        told = (_PLACES, _COUNTS, _ASKS, _IS_ONE, _KEEP_USUAL, _LARGEST, SAME)
        return super().concerns(func) or shares.concerns(func) or any(func in ops for ops in told)

    def notice(self, func, args, result) -> None:
        super().notice(func, args, result)
        shares.follow(func, args, result)
        if func is _CAT and result.is_meta:
            self._join_filled(args[0], result)
        if func in _LARGEST and type(result) is torch.Tensor and result.dim() == 0:
            self._largest.add(_key(result))
            self._forget_at_its_end(result)
        if func in _PLACES:
            self.assume(result, _place(func, args))
            self._places.add(_key(result))
        elif func in _COUNTS and (share := self._share_of(args[0])) is not None:
            size = args[0].numel()
            self.assume(result, _COUNTS[func](size * share, size))
        elif isinstance(result, torch.Tensor) and result.is_meta:
            self._notice_usual(func, args, result)

    def _join_filled(self, parts: Any, result: Any) -> None:
        """Ones for what is there and zeros for what is not, one behind the other: the labels of a score."""
        if not result.dtype.is_floating_point or small_values.readable(result):
            return
        if result.dim() > 1 or result.numel() > _LARGEST_MASK:
            return
        filled = [self._filled(one) for one in parts]
        if all(one is not None for one in filled):
            small_values.remember(result, torch.cat(filled).to(result.dtype))

    def _filled(self, tensor: Any) -> Any:
        """What a tensor holds of which all is one number, or which is known."""
        held = small_values.value_of(tensor)
        if held is not None or not tensor.is_meta:
            return tensor if held is None else held
        value = self.known(tensor)
        if value is UNKNOWN:
            return None
        return torch.full((), value, dtype=tensor.dtype, device="cpu").expand(tensor.shape)

    def _notice_usual(self, func, args, result) -> None:
        if func in _ASKS and self._asks_for_some(func, args):
            self._some.add(_key(result))
        usual = self._usually(func, args)
        if self._places:
            self._notice_place(func, args, result, usual)
        if usual is not None:
            self._usual[_key(result)] = usual
            if func in _OF_ALL:
                self.assume(result, usual)
        elif self._usual and is_mutable(func):
            self._usual.pop(_key(result), None)

    def _notice_place(self, func, args, result, usual: bool | None) -> None:
        if func in SAME and self._is_place(args[0]):
            self._places.add(_key(result))
        elif func in _IS_ONE and usual is not None:
            self._values.pop(_key(result), None)

    def _usually(self, func, args) -> bool | None:
        if func in _IS_ONE:
            unknown = self.known(args[0]) is UNKNOWN or self._is_place(args[0])
            return _IS_ONE[func] if unknown else None
        if not self._usual or func not in _KEEP_USUAL:
            return None
        if func in _EITHER or func in _BOTH:
            found = [self._usual_of(one) for one in args[:2]]
            known = [one for one in found if one is not None]
            return (any(known) if func in _EITHER else all(known)) if known else None
        if func in _NOT:
            usual = self._usual_of(args[0])
            return None if usual is None else not usual
        return self._usual_of(args[0]) if func in SAME or func in _OF_ALL else None

    def _asks_for_some(self, func, args) -> bool:
        """Whether any of a mask are set of which nothing is known."""
        if func is _ATEN.sum.default and args[0].dtype != torch.bool:
            return False
        if func in _MORE_THAN:
            return _key(args[0]) in self._some and args[1] in _MORE_THAN[func]
        return self.known(args[0]) is UNKNOWN and not self._usual_of(args[0])

    def answer(self, func, args) -> Any:
        # Where a program goes on only if there are some, it is taken to.
        asks = self._some and func in _READS and args[0].dtype == torch.bool
        if asks and _key(args[0]) in self._some and (taken := some_are_taken()) is not None:
            return taken
        if func in _READS and self._is_unknown(args[0]) and (expected := holds()) is not None:
            return expected
        return super().answer(func, args)

    def _is_unknown(self, tensor: Any) -> bool:
        """Whether nothing at all is known of a condition."""
        is_condition = tensor.dtype == torch.bool and tensor.is_meta
        return is_condition and self.known(tensor) is UNKNOWN and self._usual_of(tensor) is None

    def _is_place(self, tensor: Any) -> bool:
        return bool(self._places) and _key(tensor) in self._places

    def _usual_of(self, tensor: Any) -> bool | None:
        if not isinstance(tensor, torch.Tensor) or not tensor.is_meta:
            return None
        return self._usual.get(tensor.untyped_storage()._cdata)

    def forget(self, storage_key: int) -> None:
        super().forget(storage_key)
        shares.forget(storage_key)
        self._usual.pop(storage_key, None)
        self._places.discard(storage_key)
        self._some.discard(storage_key)
        self._largest.discard(storage_key)

    def knows(self, storage_key: int) -> bool:
        return (
            storage_key in self._values
            or storage_key in self._usual
            or storage_key in self._places
            or storage_key in self._some
            or storage_key in self._largest
        )

    def _forget_at_its_end(self, tensor: Any) -> None:
        """What is in host memory ends unseen, and what gets its address next would be taken for it."""
        with torch._C.DisableTorchFunction():
            if tensor.is_meta:
                return
        storage = tensor.untyped_storage()
        key = storage._cdata

        def ended(_: Any) -> None:
            del self._ends[key]
            self.forget(key)

        if key not in self._ends:
            self._ends[key] = weakref.ref(storage, ended)

    def assume(self, tensor: Any, value: Any) -> None:
        """Says what all of a tensor is taken for."""
        if isinstance(tensor, torch.Tensor):
            self._forget_at_its_end(tensor)
            self._values[tensor.untyped_storage()._cdata] = value

    def guess(self, tensor: Any) -> Any:
        if tensor.dtype == torch.bool:
            return bool(self._usual_of(tensor))
        if not tensor.dtype.is_floating_point:
            return 1
        self._loss *= _FACTOR
        share = shares.plausible(tensor, self._loss / _START)
        above = _ABOVE if _key(tensor) in self._largest else 0
        return self._loss + above if share is None else share


def _key(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _place(func: Any, args: tuple) -> int:
    """One of the places that an op may find."""
    if func not in _AMONG:
        return 0
    dim = -1 if func is _ATEN.multinomial.default else args[1] if len(args) > 1 else None
    shape = args[0].shape
    many = args[0].numel() if dim is None else shape[dim] if shape else 1
    return many // 2 if many > _MANY else 0


def copy_known_value(source: Any, moved: Any, may_be_mask: bool = True) -> Any:
    """A copy of a small tensor, or of a mask, holds what it held; of others it is known whether all lies in 0 to 1."""
    kept = small_values.may_be_copied(moved)
    if kept and small_values.is_known(moved):
        return moved
    with torch._C.DisableTorchFunction():
        if source.layout is not torch.strided:
            # The places and the values of a sparse one are copied on their own.
            return moved
        on_host = source.device.type == "cpu"
        kept = kept or (on_host and may_be_mask and _is_mask(source.detach(), moved))
        if not kept:
            if on_host:
                shares.look_at(source.detach(), moved)
            return moved
    known = source.detach() if on_host else small_values.value_of(source)
    if known is not None:
        with torch._C.DisableTorchFunction():
            # A program's own kind of tensor may have another `to`.
            plain = known.as_subclass(torch.Tensor)
        small_values.remember(moved, plain.to(moved.dtype).clone())
    return moved


def _is_mask(source: Any, moved: Any) -> bool:
    """Whether numbers are zeros and ones, such as which samples of a batch belong together: rows are chosen by them."""
    dense = source.dtype.is_floating_point and source.numel() > 0 and source.is_contiguous()
    if not dense or source.numel() > _LARGEST_MASK or not small_values.may_be_computed(moved):
        return False
    values = source.view(-1)
    # Nearly all others are told by the first ones; weights may be all zeros, or all ones.
    known = all(bool(((one == 0) | (one == 1)).all()) for one in (values[:_FIRST], values))
    return known and bool(values.any()) and not bool(values.all())


def plausible(tensor: Any, observer: Any, dtype: Any = None, shape: Any = None) -> Any:
    """A real tensor in host memory in place of one that has no values, or of a part of it with this shape."""
    dtype = dtype or tensor.dtype
    known = small_values.value_of(tensor)
    if known is not None:
        return known.to(dtype).clone()
    shape = tensor.shape if shape is None else shape
    value = observer.scalars.known(tensor)
    if value is UNKNOWN:
        if not dtype.is_floating_point:
            # Zero is the one place that every list has; as a label it is the first.
            return torch.zeros(shape, dtype=dtype, device="cpu")
        value = observer.scalars.guess(tensor)
        # Not all alike: a spread of nothing would be divided by.
        count = math.prod(shape)
        spread = torch.linspace(0.9, 1.1, max(count, 1), device="cpu")[:count].reshape(shape)
        if shares.are_of_one(tensor) and count > 0:
            return (spread / spread.sum(-1, keepdim=True)).to(dtype)
        return (spread * value).to(dtype)
    return torch.full(shape, value, dtype=dtype, device="cpu")
