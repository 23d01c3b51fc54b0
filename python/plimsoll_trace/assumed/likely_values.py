"""Values that are likely where a model would compute them, for what the data choose afterwards.

A detector moves its anchors by what it has learned, sorts them by scores, drops those that overlap and holds
the rest against the boxes of a sample. Anchors and boxes are known. What the model adds is not: a model that was
just initialised moves them by about nothing, and its scores are in no order. With that for an answer the program
chooses about as many rows as in a real run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from math import sqrt
from typing import Any

import torch

from .. import small_values
from ..known_values.computing import compute
from ..known_values.later import Computation, Later
from ..scalars import SAME

# Values that follow from drawn numbers one by one, as which words of a text are hidden.
#
# Of many draws with the same chance about as many hit as is likely: the interval need not begin where none are taken,
# nor reach up to all. Where one number decides for many places, as whether a whole sample is left out, fewer draws
# count, and the spread is larger.

_ATEN = torch.ops.aten
MARK = "_plimsoll_draws"
# Of the standard deviation: the most of some hundred steps lies within these.
_DEVIATIONS = 4
# Each value of their results follows from one value of each argument.
ONE_BY_ONE = {
    _ATEN.lt.Scalar,
    _ATEN.lt.Tensor,
    _ATEN.le.Scalar,
    _ATEN.le.Tensor,
    _ATEN.gt.Scalar,
    _ATEN.gt.Tensor,
    _ATEN.ge.Scalar,
    _ATEN.ge.Tensor,
    _ATEN.eq.Scalar,
    _ATEN.ne.Scalar,
    _ATEN.bitwise_and.Tensor,
    _ATEN.bitwise_and_.Tensor,
    _ATEN.logical_and.default,
    _ATEN.bitwise_or.Tensor,
    _ATEN.bitwise_or_.Tensor,
    _ATEN.logical_or.default,
    _ATEN.bitwise_not.default,
    _ATEN.logical_not.default,
    _ATEN.masked_fill.Scalar,
    _ATEN.masked_fill_.Scalar,
    # Rates that are drawn as well, and what is made of them.
    _ATEN.add.Tensor,
    _ATEN.sub.Tensor,
    _ATEN.rsub.Scalar,
    _ATEN.mul.Tensor,
    _ATEN.div.Tensor,
    _ATEN.pow.Tensor_Scalar,
    _ATEN.sqrt.default,
    _ATEN.sin.default,
    _ATEN.cos.default,
    _ATEN.exp.default,
    _ATEN.log.default,
    _ATEN.sigmoid.default,
    _ATEN.clamp.default,
    _ATEN.clamp_min.default,
    _ATEN.clamp_max.default,
    _ATEN.view.default,
    _ATEN._unsafe_view.default,
    _ATEN.reshape.default,
    _ATEN.expand.default,
    _ATEN.slice.Tensor,
    _ATEN.select.int,
    _ATEN.unsqueeze.default,
    _ATEN.squeeze.dim,
    _ATEN.transpose.int,
    _ATEN.t.default,
    _ATEN.permute.default,
    _ATEN.clone.default,
    _ATEN.detach.default,
    _ATEN._to_copy.default,
}


def mark(drawn: Any) -> None:
    """For numbers that the card has drawn: one for each place, of which few are known as if they were sure."""
    setattr(drawn, MARK, drawn.numel())


def also(rule: Callable | None) -> Callable:
    """A rule of likely values that follows draws, too."""

    def both(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
        if rule is not None:
            rule(func, args, kwargs, result)
        draws = [getattr(one, MARK, None) for one in args]
        if any(draws):
            others = any(_is_unsure(one) for one, count in zip(args, draws) if not count)
            least = 0 if others else min(count for count in draws if count)
            setattr(result, MARK, least)

    return both


def spread(mask: Any, count: int) -> float | None:
    """By which part of `count` a mask may choose less or more; None where something else than draws decides."""
    draws = getattr(mask, MARK, 0) if _is_unsure(mask) else 0
    if not draws or not count:
        return None
    places_of_one = max(1.0, mask.numel() / draws)
    return min(1.0, _DEVIATIONS * sqrt(places_of_one / count))


def _is_unsure(value: Any) -> bool:
    return small_values.is_likely(value) and not small_values.is_known(value)


# An order for what is chosen where only the data know: the same each time, for steps repeat.
#
# The program's own random numbers stay as they are.

try:
    import numpy
except ImportError:
    numpy = None

# Where fewer than one of so many are taken, the others are not drawn.
_FEW = 16


@functools.lru_cache(maxsize=64)
def shuffled(count: int) -> Any:
    return torch.randperm(count, generator=torch.Generator().manual_seed(count), device="cpu")


def first_shuffled(count: int, taken: int) -> Any:
    """The first of them. PyTorch draws one place after another, so that those behind need not be drawn."""
    if numpy is None or taken * _FEW > count:
        return shuffled(count)[:taken]
    return _drawn_of_shuffling(count, taken)


@functools.lru_cache(maxsize=64)
def _drawn_of_shuffling(count: int, taken: int) -> Any:
    # PyTorch's generator on the host and this one are the same.
    numbers = numpy.random.RandomState(count).randint(0, 1 << 32, taken, numpy.uint32)
    # What stands at a place that was exchanged; at all others stands their own number.
    moved: dict[int, int] = {}
    found = []
    for place, number in enumerate(numbers.tolist()):
        other = place + number % (count - place)
        found.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return torch.tensor(found, dtype=torch.int64, device="cpu")


class Shuffled(Later):
    """A draw of all places, of which a program takes the first ones."""

    def __init__(self, count: int, dtype: Any) -> None:
        def run(_args: list, _kwargs: dict) -> list[Any]:
            return [shuffled(count).to(dtype)]

        super().__init__(Computation(run, [], {}, 1), 0, torch.Size([count]))
        self._dtype = dtype

    def first(self, taken: int) -> Any:
        return first_shuffled(self.shape[0], taken).to(self._dtype)


# Fewer choices are classes, experts or tokens of a beam: `even_choices`.
_FEW_PLACES = 256
_MAX_PLACES = 1 << 21
# Coordinates stand by one, two or four.
_COORDINATES = 4
# What a model computes, before anything is made of it.
_NOTHING = 0.0
_TYPICAL = "_plimsoll_typical"
_OF_KNOWN = "_plimsoll_of_known"
MARKS = (_TYPICAL, _OF_KNOWN)
# Draws of whole numbers, and among which.
RANGES: dict[Any, Callable[[tuple], range]] = {
    _ATEN.randint.default: lambda a: range(a[0]),
    _ATEN.randint.low: lambda a: range(a[0], a[1]),
    _ATEN.randint_like.default: lambda a: range(a[1]),
    _ATEN.randint_like.low_dtype: lambda a: range(a[1], a[2]),
}


# Which boxes overlap no better one, without comparing each with all others.
#
# Two boxes that have more than a share in common begin near each other: nearer than the rest of that share of the one
# that begins first. Sorted by where they begin, a box is compared only with those that follow so near. All is computed
# as torchvision's `nms` does, in the same types, so that the same boxes are kept.

# Fewer boxes than this are compared in no time.
_MANY = 512
# Boxes with less than this in common need not be near each other.
_LEAST_SHARE = 0.3
# Where more pairs than this part of all are near, many boxes go early, and `nms` itself is as quick.
_FEW_PAIRS = 1 / 14
# For what is lost by rounding.
_MARGIN = 1.001
# PyTorch's own: it is replaced while a trace runs.
_FROM_NUMPY = torch.from_numpy
_HAS_NUMPY = find_spec("numpy") is not None


def kept_by_overlaps(nms: Any, boxes: Any, scores: Any, limit: float) -> Any:
    """The places of boxes of which no better one has more than this share in common, the best first."""
    found = (
        _kept_by_overlaps(boxes, scores, limit) if _may_be_sorted(boxes, scores, limit) else None
    )
    return nms(boxes, scores, limit) if found is None else found


def _may_be_sorted(boxes: Any, scores: Any, limit: float) -> bool:
    if not _HAS_NUMPY or len(boxes) < _MANY or not _LEAST_SHARE <= limit < 1:
        return False
    single = boxes.dtype == scores.dtype == torch.float32
    return single and bool(boxes.isfinite().all() and (boxes[:, 2:] >= boxes[:, :2]).all())


def _kept_by_overlaps(boxes: Any, scores: Any, limit: float) -> Any:
    import numpy as np

    order = scores.sort(stable=True, descending=True).indices
    by_rank = boxes[order].numpy()
    from_left = by_rank[:, 0].argsort(kind="stable")
    left, top, right, bottom = np.ascontiguousarray(by_rank[from_left].T)
    count = len(left)
    own = np.arange(count)
    near = left + (right - left) * np.float32((1 - limit) * _MARGIN)
    following = np.searchsorted(left, near, side="right") - own - 1
    pairs = int(following.sum())
    if pairs > _FEW_PAIRS * count * count:
        return None
    first = np.repeat(own, following)
    begins = np.cumsum(following) - following
    second = np.arange(pairs) - np.repeat(begins - own - 1, following)
    # In other rows most lie too far apart, as they would from left to right.
    far = (bottom - top) * np.float32((1 - limit) * _MARGIN)
    apart = np.abs(top[first] - top[second])
    close = apart <= np.maximum(far[first], far[second])
    first, second = first[close], second[close]
    zero = np.float32(0)
    width = np.maximum(zero, np.minimum(right[first], right[second]) - left[second])
    height = np.minimum(bottom[first], bottom[second]) - np.maximum(top[first], top[second])
    common = width * np.maximum(zero, height)
    areas = (right - left) * (bottom - top)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = common / (areas[first] + areas[second] - common)
    much = share.astype(np.float64) > limit
    return order[_greedy(from_left[first[much]], from_left[second[much]], count)]


def _greedy(one: Any, other: Any, count: int) -> Any:
    """The ranks that stay, where of two that overlap the worse one goes, unless the better one went before."""
    import numpy as np

    better, worse = np.minimum(one, other), np.maximum(one, other)
    in_order = better.argsort(kind="stable")
    gone = bytearray(count)
    for rank, follower in zip(better[in_order].tolist(), worse[in_order].tolist()):
        if not gone[rank]:
            gone[follower] = 1
    stay = np.frombuffer(gone, np.uint8) == 0
    return _FROM_NUMPY(stay.nonzero()[0])


def size_of(tensor: Any) -> float | int | None:
    """One of many likely values, where a program reads it, as the width of a box that it found.

    A value that stands alone is a loss or a score: those fall from one reading to the next.
    """
    value = small_values.likely_value_of(tensor)
    if value is None or value.dtype == torch.bool or not value.isfinite().all():
        return None
    one_of_many = tensor.untyped_storage().nbytes() > tensor.element_size()
    # Zero is what a program divides by.
    return value.item() or None if one_of_many else None


def kept_boxes(nms: Any, boxes: Any, scores: Any, limit: float) -> Any:
    """The places of the boxes that overlap no better one, or None where nothing is known of them."""
    around = small_values.likely_value_of(boxes)
    if around is None or not len(around):
        return None
    known = small_values.likely_value_of(scores)
    order = shuffled(len(around)).to(around.dtype) if known is None else known.to(around.dtype)
    return _kept(nms, around, order, limit)


_made_before: dict[tuple, float] = {}
_MAX_MADE = 4096
_kept_before: dict[tuple, Any] = {}
_MAX_KEPT = 64


def _kept(nms: Any, boxes: Any, order: Any, limit: float) -> Any:
    """Comparing thousands of boxes takes long, and steps repeat."""
    key = (hash(boxes.numpy().tobytes()), hash(order.numpy().tobytes()), len(boxes), limit)
    if key not in _kept_before:
        if len(_kept_before) >= _MAX_KEPT:
            _kept_before.pop(next(iter(_kept_before)))
        _kept_before[key] = _kept_of_groups(nms, boxes, order, limit)
    return _kept_before[key]


def _kept_of_groups(nms: Any, boxes: Any, order: Any, limit: float) -> Any:
    """Boxes of other classes or levels are moved far apart, so that they need not be compared."""
    from_left = boxes[:, 0].argsort()
    reached = boxes[from_left, 2].cummax(0).values
    gaps = (boxes[from_left[1:], 0] > reached[:-1]).nonzero().flatten() + 1
    groups = from_left.tensor_split(gaps)
    kept = torch.cat(
        [group[kept_by_overlaps(nms, boxes[group], order[group], limit)] for group in groups]
    )
    return kept[order[kept].argsort(descending=True)]


def _permutation(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    if _is_unknown(result) and result.numel() <= _MAX_PLACES:
        small_values.remember(result, Shuffled(result.numel(), result.dtype), sure=False)


def _drawn(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """Whole numbers out of a range, by which a program sorts its rows into groups."""
    if not _is_unknown(result) or result.numel() > _MAX_PLACES:
        return
    among = RANGES[func](args)
    small_values.remember(
        result, _numbers(among, result.numel()).to(result.dtype).view(result.shape), sure=False
    )


def _drawn_parts(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """Numbers from 0 to 1, of which a program takes those below a rate: words to hide, patches, connections."""
    if _is_unknown(result) and result.numel() <= _MAX_PLACES:
        value = _parts(result.numel()).to(result.dtype).view(result.shape)
        small_values.remember(result, value, sure=False)
    if isinstance(result, torch.Tensor) and result.is_meta:
        mark(result)


@functools.lru_cache(maxsize=64)
def _parts(count: int) -> Any:
    return torch.rand(count, generator=torch.Generator().manual_seed(count), device="cpu")


@functools.lru_cache(maxsize=64)
def _numbers(among: range, count: int) -> Any:
    chance = torch.Generator().manual_seed(count)
    return torch.randint(among.start, among.stop, (count,), generator=chance, device="cpu")


def _places(at: int) -> Callable:
    """In any order: the first ones are the largest."""

    def places(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
        places, source = result[1], args[0]
        if not _is_unknown(places) or not source.dim() or places.numel() > _MAX_PLACES:
            return
        dim = kwargs.get("dim", args[at] if len(args) > at else -1) % source.dim()
        count, taken = source.shape[dim], places.shape[dim]
        if taken < count < _FEW_PLACES:
            return
        order = first_shuffled(count, taken)
        behind = [1] * (source.dim() - dim - 1)
        value = order.reshape(-1, *behind).expand(places.shape)
        small_values.remember(places, value, sure=False)

    return places


def _typical(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """What is made of the model's result alone, as a width out of its logarithm: one number for all."""
    source = args[0]
    if result.requires_grad or not _is_unknown(result) or not _is_computed(source):
        return
    made = _made_of(func, getattr(source, _TYPICAL, _NOTHING), args[1:], kwargs)
    if made != _NOTHING:
        setattr(result, _TYPICAL, made)


