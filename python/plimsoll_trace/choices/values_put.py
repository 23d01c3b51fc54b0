"""How many places a mask marks, by what is written to them: one row of values for each."""

from __future__ import annotations

import torch

from .. import small_values

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
