"""Parts of a batch: how a batch is split, run part by part, and its results are joined."""

from __future__ import annotations

import copy
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any, Callable, Union

from ..arguments import BadType, BadValue, shown
from ..batching import Batch
from ..failure import Failure
from .restore import RandomState
from .rules.sizes import even_part

# Puts the results of the parts of a batch together.


def join(parts: list[Any], sizes: list[int]) -> Any:
    """Results of the parts as one: tensors and lists end to end, numbers by their mean over samples."""
    first = parts[0]
    if first is None:
        return None
    shape = getattr(first, "shape", None)
    if shape is not None and len(shape) > 0:
        module = sys.modules["torch"] if hasattr(first, "requires_grad") else sys.modules["numpy"]
        return module.cat(parts) if hasattr(first, "requires_grad") else module.concatenate(parts)
    if isinstance(first, Mapping):
        joined: dict[Any, Any] = {key: join([part[key] for part in parts], sizes) for key in first}
        return type(first)(**joined) if hasattr(first, "to_tuple") else joined
    if isinstance(first, list):
        return [value for part in parts for value in part]
    if isinstance(first, tuple):
        fields = [join([part[i] for part in parts], sizes) for i in range(len(first))]
        return type(first)(*fields) if hasattr(first, "_fields") else tuple(fields)
    if isinstance(first, (int, float)) or shape is not None:
        return sum(part * size for part, size in zip(parts, sizes)) / sum(sizes)
    fact = f"results of type {type(first).__name__} cannot be put together"
    raise BadType(fact, "pass join=lambda parts: ...")


# The weight of each microbatch: its share of what the mean of the whole batch is taken over.

IGNORED_LABEL = -100
NAMES = ("auto", "samples", "tokens", "shifted-tokens")

Share = Union[str, Callable[[Any], float]]


def check_share(share: Share) -> None:
    if not callable(share) and share not in NAMES:
        fact = (
            f"share must be one of {', '.join(NAMES)} or a function of a batch, not {shown(share)}"
        )
        raise BadValue(fact, 'leave it out, or pass share="samples"')


def sample_weights(batch: Any, count: int, share: Share, model: Any) -> list[int] | None:
    """What each sample adds to the mean's denominator; None where all samples add the same.

    `auto` looks for integer labels and counts those that carry loss; the loss of a causal language
    model leaves out the first of each sequence. One transfer from the device for a whole batch.
    """
    if share == "samples" or callable(share):
        return None
    labels = _labels(batch)
    if labels is None or labels.shape[0] != count:
        return None
    shifted = share == "shifted-tokens" or (share == "auto" and is_causal(model))
    if shifted and labels.dim() > 1:
        labels = labels[..., 1:]
    return (labels != IGNORED_LABEL).reshape(count, -1).sum(dim=1).tolist()


def is_causal(model: Any) -> bool:
    """Whether a model's own loss compares each token with the one before it."""
    inner = getattr(model, "module", model)
    unwrap = getattr(inner, "get_base_model", None)
    inner = unwrap() if callable(unwrap) else inner
    kind = getattr(inner, "loss_type", None)
    if isinstance(kind, str):
        return kind == "ForCausalLM"
    return type(inner).__name__.endswith(("ForCausalLM", "LMHeadModel"))


def _labels(batch: Any) -> Any:
    """The integer labels of a batch; None where the mean is over samples."""
    found: Any = None
    if isinstance(batch, Mapping):
        found = next(
            (batch[key] for key in ("labels", "label", "targets", "target") if key in batch), None
        )
    elif isinstance(batch, (list, tuple)) and len(batch) == 2:
        found = batch[1]
    if not hasattr(found, "is_floating_point") or found.is_floating_point() or found.is_complex():
        return None
    return found if found.dim() > 0 else None


# Cuts a batch into microbatches without copying it.


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


# One batch on its way through microbatches: what is done, what is left, and how to start again.


class BatchRun:
    """Every sample of the batch is in exactly one finished microbatch, or still to do."""

    def __init__(self, batch: Any, count: int, settings: Any, model: Any) -> None:
        self.batch = batch
        self.count = count
        self.loss: Any = None
        self.done = 0
        self.partition: list[int] = []
        self.attempt = 0
        self.failures = 0
        # How often a part of a size took all that was done with it: the same again could go on for ever.
        self.lost: Counter[int] = Counter()
        self.unscaled = self.reduced = self.clipped = False
        self._settings = settings
        self._model = model
        self._weights: list[int] | None = None
        self._total: float | None = None
        self._began = RandomState()

    def part(self, size: int) -> tuple[int, int, Any, float] | None:
        """(start, stop, samples, share) of the next microbatch; None when all are done."""
        while self.done < self.count:
            start, stop = self.done, self.done + self._cut(self.count - self.done, size)
            samples = self._settings.splitter.part(self.batch, start, stop, self.count)
            share = self._share(samples, start, stop)
            if share != 0:
                return start, stop, samples, share
            # No token of it carries loss: it adds nothing, and its mean would be 0 / 0.
            self.finished(stop - start, None, 0)
        return None

    def _cut(self, left: int, most: int) -> int:
        return even_part(left, most)

    def finished(self, samples: int, loss: Any, share: float) -> None:
        self.done += samples
        self.attempt = 0
        self.partition.append(samples)
        if loss is not None:
            part = loss if share == 1 else loss * share
            self.loss = part if self.loss is None else self.loss + part

    def random_before_part(self) -> RandomState:
        """What the next part has to be put back to."""
        return RandomState()

    def start_again(self) -> None:
        """All of the batch again: its gradients were cleared, its random numbers are the same."""
        self._began.restore()
        self.done = 0
        self.partition = []
        self.loss = None
        self.unscaled = self.clipped = False

    def _share(self, samples: Any, start: int, stop: int) -> float:
        settings = self._settings
        if settings.reduction == "sum" or (start == 0 and stop == self.count):
            return 1
        if callable(settings.share):
            if self._total is None:
                self._total = float(settings.share(self.batch))
            return (
                float(settings.share(samples)) / self._total
                if self._total
                else self._by_samples(start, stop)
            )
        if self._total is None:
            self._weights = sample_weights(self.batch, self.count, settings.share, self._model)
            self._total = float(sum(self._weights)) if self._weights else 0.0
        if not self._weights or not self._total:
            return self._by_samples(start, stop)
        return sum(self._weights[start:stop]) / self._total

    def _by_samples(self, start: int, stop: int) -> float:
        return (stop - start) / self.count
