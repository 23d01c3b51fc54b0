"""Convolutions by Fourier transform, mostly in float32. `cudnn.benchmark` tries them; without it few layers take one.

Without a device cuDNN leaves them out of its list. What they ask for is exact for all 2,104 of stride one
that an H200 listed, and some percent too low for gradients of inputs of stride two. Which convolutions it
lists them for does not follow from the shape, so the usual case is taken: 76 of 100 results, 91 of 100
gradients of weights and 95 of 100 gradients of inputs that could have one do. Where cuDNN cuts its list short
they are not in it (`Cudnn.cuts`): a layer of a GAN was tried with one for 64 images, and for 128 and 256, where
the list is short, was not.
"""

from __future__ import annotations

from math import prod
from typing import Any

# Whole images are transformed, with their padding, as squares of a power of two up to this.
_SMALLEST, _LARGEST = 16, 256
# The input's gradient is worked out tile by tile instead, for filters of at least 3 x 3.
_TILE, _FILTER = 32, 3
_MAX_STRIDE = 2
_COMPLEX = 8
# How many of those that could have such a kernel were not tried with one.
UNTRIED = {"forward": 0.24, "grad_weight": 0.09, "grad_input": 0.05}


def workspace(problem: Any, which: str) -> int:
    """Bytes of such a kernel in float32, 0 where there is none."""
    if problem.dtype.itemsize != 4 or not _could_be(problem):
        return 0
    if which == "grad_input":
        return of_input_gradient(problem)
    of_inputs, of_weights, of_outputs = _planes(problem)
    side = 1 << (max(_padded(problem)) - 1).bit_length()
    if any(n != 1 for n in problem.stride) or side > _LARGEST:
        return 0
    plane = _plane(max(side, _SMALLEST))
    if which == "forward":
        copies = of_weights * prod(problem.w[2:])
        return 2 * plane * max(of_inputs + of_weights, of_outputs) + 4 * copies
    copies = of_outputs * prod(problem.y[2:])
    return 2 * plane * max(of_inputs + of_outputs, of_weights) + 4 * copies


def of_input_gradient(problem: Any) -> int:
    """Bytes of such a kernel for the gradient of an input; in float16, too, it works in float32."""
    return _tiled(problem, *_planes(problem)) if _could_be(problem) else 0


def _planes(problem: Any) -> tuple[int, int, int]:
    """How many images there are of inputs, of weights and of outputs, each of one channel."""
    images, inputs, outputs = problem.y[0], problem.w[1], problem.w[0]
    return images * inputs, inputs * outputs, images * outputs


def _could_be(problem: Any) -> bool:
    return (
        len(problem.x) == 4
        and problem.groups == 1
        and not problem.channels_last
        and all(n == 1 for n in problem.dilation)
    )


def _padded(problem: Any) -> list[int]:
    return [n + 2 * p for n, p in zip(problem.x[2:], problem.padding)]


def _plane(side: int) -> int:
    """Half of a transform of real values holds all of it."""
    return side * (side // 2 + 1) * _COMPLEX


def _tiled(problem: Any, of_inputs: int, of_weights: int, of_outputs: int) -> int:
    stride = max(problem.stride)
    if min(problem.w[2:]) < _FILTER or stride > _MAX_STRIDE:
        return 0
    copies = 0
    if stride > 1:
        # Each pixel of a stride is an input of its own.
        of_inputs, of_weights = of_inputs * stride**2, of_weights * stride**2
        copies = (prod(problem.x) + prod(problem.y) + prod(problem.w)) * 4
    several = max(problem.y[2:]) > _TILE - (_FILTER - 1)
    images = (of_inputs + of_outputs) * (2 if several else 1)
    return _plane(_TILE) * (images + of_weights) + copies