def _made_of(func: Any, number: float, others: tuple, kwargs: dict) -> float:
    """Steps repeat, and so do their ops."""
    key = (id(func), number, others, *kwargs.items())
    plain = all(one is None or type(one) in (int, float) for one in (*others, *kwargs.values()))
    if plain and key in _made_before:
        return _made_before[key]
    made = func(torch.tensor(number, device="cpu"), *others, **kwargs).item()
    if plain and len(_made_before) < _MAX_MADE:
        _made_before[key] = made
    return made


def _chances(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """Of the classes of each row; those of attention have more dimensions."""
    if result.dim() == 2 and result.numel() and not result.requires_grad:
        setattr(result, _TYPICAL, 1 / result.shape[args[1]])


def _same(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    typical = getattr(args[0], _TYPICAL, None)
    if typical is not None:
        for one in result if isinstance(result, (tuple, list)) else (result,):
            setattr(one, _TYPICAL, typical)


def _chosen_of(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """Known numbers at places that a model chooses, as the graph of each node that it keeps."""
    _same(func, args, kwargs, result)
    numbers = args[0]
    if numbers.dtype.is_floating_point or numbers.dtype == torch.bool:
        return
    if small_values.is_likely(result) and _are_of_known(numbers):
        setattr(result, _OF_KNOWN, True)


def _put(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """Such numbers at other places of a tensor, as the groups of nodes that are few then."""
    if getattr(args[3], _OF_KNOWN, False):
        setattr(args[0], _OF_KNOWN, True)


def _largest(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """Of what is chosen, something is of the last group as well: as many rows has what is made for each."""
    if not _are_of_known(args[0]) or small_values.is_known(result):
        return
    value = small_values.likely_value_of(result)
    if value is not None:
        small_values.remember(result, value)


def _are_of_known(numbers: Any) -> bool:
    return small_values.is_known(numbers) or getattr(numbers, _OF_KNOWN, False)


def _passes(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """A limit that typical scores pass keeps all. How many pass a higher one is not known."""
    typical = getattr(args[0], _TYPICAL, None)
    if typical is None or not isinstance(args[1], (int, float)) or not _is_unknown(result):
        return
    passes = bool(func(torch.tensor(typical, device="cpu"), args[1]))
    if passes and small_values.may_be_computed(result):
        value = torch.ones((), dtype=torch.bool, device="cpu").expand(result.shape)
        small_values.remember(result, value, sure=False)


def _blend(func: Any, args: tuple, kwargs: dict, result: Any) -> None:
    """A known value beside one that the model makes, as an anchor that is moved."""
    first, second = args[:2]
    if not isinstance(second, torch.Tensor):
        _typical(func, args, kwargs, result)
        return
    if result.requires_grad or not _is_unknown(result):
        return
    held = [small_values.held_by(one) for one in (first, second)]
    missing = [one for one, value in zip((first, second), held) if value is None]
    if (
        len(missing) != 1
        or not _is_computed(missing[0])
        or not small_values.may_be_computed(result)
    ):
        return
    if func in _DIVIDES and missing[0] is second:
        return
    known = second if missing[0] is first else first
    spread = result.shape[-1] <= _COORDINATES < known.numel() if result.dim() else False
    if known.numel() != result.numel() and not spread:
        return
    typical = getattr(missing[0], _TYPICAL, _NOTHING)
    number = torch.tensor(typical, dtype=missing[0].dtype, device="cpu")
    made = number.expand(missing[0].shape)
    both = [made if one is None else one for one in held]
    (value,) = compute(func, [*both, *args[2:]], kwargs, (result,))
    small_values.remember(result, value, sure=False)


def _is_computed(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.is_meta:
        return False
    return value.dtype.is_floating_point and not value.requires_grad


def _is_unknown(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.is_meta:
        return False
    return value.layout is torch.strided and not small_values.is_likely(value)


_PARTS = {_ATEN.split.Tensor, _ATEN.split_with_sizes.default, _ATEN.unbind.int}
_DIVIDES = {_ATEN.div.Tensor}
_SINGLE = (
    _ATEN.exp.default,
    _ATEN.sigmoid.default,
    _ATEN.relu.default,
    _ATEN.clamp.default,
    _ATEN.clamp_min.default,
    _ATEN.clamp_max.default,
    _ATEN.pow.Tensor_Scalar,
    _ATEN.neg.default,
)
# For ops that were run, where the values of their results do not follow from known ones.
RULES: dict[Any, Callable] = {
    **dict.fromkeys(SAME | _PARTS, _same),
    _ATEN.index.Tensor: _chosen_of,
    _ATEN.index_select.default: _chosen_of,
    _ATEN.scatter_.src: _put,
    _ATEN.max.default: _largest,
    _ATEN.randperm.default: _permutation,
    **dict.fromkeys(RANGES, _drawn),
    **dict.fromkeys((_ATEN.rand.default, _ATEN.rand_like.default), _drawn_parts),
    _ATEN._softmax.default: _chances,
    _ATEN.topk.default: _places(2),
    _ATEN.sort.default: _places(1),
    _ATEN.sort.stable: _places(2),
    **dict.fromkeys(_SINGLE, _typical),
    **dict.fromkeys((_ATEN.add.Tensor, _ATEN.sub.Tensor, _ATEN.mul.Tensor), _blend),
    **dict.fromkeys(_DIVIDES, _blend),
    **dict.fromkeys((_ATEN.gt.Scalar, _ATEN.ge.Scalar), _passes),
}
RULES.update({op: also(RULES.get(op)) for op in ONE_BY_ONE})
