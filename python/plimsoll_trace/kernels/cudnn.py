"""Workspaces of convolutions: cuDNN's own choice where the library is there, else its usual way."""

from __future__ import annotations

import ctypes
from copy import copy
from functools import lru_cache
from math import inf, prod
from typing import Any, NamedTuple

import torch

from ..gpu import H200, Gpu, cudnn_properties
from . import fourier, unranked
from .cudnn_library import Choice, Cudnn, allows_tf32, is_deterministic
from .fitted import models
from .split_k import Workspace, workspace_on_device

# How likely cuDNN runs a convolution by Fourier transform, where it leaves these kernels out of its list.
#
# Fitted to what it ranked first on an H200 for 109,486 layers in float32 with filters of 3 x 3, 5 x 5 and 7 x 7:
# of the gradients of weights 6 in 100, of inputs 3, and of the results of 7 x 7 filters 14.

_FILTERS = ([3, 3], [5, 5], [7, 7])
# Of results with filters of 3 x 3 none of 16,318 goes by transform.
_FILTERS_OF_RESULTS = _FILTERS[1:]


def features(problem: Any, choice: Any) -> dict[str, float]:
    return {**unranked.features(problem, choice), "filter width": problem.w[-1]}


def likely_transform(problem: Any, which: str, choice: Any) -> tuple[int, float]:
    """The workspace of such a kernel, and its chance; 0 where it is none of the kinds that were asked about."""
    rule = unranked.rule_for("transforms", problem, which, choice)
    if rule is not None:
        return fourier.workspace(problem, which), rule.chance
    size = fourier.workspace(problem, which) if _is_asked_about(problem, which) else 0
    if size == 0:
        return 0, 0.0
    chance = models.table("transforms").chance(which, features(problem, choice))
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
        and unranked.keeps_size(problem)
    )


_HOPPER = 90

# Without a device cuDNN leaves out its kernels for channels-last layers in half precision whose channels stay apart.
# An H200 was asked about 372 (bench/truth/asked-convolutions.json.xz): gradients of inputs take no workspace with
# any filter, results with filters of these sizes and no dilation neither. Gradients of such weights are summed in so
# many parts of each image, with the channels filled up; over at most so many images and pixels they need no parts,
# and over small results of 7 x 7 filters with a stride it is the ranked kernel. Three 1 x 1 layers were measured.
_DEPTHWISE_FILTERS = ([1, 1], [3, 3], [5, 5], [7, 7])
_DEPTHWISE_PARTS, _DEPTHWISE_CHANNELS = 8, 32
_DEPTHWISE_FEW_IMAGES, _DEPTHWISE_FEW_PIXELS = 20, 800
_DEPTHWISE_SMALL = 8 * 8

# Groups of four channels, as in ResNeXt. Of seven layers with fewer groups that copy without a device, six copy on an
# H200, too.
_MANY_GROUPS = 32

# Below this chance a Fourier transform is not counted on: few of those layers take one, and of the 1,644 in known
# networks none.
_UNLIKELY = 0.25

_cache: dict[tuple, Workspace] = {}


# The first with TF32: float32 convolutions run on tensor cores, which read pixel by pixel.
_FIRST_WITH_TF32 = 80
# Tensors are copied with their channels filled up to this many bytes.
_STEP = 16
# Fewer input channels than this stay where they are.
_FEW_CHANNELS = 8


def usual_before_hopper(problem: Any, which: str, capability: int) -> int:
    """Workspaces of convolutions before Hopper, for when cuDNN cannot be asked.

    Read off cuDNN's own answers about such cards (9.8 and newer can be asked), and held against published
    runs of an RTX 3060 with cuDNN 9.1. These show that 1 x 1 filters run as matrix products there: the weight's
    gradient is kept for each image, 1.6 MB an image in the last layer of MobileNetV2.
    """
    x, y = (_padded(shape, problem) for shape in (problem.x, problem.y))
    wide = problem.dtype.itemsize >= 4
    if wide and capability < _FIRST_WITH_TF32:
        return 0
    if problem.channels_last:
        # Each channel for itself: every one of them is filled up.
        apart = problem.groups > 1 and problem.groups == problem.x[1]
        return x + y if apart and wide and which == "forward" else 0
    if unranked.is_product(problem) and wide and prod(problem.y[2:]) > 1:
        return unranked.product(problem, which)
    if all(k == 1 for k in problem.w[2:]) or problem.x[1] < _FEW_CHANNELS:
        return 0
    if which == "grad_weight":
        return x + y
    if which == "forward":
        return x
    return 0 if wide else x + y


