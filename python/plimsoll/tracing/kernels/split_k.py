"""Partial sums of Hopper's convolution kernels.

Tiles of the result that do not fill the device's last wave are each summed by several clusters,
every one of which keeps its part in the workspace.
"""

from __future__ import annotations

from math import prod
from typing import Any, Callable

from .workspace import Workspace

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
}
# How many clusters of each size run at once on 132 multiprocessors.
_CLUSTERS = {1: 132, 2: 66, 3: 39, 4: 30, 5: 22, 6: 17, 7: 15, 8: 15, 16: 7}
# Without a device cuDNN counts on so many multiprocessors, whatever it is told.
_WITHOUT_DEVICE = 18
# Kernels that stay for more than two waves take tiles off a counter.
_COUNTER, _COUNTER_AND_LOCKS, _LOCKS = 131, 163, 159
# Without whole waves before, a sum that is long enough for more than so many parts gets as many as fit at once, each of
# more steps than these, by the size of a value; then only as many as the longest of them calls for.
_MANY_PARTS, _STEPS_OF_MANY, _MAX_PARTS = 8, {2: 16, 4: 32}, 128
# Fewer parts are added up in a tree. What its levels cost, in steps of the sum, decides on how many there are. All of
# these are fitted to what 2,000 convolutions took on an H200: of the sums without whole waves before, 98 in 100 follow
# to the byte. Of 327 lines that were measured afterwards, 313 did in float32 and 320 in bfloat16.
_TINY_TILE, _SMALL_TILE, _LARGE_TILE = 64 * 64, 128 * 64, 256 * 128
# In half precision each level costs the same; the weight's gradient more, the most with small tiles.
_LEVEL_OF_IMAGES = 49
_LEVEL_OF_WEIGHTS = ((_SMALL_TILE + 1, 55), (_TINY_TILE + 1, 70), (0, 105))
# In float32: the first, the second, each of the others. Of more than a few small tiles the first costs more.
_LEVELS, _LEVELS_OF_LARGE_TILES, _FEW_TILES = (13, 13, 15.8), (10.5, 10.5, 13), 4
_FIRST_OF_TINY_TILES, _FIRST_OF_SMALL_TILES, _FIRST_OF_SMALL_WEIGHTS = 24, 17, 20
# Beside whole waves, in float32, the cost is that of a root of their number; tiny tiles of images cost by level.
_COST_BESIDE_WAVES, _COST_OF_WEIGHTS_BESIDE_WAVES, _ROOT = 36, 44, 0.3
_LEVEL_BESIDE_WAVES = {2: 26, 4: 9.5}
# How often the next best number of parts was taken instead, by how much slower it seems.
_NEXT_IS_TAKEN = ((0.03, 0.15), (0.2, 0.06))


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
    if which == "grad_weight":
        tiles_m, tiles_n = _ceil(outputs, rows), filters * _ceil(inputs, columns)
        depth = problem.y[0] * prod(problem.y[2:])
        in_tile = min(rows // _power_of_two(outputs), columns // _power_of_two(inputs))
    elif which == "forward":
        tiles_m, tiles_n = _ceil(problem.y[0] * prod(problem.y[2:]), rows), _ceil(outputs, columns)
        depth = inputs * filters
        in_tile = columns // _power_of_two(outputs)
    else:
        tiles_m, tiles_n = _ceil(problem.x[0] * prod(problem.x[2:]), rows), _ceil(inputs, columns)
        depth = outputs * filters
        in_tile = columns // _power_of_two(inputs)
    # Small groups share a tile, each with its channels filled up to a power of two.
    packs = _ceil(problem.groups, max(1, in_tile))
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

    steps, most = depth * size / 128, at_once // last
    many = 0 if waves else _many_parts(int(steps), size, most)
    if many:
        return [(steps / many, scratch(many))]
    cost = _cost(which, size, waves > 0, last, rows * columns)
    # Of equal ones the smaller.
    ways = sorted((steps / parts + cost(parts), parts) for parts in range(1, most + 1))
    return [(time, scratch(parts)) for time, parts in ways[:2]]


def _many_parts(steps: int, size: int, most: int) -> int:
    """How many parts a long sum has, where there are many; else 0."""
    room = min(most, _MAX_PARTS, steps // (_STEPS_OF_MANY[size] + 1))
    return _ceil(steps, _ceil(steps, room)) if room > _MANY_PARTS else 0


def _cost(which: str, size: int, after_waves: bool, last: int, tile: int) -> Callable[[int], float]:
    """What it costs to add up so many parts of the last tiles."""
    weights = which == "grad_weight"
    if (size, after_waves) == (4, True) and (weights or tile > _TINY_TILE):
        limit = _COST_OF_WEIGHTS_BESIDE_WAVES if weights else _COST_BESIDE_WAVES
        return lambda parts: limit * (1 - parts**-_ROOT)
    first, second, others = _levels(weights, size, after_waves, last, tile)

    def by_level(parts: int) -> float:
        level = (parts - 1).bit_length()
        return first * (level > 0) + second * (level > 1) + others * max(0, level - 2)

    return by_level


def _levels(
    weights: bool, size: int, after_waves: bool, last: int, tile: int
) -> tuple[float, float, float]:
    """What the levels of the tree cost: the first, the second, each of the others."""
    if after_waves:
        return (_LEVEL_BESIDE_WAVES[size],) * 3
    if size == 2:
        level = _LEVEL_OF_IMAGES
        if weights:
            level = next(cost for least, cost in _LEVEL_OF_WEIGHTS if tile >= least)
        return (level,) * 3
    if tile >= _LARGE_TILE:
        return _LEVELS_OF_LARGE_TILES
    first, second, others = _LEVELS
    if tile <= _SMALL_TILE and last > _FEW_TILES:
        first = _FIRST_OF_SMALL_WEIGHTS if weights else _FIRST_OF_SMALL_TILES
        if tile <= _TINY_TILE:
            first = _FIRST_OF_TINY_TILES
    return first, second, others


def _joins(parts: int) -> int:
    """Places in the tree where two parts, or one that is left over, are handed on."""
    joins = 0
    while parts > 1:
        parts = _ceil(parts, 2)
        joins += parts
    return joins
