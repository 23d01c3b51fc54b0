"""Kernels that cuDNN leaves out of its ranking where it has no device: matrix products and Winograd's.

When it takes them was measured on an H200 and fitted; what they ask for is exact.
"""

from __future__ import annotations

from math import prod
from typing import Any

from .fitted_choices import TREES

FEATURES = (
    "images",
    "inputs",
    "outputs",
    "pixels",
    "all_pixels",
    "weights",
    "inputs_per_output",
    "input_values",
    "output_values",
    "pixels_mod_8",
    "inputs_mod_32",
    "outputs_mod_32",
    "more_channels",
    "fewer_channels",
    "engine",
    "workspace",
    "pixels_mod_4",
    "inputs_mod_8",
    "outputs_mod_8",
    "pixels_mod_32",
    "output_tiles_by_image",
    "input_tiles_by_image",
    "weight_tiles",
    "output_tiles",
    "input_tiles",
    "weight_tiles_of_images",
    "wasted_tiles",
    "pixels_per_output",
    "pixels_per_input",
    "tile",
    "cluster",
    "width",
    "product_bytes",
    "smallest_side",
    "pixels_by_inputs",
    "pixels_by_outputs",
)
# Rows and columns of the tiles that most kernels work on, and the knobs that say which tile and cluster it is.
_SIDE = 128
_TILE, _CLUSTER_M, _CLUSTER_N = 2, 27, 28
# The largest images of the 1 x 1 convolutions that were measured. The weight's gradient over larger ones
# follows cuDNN's ranking: for those of 384 x 384 pixels it copies, as ranked.
_MEASURED_PIXELS = 224 * 224
# In half precision other kernels want channels in such multiples, and would copy all images into them:
# of the measured ones with at least so many pixels none does, up to 384 x 384.
_ALIGNED, _COPIED_PIXELS = 8, 48 * 48
# Winograd's transforms turn 4 x 4 results of a 3 x 3 filter into 6 x 6 values in float32.
_RESULTS, _VALUES = 4, 36


def is_product(problem: Any) -> bool:
    return (
        not problem.channels_last
        and problem.groups == 1
        and all(k == 1 for k in problem.w[2:])
        and all(s == 1 for s in problem.stride)
        and not any(problem.padding)
    )


def could_be_winograd(problem: Any, which: str) -> bool:
    return (
        which == "grad_weight"
        and not problem.channels_last
        and not problem.transposed
        and problem.groups == 1
        and list(problem.w[2:]) == [3, 3]
        and all(n == 1 for n in (*problem.stride, *problem.dilation))
    )


def features(problem: Any, choice: Any) -> tuple:
    """What is known without a device, the kernel ranked first among the others included."""
    images, inputs, outputs = problem.y[0], problem.w[1], problem.w[0]
    pixels = prod(problem.y[2:])
    everywhere = images * pixels
    knobs = choice.knobs if choice else {}
    by_image, tiles = (
        _tiles(outputs) * _tiles(pixels) * images,
        _tiles(outputs) * _tiles(everywhere),
    )
    of_weights = _tiles(outputs) * _tiles(inputs)
    return (
        images,
        inputs,
        outputs,
        pixels,
        everywhere,
        inputs * outputs,
        inputs / outputs,
        everywhere * inputs,
        everywhere * outputs,
        pixels % 8,
        inputs % 32,
        outputs % 32,
        max(inputs, outputs),
        min(inputs, outputs),
        choice.engine if choice else -1,
        choice.workspace if choice else -1,
        pixels % 4,
        inputs % 8,
        outputs % 8,
        pixels % 32,
        by_image,
        _tiles(inputs) * _tiles(pixels) * images,
        of_weights,
        tiles,
        _tiles(inputs) * _tiles(everywhere),
        of_weights * images,
        by_image / tiles,
        pixels / outputs,
        pixels / inputs,
        knobs.get(_TILE, -1),
        knobs.get(_CLUSTER_M, 0) * knobs.get(_CLUSTER_N, 0),
        problem.y[-1],
        product(problem, "grad_weight"),
        min(pixels, inputs, outputs),
        pixels * inputs,
        pixels * outputs,
    )


def _tiles(n: int) -> int:
    return -(-n // _SIDE)


def decide(tree: Any, values: tuple) -> bool:
    while not isinstance(tree, bool):
        feature, threshold, low, high = tree
        tree = low if values[FEATURES.index(feature)] <= threshold else high
    return tree


def left_out(problem: Any, which: str, choice: Any | None) -> int | None:
    """The workspace of such a kernel where cuDNN would take one; else None."""
    if is_product(problem):
        if _is_unaligned(problem):
            return product(problem, which)
        if which == "grad_weight" and prod(problem.y[2:]) > _MEASURED_PIXELS:
            return None
        kind, size = which, product(problem, which)
    elif could_be_winograd(problem, which):
        kind, size = "winograd", winograd(problem)
    else:
        return None
    tree = TREES.get((kind, problem.dtype.itemsize))
    return size if tree is not None and decide(tree, features(problem, choice)) else None


def _is_unaligned(problem: Any) -> bool:
    return (
        problem.dtype.itemsize == 2
        and problem.w[0] % _ALIGNED != 0
        and prod(problem.y[2:]) >= _COPIED_PIXELS
    )


def product(problem: Any, which: str) -> int:
    """The weight's gradient is worked out for each image, and summed up afterwards."""
    return problem.x[0] * prod(problem.w) * 4 if which == "grad_weight" else 0


def winograd(problem: Any) -> int:
    tiles = problem.y[0] * prod(-(-n // _RESULTS) for n in problem.y[2:])
    outputs, inputs = problem.w[:2]
    return _VALUES * 4 * (tiles * (outputs + inputs) + outputs * inputs)