def _padded(shape: Any, problem: Any) -> int:
    """Bytes of a copy in which the channels of each group fill whole steps."""
    size = problem.dtype.itemsize
    step = max(1, _STEP // size)
    in_group = -(-shape[1] // problem.groups)
    channels = -(-in_group // step) * step * problem.groups
    return prod([shape[0], channels, *shape[2:]]) * size


@lru_cache(maxsize=8)
def library(gpu: Gpu = H200) -> Cudnn | None:
    try:
        return Cudnn(cudnn_properties(gpu))
    except Exception:
        return None


@lru_cache(maxsize=1)
def lists_all() -> bool:
    """Whether a GPU is at hand: then cuDNN leaves no kernel out, whichever card it is told about."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int()
        return (
            driver.cuInit(0) == 0
            and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 < count.value
        )
    except (OSError, AttributeError):
        return False


def workspace(problem: Any, which: str, gpu: Gpu = H200) -> int:
    """Bytes of the kernel that is likely to run."""
    return workspaces(problem, which, gpu).bytes


def workspaces(problem: Any, which: str, gpu: Gpu = H200) -> Workspace:
    key = problem_key(problem, which, gpu)
    if key not in _cache:
        _cache[key] = _workspaces(problem, which, gpu)
    return _cache[key]


class Trial(NamedTuple):
    """Bytes of the largest kernel that `cudnn.benchmark` tries, and of the largest that is sure to be tried."""

    bytes: int
    sure: int


def trial(problem: Any, which: str, gpu: Gpu = H200, room: float = inf) -> Trial:
    """While all kernels are tried that fit into the room: one buffer for the largest."""
    sizes = [0, workspace(problem, which, gpu)]
    known = library(gpu)
    transform = 0
    if not lists_all():
        if not (known is not None and known.cuts(problem, which)):
            transform = fourier.workspace(problem, which)
        # With deterministic kernels alone, the card tried no product that sums the weight's gradient.
        if unranked.is_product(problem) and not (is_deterministic() and which == "grad_weight"):
            sizes.append(unranked.product(problem, which))
    if known is not None and problem.dtype.itemsize <= 4:
        tried = known.tried(problem, which)
        sizes += [_on_device(problem, which, one, gpu).bytes for one in tried]
    sure = max(size for size in sizes if size == 0 or size <= room)
    return Trial(transform if sure < transform <= room else sure, sure)


def problem_key(problem: Any, which: str, gpu: Gpu) -> tuple:
    """All that cuDNN's answer depends on."""
    return (
        gpu,
        which,
        is_deterministic(),
        allows_tf32(),
        *map(
            tuple,
            (problem.x, problem.w, problem.y, problem.stride, problem.padding, problem.dilation),
        ),
        problem.dtype,
        problem.channels_last,
        problem.groups,
    )


def _workspaces(problem: Any, which: str, gpu: Gpu) -> Workspace:
    known = library(gpu)
    choice = None
    if known is not None and problem.dtype.itemsize <= 4:
        choice = known.choose(problem, which, fallback=gpu.capability == _HOPPER)
    if choice is None:
        if gpu.capability < _HOPPER:
            return Workspace(usual_before_hopper(problem, which, gpu.capability))
        return Workspace(usual(problem, which))
    if gpu.capability != _HOPPER:
        return Workspace(choice.workspace)
    ranked = _ranked(problem, which, choice, gpu)
    if unranked.is_product_by_pixels(problem) and not lists_all() and allows_tf32():
        size = unranked.product_by_pixels(problem, which)
        if which != "grad_weight":
            return Workspace(size)
        return Workspace(
            size, ranked.bytes, round(1 - unranked.chance_by_pixels(problem, which), 2)
        )
    left_out = None if lists_all() else _left_out(problem, which, choice, gpu)
    if left_out is None:
        return ranked
    size, chance = left_out
    if chance > 0.5:
        return Workspace(size, ranked.bytes, round(1 - chance, 2))
    return ranked if ranked.chance > chance else Workspace(ranked.bytes, size, round(chance, 2))


def _left_out(problem: Any, which: str, choice: Choice, gpu: Gpu) -> tuple[int, float] | None:
    """The likeliest of the kernels that cuDNN leaves out of its ranking without a device."""
    if unranked.is_unaligned_by_pixels(problem):
        size = unranked.product_by_pixels(problem, which)
        return min(size, choice.workspace), unranked.chance_by_pixels(problem, which)
    transform = likely_transform(problem, which, choice)
    other = unranked.left_out(problem, which, _as_fitted(problem, which, choice, gpu))
    # The products use tensor cores.
    if problem.dtype == torch.float32 and unranked.is_product(problem) and not allows_tf32():
        other = None
    if transform[1] < _UNLIKELY or (other is not None and other[1] > transform[1]):
        return other
    return transform


def _as_fitted(problem: Any, which: str, choice: Choice | None, gpu: Gpu) -> Choice | None:
    """What bfloat16 ranks first, for a layer in float16: the choices were fitted to that.

    Products and transforms are taken alike in both, but float16's ranking has tiles that no fit has seen.
    """
    fitted = unranked.is_product(problem) or unranked.could_be_winograd(problem, which)
    if problem.dtype != torch.float16 or not fitted:
        return choice
    known = library(gpu)
    if known is None:
        return choice
    twin = copy(problem)
    twin.dtype = torch.bfloat16
    return known.choose(twin, which)


def _ranked(problem: Any, which: str, choice: Choice, gpu: Gpu) -> Workspace:
    """What the kernel takes that cuDNN ranks first without a device."""
    if _apart(problem):
        return Workspace(_of_channels_apart(problem, which, choice))
    if which == "grad_weight" and _in_fours(problem):
        return Workspace(0)
    return _on_device(problem, which, choice, gpu)


def _on_device(problem: Any, which: str, choice: Choice, gpu: Gpu) -> Workspace:
    """The workspace that cuDNN gave a kernel without a device, as it is with one."""
    if gpu.capability == _HOPPER and _clustered(choice):
        return workspace_on_device(problem, which, choice.knobs, choice.workspace)
    return Workspace(choice.workspace)


def _apart(problem: Any) -> bool:
    """Pixel by pixel and each channel for itself, in half precision."""
    alone = problem.groups > 1 and problem.groups == problem.x[1] == problem.w[0]
    return problem.channels_last and alone and problem.dtype.itemsize == 2


def _of_channels_apart(problem: Any, which: str, choice: Choice) -> int:
    filters = list(problem.w[2:])
    if which == "grad_input":
        return 0
    if filters not in _DEPTHWISE_FILTERS or any(n != 1 for n in problem.dilation):
        return choice.workspace
    if which == "forward":
        return 0
    images, pixels = problem.y[0], prod(problem.y[2:])
    if images <= _DEPTHWISE_FEW_IMAGES and images * pixels <= _DEPTHWISE_FEW_PIXELS:
        return 0
    if filters == [7, 7] and max(problem.stride) > 1 and pixels <= _DEPTHWISE_SMALL:
        return choice.workspace
    channels = -(-problem.w[0] // _DEPTHWISE_CHANNELS) * _DEPTHWISE_CHANNELS
    return _DEPTHWISE_PARTS * images * channels * prod(filters) * 4


def _in_fours(problem: Any) -> bool:
    """Many groups of four channels in half precision: cuDNN has kernels of its own for these, too."""
    fours = problem.w[1] == 4 and problem.w[0] == 4 * problem.groups
    return fours and problem.groups >= _MANY_GROUPS and problem.dtype.itemsize == 2


def _clustered(choice: Choice) -> bool:
    """Hopper's kernels, whose split of the sum depends on how many clusters fit on the device."""
    return 27 in choice.knobs and 28 in choice.knobs


def _copies(problem: Any) -> int:
    """NCHW tensors are copied into NHWC with their channels filled up to 16 bytes."""
    size = problem.dtype.itemsize
    step = max(1, 16 // size)

    def padded(shape, *dims):
        return prod(-(-n // step) * step if i in dims else n for i, n in enumerate(shape)) * size

    if problem.channels_last:
        return 0
    total = padded(problem.x, 1) + padded(problem.y, 1) + 16
    return total if all(k == 1 for k in problem.w[2:]) else total + padded(problem.w, 0, 1)


def usual(problem: Any, which: str) -> int:
    """What holds for most convolutions, for when cuDNN cannot be asked."""
    return unranked.product(problem, which) if unranked.is_product(problem) else _copies(problem)
