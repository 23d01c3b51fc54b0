"""Kernels that cuDNN leaves out of its ranking where it has no device: matrix products and transforms.

When it takes them was measured on an H200 and fitted; what they ask for is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import exp, prod
from typing import Any

import torch

from . import fourier
from .fitted_choices import FORESTS

# Rows and columns of the tiles that most kernels work on, and the knobs that say which tile and cluster it is.
_SIDE = 128
_TILE, _CLUSTER_M, _CLUSTER_N = 2, 27, 28
# The largest images of the 1 x 1 convolutions that the trees were fitted to. In float32 the weight's gradient over
# larger ones follows cuDNN's ranking: for those of 320 x 320 and 384 x 384 pixels it copies, as ranked. In half
# precision the trees are right for larger images and for clips where they are very sure (8 of 8 layers that an H200
# ranked), and not where they are less so (2 of 5).
_MEASURED_PIXELS = 224 * 224
_VERY_SURE, _NOT_SURE_CHANCE = 0.98, 0.4
# In half precision other kernels want channels in such multiples, and would copy all images into them:
# of the measured ones with at least so many pixels none does, up to 384 x 384. Of larger ones one was measured
# (volumes of 96 x 96 x 96 in a U-Net): only the weight's gradient copies, as ranked.
_ALIGNED, _COPIED_PIXELS, _NOT_COPIED_PIXELS = 8, 48 * 48, 384 * 384
# Many small images of middling channels in layers that do not keep the size of their images, for which the ranking
# has pairs of these tiles: the weight's gradient goes by Fourier transform. All such layers that were measured did.
# For those that keep the size, see `transforms.likely`.
_TRANSFORMED_TILE, _TRANSFORMED_CLUSTER = 7, 2
_TRANSFORMED_IMAGES, _TRANSFORMED_PIXELS = 32, 35 * 35
_TRANSFORMED_INPUTS, _TRANSFORMED_OUTPUTS = range(64, 154), range(44, 65)
_TRANSFORMED_CHANCE = 0.96
# Gradients of inputs with few channels, by filters of 3 x 3 to many channels, over at least so many pixels, go by
# Fourier transform in float16 as in float32 (`transforms.likely`), as a whole run showed.
_FEW_INPUTS, _TIMES_OUTPUTS, _MANY_PIXELS = range(16, 25), 4, 150_000
_FEW_INPUTS_CHANCE = 0.9
# The trees were fitted to images that are about as high as wide. Of four that an H200 ran in float32, far wider than
# high, whose gradients of weights they take for no product, three were one.
_LONG, _LONG_CHANCE = 8, 0.6
# 1 x 1 x 1 convolutions over clips: results and gradients of inputs are products (14 of 14 each). In float32 3 of 6
# gradients of weights are; the one of a whole run copies, as ranked.
_CLIP_CHANCE = 0.4
# Products over pixels in one run, in float32, as an H200 ran the 33 such layers of a wide ResNet: none copied
# its images, as the ranking says. Parts of the weight's gradient follow for 30 of them to a kilobyte; with other
# numbers of images it may be the ranked kernel.
PARTS_CHANCE = 0.9
_PRODUCT_HEADER, _PRODUCT_PARTS_HEADER = 400, 256
# The same in half precision, with a number of channels that is not a multiple of eight: the kernel that is ranked
# first copies the images. Of 15 such layers on an H200, this share ran as a matrix product instead.
UNALIGNED_CHANCES = {"forward": 0.75, "grad_input": 0.93, "grad_weight": 0.87}
_PRODUCT_TILES, _PRODUCT_SMALL_TILE = ((1 << 16, 1 << 15), (1 << 14, 1 << 14)), 1 << 13
_PRODUCT_ROWS, _MULTIPROCESSORS = 690, 132
# Winograd's transforms in float32: by the side of the filter, that of the results and that of the values they become.
# Results and the gradient of the input fill images up to a multiple.
_WINOGRAD_SIDES = {3: (4, 6), 5: (9, 13)}
_FILLED_IMAGES = 16
# Results of 5 x 5 filters over few channels in bfloat16, for which the ranking has the kernel that needs no scratch
# memory: of three that an H200 ran or ranked, two (96 outputs, 14 and 20 images of 256 x 256) go by these transforms.
_DIRECT_ENGINE, _WIDE_FILTER = 28, 5
_WIDE_FILTER_CHANCE = 0.67


def is_product(problem: Any) -> bool:
    return not problem.channels_last and _is_pointwise(problem)


def is_product_by_pixels(problem: Any) -> bool:
    """Pixels lie in one run, each with its channels: the layer is one product over all images."""
    return problem.channels_last and problem.dtype.itemsize == 4 and _is_pointwise(problem)


def is_unaligned_by_pixels(problem: Any) -> bool:
    """The same in half precision, with channels that other kernels would copy to fill them up."""
    odd = any(n % _ALIGNED for n in problem.w[:2])
    return problem.channels_last and problem.dtype.itemsize == 2 and odd and _is_pointwise(problem)


def _is_pointwise(problem: Any) -> bool:
    return (
        problem.groups == 1
        and all(k == 1 for k in problem.w[2:])
        and all(s == 1 for s in problem.stride)
        and not any(problem.padding)
    )


def product_by_pixels(problem: Any, which: str) -> int:
    """The weight's gradient is summed in as many parts as fill the card, each with a copy of its own."""
    if which != "grad_weight":
        return _PRODUCT_HEADER
    weights = problem.w[0] * problem.w[1]
    tile = next((area for least, area in _PRODUCT_TILES if weights >= least), _PRODUCT_SMALL_TILE)
    parts = min(
        _MULTIPROCESSORS * tile // weights, prod((problem.y[0], *problem.y[2:])) // _PRODUCT_ROWS
    )
    return parts * weights * 4 + _PRODUCT_PARTS_HEADER if parts > 2 else _PRODUCT_HEADER


