"""What the data choose, where they are not known: all was taken, so a real run may take less.

The rows that were chosen are followed through the ops that work on them: what lies in such rows when the most
is allocated is what a real run may not need.
"""

from __future__ import annotations

from typing import Any

import torch

from . import small_values
from .data_sizes import BY_DATA
from .ledger import Ledger

NOTE = "where the data choose which values are taken, all were taken; the interval begins where none are"
_INDEX = torch.ops.aten.index.Tensor
# Which argument says what is chosen.
_CHOSEN_BY = {
    torch.ops.aten.nonzero.default: 0,
    torch.ops.aten.masked_select.default: 1,
    **dict.fromkeys(BY_DATA, 0),
}
# Rows stand first, or behind the samples of a batch.
_DIMENSIONS = 2


class Chosen:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # How many rows a storage has of which it is not known whether they are chosen.
        self._rows: dict[int, int] = {}

    def forget(self, storage_key: int) -> None:
        self._rows.pop(storage_key, None)

    def follow(self, func: Any, args: tuple, fresh: list[tuple[Any, int]]) -> None:
        """For the results of an op that are new, each with its allocation."""
        if by_unknown_data(func, args):
            rows = {_rows_of(func, args)}
        elif self._rows:
            rows = {self._rows.get(t.untyped_storage()._cdata, 0) for t in _tensors(args)}
        else:
            return
        for result, ident in fresh:
            if not _is_plain(result):
                continue
            count = next((n for n in result.shape[:_DIMENSIONS] if n and n in rows), 0)
            if count:
                self._rows[result.untyped_storage()._cdata] = count
                self._ledger.may_be_less(ident)


def by_unknown_data(func: Any, args: tuple) -> bool:
    if func in _CHOSEN_BY:
        return not small_values.is_counted(args[_CHOSEN_BY[func]])
    return func is _INDEX and not all(map(small_values.is_counted, _masks(args)))


def _rows_of(func: Any, args: tuple) -> int:
    if func is _INDEX:
        return max(small_values.marked(mask) for mask in _masks(args))
    return args[_CHOSEN_BY[func]].numel()


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
