"""What the data choose, where they are not known: all was taken, or an even share of it (`even_choices`).

The rows that were chosen are followed through the ops that work on them: what lies in such rows when the most
is allocated is what a real run may not need, or need more of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .. import small_values
from ..data_sizes import BY_DATA
from ..ledger import Ledger
from .even_choices import EvenChoices

NOTE = "where the data choose which values are taken, all were taken; the interval begins where none are"
EVEN_NOTE = (
    "where the data choose one of several, as the experts of a mixture, rows are spread evenly over them; "
    "the interval begins where none are taken and reaches up for more"
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
# Rows stand first, or behind the samples of a batch.
_DIMENSIONS = 2


class Chosen:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.even = EvenChoices()
        # How many rows a storage has that the data chose, and how many times as many all would be.
        self._rows: dict[int, tuple[int, float]] = {}

    def forget(self, storage_key: int) -> None:
        self._rows.pop(storage_key, None)
        self.even.forget(storage_key)

    def expect(self, func: Any, args: tuple) -> str | None:
        """Before an op: how much it is likely to choose, and what a person should know of it."""
        if not by_unknown_data(func, args):
            return None
        if func in BY_DATA:
            return NOTE
        masks = [one for one in _choosing(func, args) if not small_values.is_counted(one)]
        # Beside other places, a mask has all of its places taken.
        alone = func is not _INDEX or sum(one is not None for one in args[1]) == 1
        share = self.even.share_of(masks[0]) if alone else None
        for mask in masks:
            count = mask.numel() if share is None else max(1, round(mask.numel() * share))
            small_values.expect_marked(mask, min(count, mask.numel()))
        return NOTE if share is None else EVEN_NOTE

    def follow(
        self, func: Any, args: tuple, fresh: list[Any], allocation_of: Callable[[Any], int]
    ) -> None:
        """For the results of an op that are new."""
        if by_unknown_data(func, args):
            rows = dict([_rows_of(func, args)])
        elif self._rows:
            found = (self._rows.get(t.untyped_storage()._cdata) for t in _tensors(args))
            rows = dict(one for one in found if one is not None)
        else:
            return
        for result in fresh:
            if not _is_plain(result):
                continue
            count = next((n for n in result.shape[:_DIMENSIONS] if n and n in rows), 0)
            if count:
                self._rows[result.untyped_storage()._cdata] = (count, rows[count])
                self._ledger.may_be_less(allocation_of(result), rows[count])


def by_unknown_data(func: Any, args: tuple) -> bool:
    if func not in CHOOSING:
        return False
    if func in _CHOSEN_BY:
        return not small_values.is_counted(args[_CHOSEN_BY[func]])
    return func is _INDEX and not all(map(small_values.is_counted, _masks(args)))


def _rows_of(func: Any, args: tuple) -> tuple[int, float]:
    """How many are taken, and how many times as many all would be."""
    if func in BY_DATA:
        return args[0].numel(), 1
    mask = max(_choosing(func, args), key=small_values.marked)
    count = small_values.marked(mask)
    return count, 1 if small_values.is_counted(mask) else mask.numel() / max(1, count)


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
