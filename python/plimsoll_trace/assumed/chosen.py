"""What the data choose, where they are not known: all was taken, an even share of it (`even_choices`), or what
follows from likely values (`likely_values`).

The rows that were chosen are followed through the ops that work on them: what lies in such rows when the most
is allocated is what a real run may not need, or need more of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .. import small_values
from ..data_sizes import BY_DATA
from ..ledger import Ledger
from .even_choices import EvenChoices
from .likely_values import spread

# How many places a mask marks, by what is written to them: one row of values for each.

_ATEN = torch.ops.aten
PUTS = {_ATEN.index_put.default, _ATEN.index_put_.default}
_MASKS = (torch.bool, torch.uint8)


def count_by_values(args: tuple) -> None:
    """Backward takes the gradient of the values from as many places: any other number would be an error."""
    into, places, values = args[:3]
    named = [(at, one) for at, one in enumerate(places) if one is not None]
    if len(named) != 1:
        return
    at, mask = named[0]
    if mask.dtype not in _MASKS or small_values.is_counted(mask):
        return
    behind = into.dim() - at - mask.dim()
    # A single row is written to all places.
    rows = values.shape[-1 - behind] if values.dim() > behind else 1
    if rows not in (1, small_values.marked(mask)):
        small_values.count_marked(mask, rows)


NOTE = "where the data choose which values are taken, all were taken; the interval begins where none are"
EVEN_NOTE = (
    "where the data choose one of several, as the experts of a mixture, rows are spread evenly over them; "
    "the interval begins where none are taken and reaches up for more"
)
LIKELY_NOTE = (
    "where values decide what is chosen, as many were taken as is likely: boxes as a detector takes that was just "
    "initialised, rows by numbers that were drawn; "
    "the interval begins where none are taken and reaches up for more"
)
DRAWN_NOTE = (
    "where drawn numbers decide what is chosen, as many were taken as is likely; "
    "the interval allows for some less and some more"
)
_INDEX = torch.ops.aten.index.Tensor
# Which argument says what is chosen.
_CHOSEN_BY = {
    torch.ops.aten.nonzero.default: 0,
    torch.ops.aten.masked_select.default: 1,
    **dict.fromkeys(BY_DATA, 0),
}
# All that choose by what a tensor holds.
CHOOSING = {_INDEX, *_CHOSEN_BY}
_CAT = torch.ops.aten.cat.default
_UNIQUE = torch.ops.aten._unique2.default
_PUT = torch.ops.aten.index_put_.default
# What drops boxes that overlap with better ones, once there is such an op.
NMS: set[Any] = set()
# Rows stand first, or behind the samples of a batch.
_DIMENSIONS = 2


class Loose(NamedTuple):
    """How far the number of chosen rows may be from the one that was taken."""

    # How many times as many may be taken, and which part of them may not be.
    times: float
    less: float = 1.0


_EXACT = Loose(times=1, less=0)


class Chosen:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.even = EvenChoices()
        # How many rows a storage has that the data chose.
        self._rows: dict[int, tuple[int, Loose]] = {}
        # Samples of a fixed size that are drawn of chosen rows, and how many of them may be of the rarer kind.
        self.samples: dict[int, int] = {}

    def knows(self, storage_key: int) -> bool:
        """Whether it has rows that the data chose, or comes from a choice."""
        return storage_key in self._rows or self.even.knows(storage_key)

    def forget(self, storage_key: int) -> None:
        self._rows.pop(storage_key, None)
        self.even.forget(storage_key)

    def expect(self, func: Any, args: tuple) -> str | None:
        """Before an op: how much it is likely to choose, and what a person should know of it."""
        if func in PUTS:
            count_by_values(args)
        if func is _UNIQUE:
            self.even.spread_over_all(args[0])
        if not by_unknown_data(func, args):
            return None
        if func in BY_DATA or func in NMS:
            return LIKELY_NOTE if small_values.is_likely(args[0]) else NOTE
        masks = [one for one in _choosing(func, args) if not small_values.is_counted(one)]
        # Beside other places, a mask has all of its places taken.
        alone = func is not _INDEX or sum(one is not None for one in args[1]) == 1
        share = self.even.share_of(masks[0]) if alone else None
        likely = [small_values.likely_value_of(mask) for mask in masks]
        for mask, value in zip(masks, likely):
            if share is not None:
                count = min(max(1, round(mask.numel() * share)), mask.numel())
            else:
                count = mask.numel() if value is None else int(value.count_nonzero())
            small_values.expect_marked(mask, count)
        if share is not None:
            return EVEN_NOTE
        if all(spread(mask, small_values.marked(mask)) is not None for mask in masks):
            return DRAWN_NOTE
        return NOTE if any(value is None for value in likely) else LIKELY_NOTE

    def follow(self, func: Any, args: tuple, results: list[Any], allocation_of: Callable) -> None:
        """For the results of an op that are new."""
        if by_unknown_data(func, args):
            rows = dict([self._rows_of(func, args, results)])
        elif self._rows:
            rows = dict(one for one in map(self._known_rows, _tensors(args)) if one is not None)
            if rows and func is _CAT:
                rows.update(self._one_behind_another(args))
            elif func is _PUT and any(self._known_rows(one) for one in _tensors(tuple(args[1]))):
                # Rows that were handled in groups come back together, in zeros of their number.
                rows, results = dict(self._rows.values()), [args[0]]
        else:
            return
        for result in results:
            if not _is_plain(result):
                continue
            count = next((n for n in result.shape[:_DIMENSIONS] if n and n in rows), 0)
            if count:
                self._rows[result.untyped_storage()._cdata] = (count, rows[count])
                self._ledger.may_be_less(allocation_of(result), *rows[count])

    def _known_rows(self, tensor: Any) -> tuple[int, Loose] | None:
        return self._rows.get(tensor.untyped_storage()._cdata)

    def _one_behind_another(self, args: tuple) -> dict[int, Loose]:
        """Chosen rows of several samples in one tensor."""
        parts = _tensors((args[0],))
        if (len(args) > 1 and args[1] != 0) or not all(part.dim() for part in parts):
            return {}
        total = sum(part.shape[0] for part in parts)
        if not total:
            return {}
        parts = [(part.shape[0], (self._known_rows(part) or (0, _EXACT))[1]) for part in parts]
        times = sum(rows * loose.times for rows, loose in parts) / total
        return {total: Loose(times, max(loose.less for _, loose in parts))}

    def _rows_of(self, func: Any, args: tuple, results: list[Any]) -> tuple[int, Loose]:
        """How many are taken, and how far from it a real run may be."""
        if func in BY_DATA:
            return args[0].numel(), Loose(1)
        if func in NMS:
            count = len(results[0]) if results else 0
            return count, Loose(len(args[0]) / max(1, count))
        mask = max(_choosing(func, args), key=small_values.marked)
        count, most = small_values.marked(mask), mask.numel()
        if count in self.samples:
            most = count
        elif most in self.samples:
            most = max(count, self.samples[most])
        if small_values.is_counted(mask):
            return count, Loose(1)
        part, times = spread(mask, count), most / max(1, count)
        return count, Loose(times) if part is None else Loose(min(times, 1 + part), part)


def by_unknown_data(func: Any, args: tuple) -> bool:
    if func in NMS:
        return not all(map(small_values.is_known, args[:2]))
    if func not in CHOOSING:
        return False
    if func in _CHOSEN_BY:
        return not small_values.is_counted(args[_CHOSEN_BY[func]])
    return func is _INDEX and not all(map(small_values.is_counted, _masks(args)))


def _choosing(func: Any, args: tuple) -> list[Any]:
    return _masks(args) if func is _INDEX else [args[_CHOSEN_BY[func]]]


def _masks(args: tuple) -> list[Any]:
    return [
        i for i in args[1] if isinstance(i, torch.Tensor) and i.dtype in (torch.bool, torch.uint8)
    ]


def _tensors(args: tuple) -> list[Any]:
    found: list[Any] = []
    for one in args:
        found.extend(one if isinstance(one, (list, tuple)) else (one,))
    return [one for one in found if _is_plain(one)]


def _is_plain(value: Any) -> bool:
    return type(value) is torch.Tensor and value.layout is torch.strided
