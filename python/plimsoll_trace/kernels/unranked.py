"""Kernels that cuDNN leaves out of its ranking where it has no device: matrix products and transforms.

When it takes them was measured on an H200 and fitted (`fitted`); what they ask for is exact.
"""

from __future__ import annotations

from math import inf, prod
from typing import Any, Callable

from . import fourier
from .fitted import models

# Rows and columns of the tiles that most kernels work on, and the knobs that say which tile and cluster it is.
_SIDE = 128
_TILE, _CLUSTER_M, _CLUSTER_N = 2, 27, 28
# In half precision other kernels want channels in such multiples, and would copy all images into them.
_ALIGNED = 8
_PRODUCT_HEADER, _PRODUCT_PARTS_HEADER = 400, 256
_PRODUCT_TILES, _PRODUCT_SMALL_TILE = ((1 << 16, 1 << 15), (1 << 14, 1 << 14)), 1 << 13
_PRODUCT_ROWS, _MULTIPROCESSORS = 690, 132
# Winograd's transforms in float32: by the side of the filter, that of the results and that of the values they become.
# Results and the gradient of the input fill images up to a multiple.
_WINOGRAD_SIDES = {3: (4, 6), 5: (9, 13)}
_FILLED_IMAGES = 16


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
        (which == "grad_weight" or (which == "grad_input" and problem.dtype.itemsize == 2))
        and list(problem.w[2:]) == [3, 3]
        and _slides_alone(problem)
    )


def _slides_alone(problem: Any) -> bool:
    """A filter that moves by single pixels, over whole channels one after another."""
    return (
        not problem.channels_last
        and not problem.transposed
        and problem.groups == 1
        and all(n == 1 for n in (*problem.stride, *problem.dilation))
    )


def features(problem: Any, choice: Any) -> dict[str, float]:
    """What the trees may ask: all that is known without a device, the kernel ranked first among the others included."""
    images, inputs, outputs = problem.y[0], problem.w[1], problem.w[0]
    pixels = prod(problem.y[2:])
    everywhere = images * pixels
    by_image, tiles = (
        _tiles(outputs) * _tiles(pixels) * images,
        _tiles(outputs) * _tiles(everywhere),
    )
    of_weights = _tiles(outputs) * _tiles(inputs)
    return {
        "images": images,
        "inputs": inputs,
        "outputs": outputs,
        "pixels": pixels,
        "images * pixels": everywhere,
        "inputs * outputs": inputs * outputs,
        "inputs / outputs": inputs / outputs,
        "images * pixels * inputs": everywhere * inputs,
        "images * pixels * outputs": everywhere * outputs,
        "pixels % 8": pixels % 8,
        "inputs % 32": inputs % 32,
        "outputs % 32": outputs % 32,
        "max(inputs, outputs)": max(inputs, outputs),
        "min(inputs, outputs)": min(inputs, outputs),
        "ranked engine": choice.engine if choice else -1,
        "ranked workspace": choice.workspace if choice else -1,
        "pixels % 4": pixels % 4,
        "inputs % 8": inputs % 8,
        "outputs % 8": outputs % 8,
        "pixels % 32": pixels % 32,
        "output tiles of images": by_image,
        "input tiles of images": _tiles(inputs) * _tiles(pixels) * images,
        "weight tiles": of_weights,
        "output tiles": tiles,
        "input tiles": _tiles(inputs) * _tiles(everywhere),
        "weight tiles * images": of_weights * images,
        "output tiles of images / output tiles": by_image / tiles,
        "pixels / outputs": pixels / outputs,
        "pixels / inputs": pixels / inputs,
        "ranked tile": _tile(choice),
        "ranked cluster": _cluster(choice),
        "width": problem.y[-1],
        "product workspace": product(problem, "grad_weight"),
        "min(pixels, inputs, outputs)": min(pixels, inputs, outputs),
        "pixels * inputs": pixels * inputs,
        "pixels * outputs": pixels * outputs,
    }


def _tile(choice: Any | None) -> int:
    return choice.knobs.get(_TILE, -1) if choice else -1


