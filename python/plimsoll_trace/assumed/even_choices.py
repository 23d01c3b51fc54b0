"""How many rows a choice among several gets, where only the data know: an even share.

A router sends each token to some of its experts, a draw takes one of several classes. Which ones is not
known on the meta device, but among how many is: places from `topk` or `argmax`, drawn numbers, buckets.
They are followed, by their storages, to the masks that are made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch

from .. import small_values
from ..op_facts import is_mutable
from ..scalars import SAME, UNKNOWN, Scalars
from .likely_values import RANGES

_ATEN = torch.ops.aten


# How much of a tensor is not zero, after numbers were written to some places of it.
#
# Programs mark places in zeros or ones (the cells of a grid that hold an object, weights that are pruned) and then
# choose by these marks. Which places they are may not be known, but how many were written is.

_PUTS = {_ATEN.index_put_.default, _ATEN.index_put.default}
_FILLS = {_ATEN.fill_.Scalar, _ATEN.fill_.Tensor, _ATEN.copy_.default}
WRITES = {*_PUTS, *_FILLS}


def part_after(
    func: Any, args: tuple, before: float | None, filled: Any, part_of: Callable[[Any], Any]
) -> float | None:
    """The part that is not zero after a write; None where it is not known.

    `before` is that part so far, or None; then `filled` is the number that the tensor is full of, if it is known.
    `part_of` tells the same part of what is written, and of masks.
    """
    into = args[0]
    if before is None:
        if filled is UNKNOWN:
            return None
        before = 1.0 if filled else 0.0
    written = _written(func, args, part_of)
    if written is None:
        return None
    part, value = written
    if 0 <= part < 1:
        left = max(0.0, before - part) if value is not None and value < 1 else before
        return min(1.0, left + part * (1.0 if value is None else value)) if into.numel() else None
    return None


def _written(
    func: Any, args: tuple, part_of: Callable[[Any], Any]
) -> tuple[float, float | None] | None:
    """How large a part is written to, and how much of that is not zero; None where all of it is."""
    into, whole = args[0], args[0].untyped_storage().nbytes() // args[0].element_size()
    if func in _FILLS:
        return into.numel() / max(1, whole), _not_zero(args[1], part_of)
    if len(args) > 3 and args[3]:
        return None
    places = [one for one in args[1] if one is not None]
    masks = [one for one in places if one.dtype in (torch.bool, torch.uint8)]
    if not masks:
        shape = torch.broadcast_shapes(*(one.shape for one in places))
        beside = prod(n for n, one in zip(into.shape, _all(args[1], into)) if one is None)
        return shape.numel() * beside / max(1, whole), _not_zero(args[2], part_of)
    part = part_of(masks[0])
    if len(places) > 1 or part is None:
        return None
    return part * into.numel() / max(1, whole), _not_zero(args[2], part_of)


def _all(places: Any, into: Any) -> list[Any]:
    """One for each dimension."""
    return [*places, *[None] * (into.dim() - len(places))]


def _not_zero(value: Any, part_of: Callable[[Any], Any]) -> float | None:
    if not isinstance(value, torch.Tensor):
        return None if value else 0.0
    known = value if value.device.type == "cpu" else small_values.likely_value_of(value)
    if known is None:
        return part_of(value)
    part = int(known.count_nonzero()) / max(1, known.numel())
    return None if part == 1 else part


def _along(args: tuple, kwargs: dict, at: int, default: Any) -> range:
    """Places along one dimension of the first argument; of all of it where none is named."""
    dim = args[at] if len(args) > at else kwargs.get("dim", default)
    size = args[0].numel() if dim is None else args[0].shape[dim] if args[0].dim() else 1
    return range(size)


def _drawn_among(among: Callable[[tuple], range]) -> Callable[[tuple, dict], range]:
    return lambda args, kwargs: among(args)


# Which of the results are places, and among how many.
_PLACES: dict[Any, tuple[int, Callable[[tuple, dict], range]]] = {
    _ATEN.topk.default: (1, lambda a, k: _along(a, k, 2, -1)),
    _ATEN.sort.default: (1, lambda a, k: _along(a, k, 1, -1)),
    _ATEN.sort.stable: (1, lambda a, k: _along(a[:1], k, 1, -1)),
    _ATEN.max.dim: (1, lambda a, k: _along(a, k, 1, None)),
    _ATEN.min.dim: (1, lambda a, k: _along(a, k, 1, None)),
    _ATEN.argmax.default: (0, lambda a, k: _along(a, k, 1, None)),
    _ATEN.argmin.default: (0, lambda a, k: _along(a, k, 1, None)),
    _ATEN.multinomial.default: (0, lambda a, k: _along(a[:1], {}, 1, -1)),
    **{op: (0, _drawn_among(among)) for op, among in RANGES.items()},
    _ATEN.bucketize.Tensor: (0, lambda a, k: range(a[1].numel() + 1)),
    _ATEN.arange.default: (0, lambda a, k: range(int(a[0]))),
}
_COMPARE = {_ATEN.eq.Scalar, _ATEN.ne.Scalar, _ATEN.eq.Tensor, _ATEN.ne.Tensor}
_COPIES = SAME | {_ATEN.contiguous.default, _ATEN.repeat.default}
_NOT = {_ATEN.logical_not.default, _ATEN.bitwise_not.default}
_BOTH = {_ATEN.bitwise_and.Tensor, _ATEN.logical_and.default, _ATEN.mul.Tensor}
_EITHER = {_ATEN.bitwise_or.Tensor, _ATEN.logical_or.default}
# One of several is not zero.
_OVER = {_ATEN.any.dim, _ATEN.any.dims, _ATEN.sum.dim_IntList, _ATEN.amax.default}
_SCATTERED = {
    _ATEN.scatter.value,
    _ATEN.scatter_.value,
    _ATEN.scatter.src,
    _ATEN.scatter_.src,
}
_SUM, _BINCOUNT = _ATEN.sum.dim_IntList, _ATEN.bincount.default
_NOT_ZERO = {_ATEN.gt.Scalar, _ATEN.ne.Scalar}
_ABOVE = {_ATEN.gt.Scalar, _ATEN.ge.Scalar}
_SOFTMAX = _ATEN._softmax.default
_TO_COPY = _ATEN._to_copy.default
_INDEX = _ATEN.index.Tensor
_EYES = {_ATEN.eye.default, _ATEN.eye.m}
# All that says something of a result.
_TELLING = {
    *_COMPARE,
    *_COPIES,
    *_NOT,
    *_BOTH,
    *_EITHER,
    *_OVER,
    *_SCATTERED,
    *_NOT_ZERO,
    *_ABOVE,
    _BINCOUNT,
    _ATEN.rsub.Scalar,
}


class EvenChoices:
    def __init__(self) -> None:
        # Storages whose values are spread over some whole numbers, and these.
        self._among: dict[int, range] = {}
        # Storages of which a part is not zero, and how large a part.
        self._shares: dict[int, float] = {}
        # Storages of chances, and among how many.
        self._chances: dict[int, int] = {}
        # Storages of masks as whole numbers.
        self._marks: set[int] = set()

    def spread_over_all(self, tensor: Any) -> None:
        """Before the different values of a tensor are asked for: each that it may hold is there."""
        if not _is_meta(tensor) or not small_values.readable(tensor):
            return
        among = self._among.get(_key(tensor), range(2) if _key(tensor) in self._marks else None)
        if (
            among is None
            or len(among) > tensor.numel()
            or small_values.value_of(tensor) is not None
        ):
            return
        values = torch.arange(tensor.numel(), dtype=tensor.dtype, device="cpu") % len(among)
        small_values.remember(tensor, (values + among.start).view(tensor.shape))

    def share_of(self, mask: Any) -> float | None:
        """The part of a mask that is set if choices are even; None where nothing is known of it."""
        return self._shares.get(_key(mask)) if _is_meta(mask) else None

    def knows(self, storage_key: int) -> bool:
        """Whether anything is known of a storage."""
        return (
            storage_key in self._among
            or storage_key in self._shares
            or storage_key in self._chances
            or storage_key in self._marks
        )

    def _any(self) -> bool:
        return bool(self._among or self._shares or self._chances or self._marks)

    def forget(self, storage_key: int) -> None:
        self._among.pop(storage_key, None)
        self._shares.pop(storage_key, None)
        self._chances.pop(storage_key, None)
        self._marks.discard(storage_key)

    @staticmethod
    def concerns(func: Any) -> bool:
        """Whether an op says something of its result."""
        told = func in _PLACES or func in _TELLING or func in _EYES or func is _SOFTMAX
        return told or func in WRITES or is_mutable(func)

    def notice(self, func: Any, args: tuple, kwargs: dict, result: Any, scalars: Scalars) -> None:
        """For each op that was run and says something; `scalars` knows what a tensor was filled with before."""
        if func is _TO_COPY and args[0].dtype == torch.bool and _is_whole(result):
            self._marks.add(_key(result))
        if func in _PLACES:
            at, among = _PLACES[func]
            results = result if isinstance(result, (tuple, list)) else (result,)
            if _is_meta(results[at]):
                self._spread(results[at], among(args, kwargs))
        elif func in _EYES and _is_meta(result) and result.numel():
            self._shares[_key(result)] = min(result.shape) / result.numel()
        elif func is _SOFTMAX and _is_meta(result) and result.dim() == 2:
            # That of attention has more dimensions, and chooses nothing.
            self._chances[_key(result)] = result.shape[args[1]]
        elif self._tells(func, args, result):
            self._count(func, args, result)
            share = self._share(func, args, scalars)
            if is_mutable(func):
                for written in (args[0], result):
                    if isinstance(written, torch.Tensor):
                        self.forget(_key(written))
            if not _is_meta(result):
                return
            if share is not None and 0 < share <= 1:
                self._shares[_key(result)] = share
            elif func in _COPIES:
                if _key(args[0]) in self._among:
                    self._among[_key(result)] = self._among[_key(args[0])]
                if _key(args[0]) in self._chances:
                    self._chances[_key(result)] = self._chances[_key(args[0])]

    def _tells(self, func: Any, args: tuple, result: Any) -> bool:
        # Inside of `torch.func` a tensor has no storage of its own.
        if not args or _is_wrapped(args[0]) or _is_wrapped(result):
            return False
        return func in WRITES or (self._any() and (func in _TELLING or is_mutable(func)))

    def _count(self, func: Any, args: tuple, result: Any) -> None:
        """How many were chosen of each, by which programs cut tensors into parts."""
        if func not in (_SUM, _BINCOUNT) or not _is_meta(result) or result.is_floating_point():
            return
        key = _key(args[0])
        if func is _SUM and key in self._shares:
            total = round(self._shares[key] * args[0].numel())
        elif func is _BINCOUNT and key in self._among:
            total = args[0].numel()
        else:
            return
        if small_values.readable(result) and not small_values.is_known(result):
            least, more = divmod(total, max(1, result.numel()))
            counts = torch.full((result.numel(),), least, dtype=result.dtype, device="cpu")
            counts[:more] += 1
            small_values.remember(result, counts.view(result.shape))

    def _spread(self, places: Any, among: range) -> None:
        self.forget(_key(places))
        if len(among) > 1:
            self._among[_key(places)] = among

    def _share(self, func: Any, args: tuple, scalars: Scalars) -> float | None:
        if func in _COMPARE:
            found = self._equal(args[0], args[1])
            if found is not None:
                return found if func in (_ATEN.eq.Scalar, _ATEN.eq.Tensor) else 1 - found
        if func in _SCATTERED:
            return self._scattered(args, scalars)
        if func in WRITES:
            into, of = args[0], self.share_of
            known = _is_meta(into)
            return part_after(func, args, of(into), scalars.known(into), of) if known else None
        if func in _ABOVE and _is_meta(args[0]) and _key(args[0]) in self._chances:
            # Chances of one row come to one: a limit above the mean is passed by about one of them.
            among = self._chances[_key(args[0])]
            return 1 / among if isinstance(args[1], (int, float)) and args[1] * among >= 1 else None
        share = self._shares.get(_key(args[0])) if _is_meta(args[0]) else None
        if func in _BOTH:
            parts = [one for one in (share, self.share_of(args[1])) if one is not None]
            return None if not parts else parts[0] * parts[-1] if len(parts) == 2 else parts[0]
        if share is None:
            return None
        if func in _COPIES or (func in _NOT_ZERO and args[1] == 0):
            # What is chosen by where it is not zero is nowhere zero.
            return 1.0 if func is _INDEX and self._is_mask_of(args[1], share) else share
        if func in _NOT or (func is _ATEN.eq.Scalar and args[1] == 0):
            return 1 - share
        if func is _ATEN.eq.Scalar or (func is _ATEN.rsub.Scalar and args[1] == 1):
            # Marks are all alike.
            return share if func is _ATEN.eq.Scalar else 1 - share
        if func in _EITHER:
            other = self.share_of(args[1])
            return None if other is None else min(1.0, share + other)
        return min(1.0, share * _count(args)) if func in _OVER else None

    def _is_mask_of(self, places: Any, share: float) -> bool:
        masks = [one for one in places if one is not None]
        return len(masks) == 1 and masks[0].dtype == torch.bool and self.share_of(masks[0]) == share

    def _equal(self, values: Any, other: Any) -> float | None:
        """The share of values that equal a number, or those of another tensor."""
        among = self._among.get(_key(values)) if _is_meta(values) else None
        if isinstance(other, torch.Tensor):
            others = self._among.get(_key(other)) if _is_meta(other) else None
            return None if among is None or others is None else 1 / max(len(among), len(others))
        return None if among is None else 1 / len(among) if other in among else 0.0

    def _scattered(self, args: tuple, scalars: Scalars) -> float | None:
        """Values at chosen places among zeros."""
        into, _dim, places, value = args[:4]
        if not _is_meta(into) or scalars.known(into) != 0 or _key(places) not in self._among:
            return None
        nothing = isinstance(value, (int, float)) and value == 0
        return None if nothing else places.numel() / max(1, into.numel())


def _count(args: tuple) -> int:
    """How many values come together in one."""
    dims = args[1] if len(args) > 1 and args[1] is not None else range(args[0].dim())
    count = 1
    for dim in (dims,) if isinstance(dims, int) else dims or range(args[0].dim()):
        count *= args[0].shape[dim]
    return count


def _key(tensor: Any) -> int:
    return tensor.untyped_storage()._cdata


def _is_wrapped(value: Any) -> bool:
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return isinstance(value, torch.Tensor) and wrapped(value)


def _is_meta(value: Any) -> bool:
    return type(value) is torch.Tensor and value.is_meta and value.layout is torch.strided


def _is_whole(value: Any) -> bool:
    return _is_meta(value) and not value.is_floating_point() and value.dtype != torch.bool
