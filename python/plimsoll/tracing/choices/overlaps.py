"""Which boxes overlap no better one, without comparing each with all others.

Two boxes that have more than a share in common begin near each other: nearer than the rest of that share of the one
that begins first. Sorted by where they begin, a box is compared only with those that follow so near. All is computed
as torchvision's `nms` does, in the same types, so that the same boxes are kept.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

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


def kept(nms: Any, boxes: Any, scores: Any, limit: float) -> Any:
    """The places of boxes of which no better one has more than this share in common, the best first."""
    found = _kept(boxes, scores, limit) if _may_be_sorted(boxes, scores, limit) else None
    return nms(boxes, scores, limit) if found is None else found


def _may_be_sorted(boxes: Any, scores: Any, limit: float) -> bool:
    if not _HAS_NUMPY or len(boxes) < _MANY or not _LEAST_SHARE <= limit < 1:
        return False
    single = boxes.dtype == scores.dtype == torch.float32
    return single and bool(boxes.isfinite().all() and (boxes[:, 2:] >= boxes[:, :2]).all())


def _kept(boxes: Any, scores: Any, limit: float) -> Any:
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
