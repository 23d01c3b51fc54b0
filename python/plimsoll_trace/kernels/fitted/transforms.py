"""How likely cuDNN runs a convolution by Fourier transform, where it leaves these kernels out of its list.

Fitted to what it ranked first on an H200 for 109,486 layers in float32 with filters of 3 x 3, 5 x 5 and 7 x 7:
of the gradients of weights 6 in 100, of inputs 3, and of the results of 7 x 7 filters 14.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import choices, fourier
from . import forests

_FILTERS = ([3, 3], [5, 5], [7, 7])
# Of results with filters of 3 x 3 none of 16,318 goes by transform.
_FILTERS_OF_RESULTS = _FILTERS[1:]


def features(problem: Any, choice: Any) -> dict[str, float]:
    return {**choices.features(problem, choice), "filter width": problem.w[-1]}


def transform(problem: Any, which: str, choice: Any) -> tuple[int, float]:
    """The workspace of such a kernel, and its chance; 0 where it is none of the kinds that were asked about."""
    rule = choices.rule_for("transforms", problem, which, choice)
    if rule is not None:
        return fourier.workspace(problem, which), rule.chance
    size = fourier.workspace(problem, which) if _is_asked_about(problem, which) else 0
    if size == 0:
        return 0, 0.0
    chance = forests.table("transforms").chance(which, features(problem, choice))
    return (0, 0.0) if chance is None else (size, chance)


def _is_asked_about(problem: Any, which: str) -> bool:
    return (
        problem.dtype == torch.float32
        and problem.groups == 1
        and not problem.transposed
        and not problem.channels_last
        and list(problem.w[2:]) in (_FILTERS_OF_RESULTS if which == "forward" else _FILTERS)
        and all(n == 1 for n in (*problem.stride, *problem.dilation))
        # None other was asked about.
        and choices.keeps_size(problem)
    )
