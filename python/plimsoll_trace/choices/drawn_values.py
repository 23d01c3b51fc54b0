"""Values that follow from drawn numbers one by one, as which words of a text are hidden.

Of many draws with the same chance about as many hit as is likely: the interval need not begin where none are taken,
nor reach up to all. Where one number decides for many places, as whether a whole sample is left out, fewer draws
count, and the spread is larger.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch

from .. import small_values

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