def _cluster(choice: Any | None) -> int:
    knobs = choice.knobs if choice else {}
    return knobs.get(_CLUSTER_M, 0) * knobs.get(_CLUSTER_N, 0)


def _tiles(n: int) -> int:
    return -(-n // _SIDE)


# What the rows of rules.json may ask about a layer, one of its gradients and the kernel that is ranked first.
FACTS: dict[str, Callable[[Any, str, Any], models.Fact]] = {
    "dtype": lambda problem, *_: str(problem.dtype).rpartition(".")[2],
    "bytes": lambda problem, *_: problem.dtype.itemsize,
    "product": lambda problem, *_: is_product(problem),
    "slides alone": lambda problem, *_: _slides_alone(problem),
    "keeps size": lambda problem, *_: keeps_size(problem),
    "filter": lambda problem, *_: " x ".join(map(str, problem.w[2:])),
    "filter pixels": lambda problem, *_: prod(problem.w[2:]),
    "filter is image": lambda problem, *_: list(problem.w[2:]) == list(problem.x[2:]),
    "channels last": lambda problem, *_: problem.channels_last,
    "transposed": lambda problem, *_: problem.transposed,
    "stride": lambda problem, *_: max(problem.stride),
    "dimensions": lambda problem, *_: len(problem.w) - 2,
    "images": lambda problem, *_: problem.y[0],
    "inputs": lambda problem, *_: problem.w[1],
    "outputs": lambda problem, *_: problem.w[0],
    "outputs % 8": lambda problem, *_: problem.w[0] % 8,
    "outputs / inputs": lambda problem, *_: problem.w[0] / problem.w[1],
    "pixels": lambda problem, *_: prod(problem.y[2:]),
    "images * pixels": lambda problem, *_: problem.y[0] * prod(problem.y[2:]),
    "width / height": lambda problem, *_: problem.y[-1] / problem.y[-2] if problem.y[-2] else inf,
    "ranked engine": lambda _problem, _which, choice: choice.engine if choice else -1,
    "ranked tile": lambda _problem, _which, choice: _tile(choice),
    "ranked cluster": lambda _problem, _which, choice: _cluster(choice),
    "transform": lambda problem, which, _: fourier.workspace(problem, which),
    "input transform": lambda problem, *_: fourier.of_input_gradient(problem),
}


def rule_for(group: str, problem: Any, which: str, choice: Any | None) -> models.Rule | None:
    """The rule of a group that holds for a layer; few layers were measured of its kind."""
    return models.first(group, which, lambda fact: FACTS[fact](problem, which, choice))


def left_out(problem: Any, which: str, choice: Any | None) -> tuple[int, float] | None:
    """The workspace of such a kernel, and how likely cuDNN takes it; None where there is none."""
    rule = rule_for("left out", problem, which, choice)
    if rule is not None and not rule.corrects_trees:
        size = WORKSPACES.get(rule.kernel)
        return None if size is None else (size(problem, which), rule.chance)
    if is_product(problem):
        name, size = which, product
    elif could_be_winograd(problem, which):
        name, size = "winograd" if which == "grad_weight" else "winograd_input", winograd
    else:
        return None
    trees = f"{name}/{problem.dtype.itemsize}"
    likely = models.table("convolutions").chance(trees, features(problem, choice))
    if likely is None:
        return None
    return size(problem, which), rule.corrected(likely) if rule else likely


def keeps_size(problem: Any) -> bool:
    """Whether images come out as large as they went in."""
    return all(2 * p + 1 == n for p, n in zip(problem.padding, problem.w[2:]))


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


# By the name that rules.json has for a kernel; what is ranked first is none of these.
WORKSPACES: dict[str, Callable[[Any, str], int]] = {
    "product": product,
    "winograd": winograd,
    "transform": fourier.workspace,
    "input transform": lambda problem, _: fourier.of_input_gradient(problem),
}


def chance_by_pixels(problem: Any, which: str) -> float:
    """How likely a layer whose pixels lie in one run is a product."""
    rule = rule_for("by pixels", problem, which, None)
    return rule.chance if rule else 0.0
