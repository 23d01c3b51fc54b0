"""Partial sums of Hopper's convolution kernels.

Tiles of the result that do not fill the device's last wave are each summed by several clusters,
every one of which keeps its part in the workspace.
"""

from __future__ import annotations

from math import prod
from typing import Any, Callable, NamedTuple

import torch

# Scratch memory of a kernel, where it is not sure which one runs.


class Workspace(NamedTuple):
    """Bytes of the likelier kernel, and those of another that runs with this chance."""

    bytes: int
    other: int = 0
    chance: float = 0


_TILE, _TILE_K, _WITHOUT_SPLIT, _CLUSTER_M, _CLUSTER_N = 2, 13, 25, 27, 28
# Rows and columns of a tile, by cuDNN's number for it.
_TILES = {
    0: (128, 128),
    1: (128, 64),
    2: (256, 192),
    3: (256, 128),
    4: (256, 64),
    5: (64, 64),
    6: (128, 256),
    7: (64, 128),
    8: (64, 192),
    9: (64, 256),
    16: (256, 32),
    18: (64, 192),
    20: (256, 96),
}
# How many clusters of each size run at once on 132 multiprocessors.
_CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15, 16: 7}
# Without a device cuDNN counts on so many multiprocessors, whatever it is told.
_WITHOUT_DEVICE = 18
# Kernels that stay for more than two waves take tiles off a counter.
_COUNTER, _COUNTER_AND_LOCKS, _LOCKS = 131, 163, 159
# A step of the sum takes so many bytes of the channels; in half precision some kernels take half as many.
_STEP, _SHORT_STEP = 128, 64
# A sum that is long enough for more than so many parts gets as many as fit at once, each of more steps than these, by
# the size of a value; then only as many as the longest of them calls for. After whole waves only gradients of weights
# in float32 with small tiles do.
_MANY_PARTS, _STEPS_OF_MANY, _MAX_PARTS = 8, {2: 16, 4: 32}, 128
_STEPS_AFTER_WAVES, _SMALL_TILE = 6, 2
# Fewer parts are added up in a tree. What its levels cost, in steps of the sum, decides on how many there are: the
# first, and each of the others, by the area of a tile in blocks of 64 x 64, alone or after whole waves. All of these
# are fitted to what cuDNN takes on an H200: of 2,981 sums without waves all but 12 follow, of 5,342 others 95 in 100.
_BLOCK = 64 * 64
_LEVELS = {
    False: ((8, 11, 11), (4, 13, 13), (2, 16, 16), (1, 24, 24)),
    True: ((2, 6, 5), (1, 9.5, 9.5)),
}
_LEVELS_OF_SMALL_WEIGHTS = (20, 15.8)
_LEVELS_OF_BFLOAT16 = {
    False: ((8, 44, 44), (4, 49, 49), (2, 70, 70), (1, 105, 105)),
    True: ((8, 24, 24), (4, 26, 26), (2, 30, 30), (1, 40, 40)),
}
# After whole waves large tiles, wide ones, and the weight's gradient, cost by a root of the number of parts: so much
# in all, and that root.
_LARGE_TILE, _WIDE_TILE = 6, 256
_COST_OF_LARGE_TILES, _COST_OF_WEIGHTS = (32, 0.32), (48, 0.3)
# How often the next best number of parts was taken instead, by how much slower it seems.
_NEXT_IS_TAKEN = ((0.02, 0.25), (0.12, 0.06))


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def workspace_on_device(
    problem: Any, which: str, knobs: dict[int, int], without_device: int
) -> Workspace:
    """The workspace on 132 multiprocessors of a kernel that cuDNN gave one without a device."""
    cluster = knobs[_CLUSTER_M] * knobs[_CLUSTER_N]
    counted = split_scratch(problem, which, knobs, max(1, _WITHOUT_DEVICE // cluster))[0][1]
    at_once = _CLUSTERS.get(cluster, max(1, 120 // cluster))
    (time, likelier), *others = split_scratch(problem, which, knobs, at_once)
    size = max(0, without_device - counted + likelier)
    if not others:
        return Workspace(size)
    next_time, other = others[0]
    chance = next((c for margin, c in _NEXT_IS_TAKEN if next_time < time * (1 + margin)), 0)
    return Workspace(size, max(0, without_device - counted + other), chance)


def split_scratch(
    problem: Any, which: str, knobs: dict[int, int], at_once: int
) -> list[tuple[float, int]]:
    """How the sum may be split where so many clusters run at once, the fastest way first: time and bytes."""
    if knobs.get(_TILE) not in _TILES:
        return [(0, 0)]
    rows, columns = _TILES[knobs[_TILE]]
    wide, high = knobs[_CLUSTER_M], knobs[_CLUSTER_N]
    cluster = wide * high
    filters = prod(problem.w[2:])
    outputs, inputs = problem.w[0] // problem.groups, problem.w[1]
    packs = problem.groups
    if which == "grad_weight":
        tiles_m, tiles_n = _ceil(outputs, rows), filters * _ceil(inputs, columns)
        depth = problem.y[0] * prod(problem.y[2:])
        # Small groups share a tile, each with its channels filled up to a power of two.
        in_tile = min(rows // _power_of_two(outputs), columns // _power_of_two(inputs))
        packs = _ceil(problem.groups, max(1, in_tile))
    elif which == "forward":
        tiles_m, tiles_n = _ceil(problem.y[0] * prod(problem.y[2:]), rows), _ceil(outputs, columns)
        depth = inputs
    else:
        tiles_m, tiles_n = _ceil(problem.x[0] * prod(problem.x[2:]), rows), _ceil(inputs, columns)
        depth = outputs
    tiles = _ceil(tiles_m, wide) * _ceil(tiles_n, high) * packs
    waves, last = divmod(tiles, at_once)
    stays = tiles > 2 * at_once
    counter = _COUNTER if stays else 0
    if last == 0 or knobs.get(_WITHOUT_SPLIT) != 0:
        return [(0, counter)]
    size = problem.dtype.itemsize
    shared = last * cluster

    def scratch(parts: int) -> int:
        if parts < 2:
            return counter
        locks = (_COUNTER_AND_LOCKS if stays else _LOCKS) + shared * _joins(parts) * 4
        return locks + shared * parts * rows * columns * 4

    step = _SHORT_STEP if size == 2 and knobs.get(_TILE_K) == 0 else _STEP
    steps = _ceil(depth * size, step) * (1 if which == "grad_weight" else filters)
    most = at_once // last
    blocks = rows * columns // _BLOCK
    least = _STEPS_OF_MANY[size]
    if waves:
        long = which == "grad_weight" and size == 4 and blocks == _SMALL_TILE
        least = _STEPS_AFTER_WAVES if long else steps
    many = _many_parts(steps * step // _STEP, least, most)
    if many:
        return [(steps / many, scratch(many))]
    is_large = blocks >= _LARGE_TILE or columns >= _WIDE_TILE
    cost = _cost(which, problem.dtype, waves > 0, blocks, is_large)
    # Of equal ones the smaller.
    ways = sorted(
        (_ceil(steps, parts) * step / _STEP + cost(parts), parts) for parts in range(1, most + 1)
    )
    return [(time, scratch(parts)) for time, parts in ways[:2]]


def _many_parts(steps: int, least: int, most: int) -> int:
    """How many parts of more than the least steps a long sum has, where there are many; else 0."""
    room = min(most, _MAX_PARTS, steps // (least + 1))
    return _ceil(steps, _ceil(steps, room)) if room > _MANY_PARTS else 0


def _cost(
    which: str, dtype: torch.dtype, after_waves: bool, blocks: int, is_large: bool
) -> Callable[[int], float]:
    """What it costs to add up so many parts."""
    # Steps of float16 have twice as many channels as those of float32: the same cost is half as many of them.
    share = 0.5 if dtype == torch.float16 else 1
    weights = which == "grad_weight"
    by_root = is_large or (weights and blocks > 1)
    if after_waves and by_root and dtype != torch.bfloat16:
        limit, root = _COST_OF_WEIGHTS if weights else _COST_OF_LARGE_TILES
        return lambda parts: share * limit * (1 - parts**-root)
    first, others = _levels(weights, dtype, after_waves, blocks)

    def by_level(parts: int) -> float:
        level = (parts - 1).bit_length()
        return share * (first * (level > 0) + others * max(0, level - 1))

    return by_level


def _levels(
    weights: bool, dtype: torch.dtype, after_waves: bool, blocks: int
) -> tuple[float, float]:
    """What the first level of the tree costs, and each of the others."""
    if dtype != torch.bfloat16 and weights and not after_waves and blocks == _SMALL_TILE:
        return _LEVELS_OF_SMALL_WEIGHTS
    known = _LEVELS_OF_BFLOAT16 if dtype == torch.bfloat16 else _LEVELS
    return next((first, others) for least, first, others in known[after_waves] if blocks >= least)


def _joins(parts: int) -> int:
    """Places in the tree where two parts, or one that is left over, are handed on."""
    joins = 0
    while parts > 1:
        parts = _ceil(parts, 2)
        joins += parts
    return joins