def could_be_winograd(problem: Any, which: str) -> bool:
    """Gradients of 3 x 3 filters; those of inputs in half precision alone, as in float32 none was ranked first."""
    return (
        which == "grad_weight" or (which == "grad_input" and problem.dtype.itemsize == 2)
    ) and _slides_alone(problem, 3)


def _slides_alone(problem: Any, side: int) -> bool:
    """A square filter of that side that moves by single pixels, over whole channels one after another."""
    return (
        not problem.channels_last
        and not problem.transposed
        and problem.groups == 1
        and list(problem.w[2:]) == [side, side]
        and all(n == 1 for n in (*problem.stride, *problem.dilation))
    )


def _has_wide_filter(problem: Any, choice: Any | None) -> bool:
    return (
        problem.dtype == torch.bfloat16
        and _slides_alone(problem, _WIDE_FILTER)
        and choice is not None
        and choice.engine == _DIRECT_ENGINE
    )


def features(problem: Any, choice: Any) -> tuple:
    """What is known without a device, the kernel ranked first among the others included.

    The trees name each by its place; a new one goes to the end.
    """
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


@lru_cache(maxsize=16)
def parsed(text: str) -> tuple:
    """Trees from their text, one a paragraph; a branch is (feature, threshold, answer up to it, above it)."""
    return tuple(_tree(iter(part.split())) for part in text.split("\n\n") if part.strip())


def _tree(words: Iterator[str]) -> Any:
    word = next(words)
    if "<" not in word:
        return int(word)
    feature, threshold = word.split("<")
    return int(feature), float(threshold), _tree(words), _tree(words)


def chance(trees: tuple, values: Sequence[float]) -> float:
    """How likely it is that the kernel is taken: the trees add up to 100 times the logarithm of its odds."""
    return 1 / (1 + exp(-sum(_leaf(tree, values) for tree in trees) / 100))


def _leaf(tree: Any, values: Sequence[float]) -> float:
    while isinstance(tree, tuple):
        feature, threshold, low, high = tree
        tree = low if values[feature] <= threshold else high
    return tree


