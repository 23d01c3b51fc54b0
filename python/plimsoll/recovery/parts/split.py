"""Cuts a batch into microbatches without copying it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Callable

from ...batching.batch import Batch
from ...failure import Failure


class Splitter:
    """Knows how many samples a batch has, and takes a part of them."""

    def __init__(
        self,
        size: Callable[[Any], int] | None = None,
        split: Callable[[Any, int, int], Any] | None = None,
    ) -> None:
        self._size = size
        self._split = split

    def size(self, batch: Any) -> int:
        count = self._size(batch) if self._size else batch_length(batch)
        if count == 0:
            raise Failure(
                "empty-batch",
                "the batch has no samples",
                "skip empty batches, or set drop_last=True in the loader",
            )
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise Failure(
                "batch-size-unclear",
                "the number of samples in this batch is unknown",
                "pass size=lambda batch: ..., and split=lambda batch, start, stop: ...",
            )
        return count

    def part(self, batch: Any, start: int, stop: int, count: int) -> Any:
        if start == 0 and stop == count:
            return batch
        if self._split:
            return self._split(batch, start, stop)
        return take(batch, start, stop, count)


def batch_length(batch: Any) -> int | None:
    """Samples in a batch: the first dimension that its tensors share, or the length of a list of samples."""
    lengths = _leading(batch)
    if lengths:
        # A tensor of length 1 among longer ones is shared by all samples (position ids, a mask).
        longest = max(lengths)
        if any(length not in (1, longest) for length in lengths):
            raise Failure(
                "batch-size-unclear",
                f"the tensors of this batch have different first dimensions: {sorted(set(lengths))}",
                "pass size=lambda batch: ..., and split=lambda batch, start, stop: ...",
            )
        return longest
    if isinstance(batch, (list, tuple)):
        return len(batch)
    return None


def take(batch: Any, start: int, stop: int, count: int) -> Any:
    if isinstance(batch, Batch) or (isinstance(batch, (list, tuple)) and not _leading(batch)):
        return batch[start:stop]
    return _take_field(batch, start, stop, count)


def _take_field(value: Any, start: int, stop: int, count: int) -> Any:
    shape = getattr(value, "shape", None)
    if shape is not None:
        return value[start:stop] if len(shape) > 0 and shape[0] == count else value
    if isinstance(value, Mapping):
        return _take_mapping(value, start, stop, count)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_take_field(one, start, stop, count) for one in value))
    if isinstance(value, (list, tuple)):
        if _leading(value):
            return type(value)(_take_field(one, start, stop, count) for one in value)
        return value[start:stop] if len(value) == count else value
    return value


def _take_mapping(value: Mapping[Any, Any], start: int, stop: int, count: int) -> Any:
    parts = {key: _take_field(one, start, stop, count) for key, one in value.items()}
    if type(value) is dict:
        return parts
    # A tokenizer's batch keeps its type, so that attributes such as .input_ids still work.
    twin: Any = copy.copy(value)
    for key, part in parts.items():
        twin[key] = part
    return twin


def _leading(batch: Any) -> list[int]:
    """First dimensions of the tensors (or arrays) that a batch holds as fields."""
    if isinstance(batch, Batch):
        return []
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return [int(shape[0])] if len(shape) > 0 else []
    if isinstance(batch, Mapping):
        return [length for value in batch.values() for length in _leading(value)]
    if isinstance(batch, (list, tuple)):
        # A list of dicts is a list of samples, not of fields.
        return [n for value in batch if not isinstance(value, Mapping) for n in _leading(value)]
    return []
