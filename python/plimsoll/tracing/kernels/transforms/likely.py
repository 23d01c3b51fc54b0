"""How likely cuDNN runs a convolution by Fourier transform, where it leaves these kernels out of its list.

Fitted to what it ranked first on an H200 for 109,486 layers in float32 with filters of 3 x 3, 5 x 5 and 7 x 7:
of the gradients of weights 6 in 100, of inputs 3, and of the results of 7 x 7 filters 14.
"""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from .. import choices, fourier
from .fitted import FORESTS

_FILTERS = ([3, 3], [5, 5], [7, 7])
# Of results with filters of 3 x 3 none of 16,318 goes by transform.
_FILTERS_OF_RESULTS = _FILTERS[1:]
# Filters as large as their images come from gradients of gradients, where each group of a layer is worked out for
# itself. An H200 ranked 397 of them (bench/results/asked-convolutions.json.xz). Where the other kernel works on the
# smallest tiles, 14 of 15 layers of at least so many pixels and at most so many images go by transform; of 14 with
# more images two do, and of all others few.
_WHOLE_ENGINE, _WHOLE_TILE = 48, (2, 2)
_WHOLE_PIXELS, _WHOLE_IMAGES = 48 * 48, 192
_WHOLE_CHANCE = 0.93


def features(problem: Any, choice: Any) -> tuple:
    """What the trees ask about; the width of the filter comes last."""
    return (*choices.features(problem, choice), problem.w[-1])


def transform(problem: Any, which: str, choice: Any) -> tuple[int, float]:
    """The workspace of such a kernel, and its chance; 0 where it is none of the kinds that were asked about."""
    if _filters_whole_images(problem, which, choice):
        return fourier.workspace(problem, which), _WHOLE_CHANCE
    size = fourier.workspace(problem, which) if _is_asked_about(problem, which) else 0
    if size == 0:
        return 0, 0.0
    trees = choices.parsed(FORESTS[which])
    return size, choices.chance(trees, features(problem, choice))


def _filters_whole_images(problem: Any, which: str, choice: Any) -> bool:
    return (
        which == "forward"
        and list(problem.w[2:]) == list(problem.x[2:])
        and prod(problem.w[2:]) >= _WHOLE_PIXELS
        and problem.x[0] <= _WHOLE_IMAGES
        and choice is not None
        and choice.engine == _WHOLE_ENGINE
        and _WHOLE_TILE in choice.knobs.items()
        and fourier.workspace(problem, which) > 0
    )


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