def left_out(problem: Any, which: str, choice: Any | None) -> tuple[int, float] | None:
    """The workspace of such a kernel, and how likely cuDNN takes it; None where there is none."""
    if is_product(problem):
        if _is_unaligned(problem):
            large = prod(problem.y[2:]) > _NOT_COPIED_PIXELS
            return None if large and which == "grad_weight" else (product(problem, which), 1)
        if which != "grad_weight" and len(problem.w) > 4:
            return product(problem, which), 1
        if which == "grad_weight" and _is_unfitted(problem):
            return _unfitted(problem, choice)
        kind, size = which, product(problem, which)
    elif which == "grad_input" and _has_few_inputs(problem):
        return fourier.of_input_gradient(problem), _FEW_INPUTS_CHANCE
    elif could_be_winograd(problem, which):
        if which == "grad_weight" and _is_transformed(problem, choice):
            return fourier.workspace(problem, which), _TRANSFORMED_CHANCE
        kind = "winograd" if which == "grad_weight" else "winograd_input"
        size = winograd(problem, which)
    elif which == "forward" and _has_wide_filter(problem, choice):
        return winograd(problem, which), _WIDE_FILTER_CHANCE
    else:
        return None
    trees = FORESTS.get((kind, problem.dtype.itemsize))
    if trees is None:
        return None
    likely = chance(parsed(trees), features(problem, choice))
    return size, max(likely, _least_chance(problem, which)) if kind == which else likely


def _is_unfitted(problem: Any) -> bool:
    return len(problem.w) > 4 or prod(problem.y[2:]) > _MEASURED_PIXELS


def _unfitted(problem: Any, choice: Any | None) -> tuple[int, float] | None:
    """The weight's gradient over larger images than the trees were fitted to, or over clips."""
    which = "grad_weight"
    if problem.dtype.itemsize == 4:
        return (product(problem, which), _CLIP_CHANCE) if len(problem.w) > 4 else None
    trees = parsed(FORESTS[which, problem.dtype.itemsize])
    likely = chance(trees, features(problem, choice))
    if likely < _VERY_SURE:
        likely = min(likely, _NOT_SURE_CHANCE)
    return product(problem, which), likely


def _least_chance(problem: Any, which: str) -> float:
    height, width = problem.y[-2:]
    known = which == "grad_weight" and problem.dtype.itemsize == 4 and width >= _LONG * height
    return _LONG_CHANCE if known else 0.0


def _is_unaligned(problem: Any) -> bool:
    return (
        problem.dtype.itemsize == 2
        and problem.w[0] % _ALIGNED != 0
        and prod(problem.y[2:]) >= _COPIED_PIXELS
    )


def keeps_size(problem: Any) -> bool:
    """Whether images come out as large as they went in."""
    return all(2 * p + 1 == n for p, n in zip(problem.padding, problem.w[2:]))


def _is_transformed(problem: Any, choice: Any | None) -> bool:
    """Where Fourier's transforms win the gradient of a 3 x 3 filter."""
    if choice is None or problem.dtype.itemsize != 4 or keeps_size(problem):
        return False
    knobs = choice.knobs
    return (
        knobs.get(_TILE) == _TRANSFORMED_TILE
        and knobs.get(_CLUSTER_M, 0) * knobs.get(_CLUSTER_N, 0) == _TRANSFORMED_CLUSTER
        and problem.y[0] >= _TRANSFORMED_IMAGES
        and prod(problem.y[2:]) <= _TRANSFORMED_PIXELS
        and problem.w[1] in _TRANSFORMED_INPUTS
        and problem.w[0] in _TRANSFORMED_OUTPUTS
    )


def _has_few_inputs(problem: Any) -> bool:
    outputs, inputs = problem.w[:2]
    return (
        problem.dtype == torch.float16
        and not problem.channels_last
        and not problem.transposed
        and list(problem.w[2:]) == [3, 3]
        and all(n == 1 for n in problem.stride)
        and inputs in _FEW_INPUTS
        and outputs >= _TIMES_OUTPUTS * inputs
        and problem.y[0] * prod(problem.y[2:]) >= _MANY_PIXELS
        and fourier.of_input_gradient(problem) > 0
    )


def product(problem: Any, which: str) -> int:
    """The weight's gradient is worked out for each image, and summed up afterwards."""
    return problem.x[0] * prod(problem.w) * 4 if which == "grad_weight" else 0


def winograd(problem: Any, which: str) -> int:
    made = problem.x if which == "grad_input" else problem.y
    images = made[0] if which == "grad_weight" else -(-made[0] // _FILLED_IMAGES) * _FILLED_IMAGES
    results, values = _WINOGRAD_SIDES[problem.w[-1]]
    tiles = images * prod(-(-n // results) for n in made[2:])
    outputs, inputs = problem.w[:2]
    return values**2 * 4 * (tiles * (outputs + inputs) + outputs * inputs)
