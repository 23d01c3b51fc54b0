"""How many samples a trainer's batch has, where that is sure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..failure import Failure
from ..recovery.parts import batch_length

# Where one of these has one row, the batch is one sample: a packed one, however long its lists of lengths are.
MAIN = ("input_ids", "inputs_embeds", "pixel_values", "input_values", "input_features", "labels")


def samples_of(batch: Any) -> int | None:
    """None where the tensors of a batch do not agree: it is left whole.

    >>> samples_of({"words": [1, 2], "n": 3}) is None
    True
    """
    try:
        count = batch_length(batch)
    except Failure:
        return None
    if not count:
        return None
    if isinstance(batch, Mapping):
        shapes = [getattr(batch.get(name), "shape", None) for name in MAIN]
        first = {int(shape[0]) for shape in shapes if shape}
        if first and first != {count}:
            return None
    return count
