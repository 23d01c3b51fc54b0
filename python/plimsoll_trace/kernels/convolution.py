"""Convolutions: which backend runs them, and the workspace it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..gpu import Gpu
from ..ledger import WORKSPACE
from . import cudnn, fourier
from .reductions import reduce_over
from .registry import Launch, rule
from .split_k import Workspace

# Where two kernels differ by less, it does not matter which one runs.
_MATTERS = 1 << 20


class Problem:
    """One convolution as cuDNN sees it, with transposed and one-dimensional ones brought to one form."""

    def __init__(
        self,
        source: Any,
        weight: Any,
        result: Any,
        stride,
        padding,
        dilation,
        transposed: bool,
        groups: int,
    ):
        # A transposed convolution is the gradient of a plain one: its input is that one's output.
        image, out = (result, source) if transposed else (source, result)
        self.x = _four(image.shape)
        self.w = _four(weight.shape)
        self.y = _four(out.shape)
        spatial = len(self.x) - 2
        self.stride = _spread(stride, spatial, 1)
        self.padding = _spread(padding, spatial, 0)
        self.dilation = _spread(dilation, spatial, 1)
        self.groups = groups
        self.transposed = transposed
        self.dtype = source.dtype
        self.channels_last = channels_last(source) or channels_last(weight)

    @property
    def depthwise(self) -> bool:
        """PyTorch's own kernels take these, except for channels-last tensors; they need no workspace."""
        return (
            self.groups > 1
            and self.x[1] == self.groups
            and self.w[0] % self.x[1] == 0
            and not self.channels_last
            and len(self.x) == 4
            and not self.transposed
        )

    def workspace(self, which: str, gpu: Gpu) -> int:
        """Bytes for `forward`, `grad_input` or `grad_weight` of the plain form."""
        return self.workspaces(which, gpu).bytes

    def workspaces(self, which: str, gpu: Gpu) -> Workspace:
        return Workspace(0) if self.depthwise else cudnn.workspaces(self, which, gpu)


def _four(shape: Sequence[int]) -> list[int]:
    """Line convolutions run as images one pixel high."""
    sizes = list(shape)
    return [*sizes[:2], 1, sizes[2]] if len(sizes) == 3 else sizes


def _spread(values: Sequence[int], spatial: int, filler: int) -> list[int]:
    sizes = list(values)
    if len(sizes) == 1 and spatial == 2:
        return [filler, sizes[0]]
    return sizes * (spatial // len(sizes)) if len(sizes) < spatial else sizes


def channels_last(tensor: Any) -> bool:
    """Whether PyTorch takes a tensor to lie pixel by pixel, as `suggest_memory_format` does.

    An image one pixel wide that was turned round may lie so as well, yet its strides do not say it: it is copied.
    """
    return tensor.dim() == 4 and _go_by_pixels(tensor.shape, tensor.stride())


@rule("aten.convolution", "aten._convolution")
def convolution(launch: Launch) -> None:
    source, weight, _, stride, padding, dilation, transposed, _, groups = launch.args[:9]
    problem = Problem(
        source, weight, launch.outputs[0], stride, padding, dilation, transposed, groups
    )
    if cudnn.library(launch.gpu) is None:
        launch.note(
            "cuDNN could not be asked (9.8 or newer can be): convolution workspaces follow its usual choice"
        )
    copies = _copies(launch, problem, source)
    launch.place_all()
    _with_weight(launch, problem, weight, "grad_input" if transposed else "forward")
    launch.give(*reversed(copies))


@rule("aten.convolution_backward")
def convolution_backward(launch: Launch) -> None:
    grad, source, weight, _, stride, padding, dilation, transposed, _, groups, wanted = launch.args[
        :11
    ]
    problem = Problem(source, weight, grad, stride, padding, dilation, transposed, groups)
    # A line is brought into one run before all else, and stays so to the end.
    line = _copies(launch, problem, source) if source.dim() == 3 else []
    # A part of a larger gradient, such as that of torch.cat, is copied by each kernel for itself.
    parts = [grad] if _lies_in_layout(problem, grad) else []
    whole = [] if parts else [grad]
    copies = _copies(launch, problem, *whole, *([] if source.dim() == 3 else [source]))
    if problem.depthwise:
        launch.place(1)
    if wanted[0]:
        launch.place(0)
        which = "forward" if transposed else "grad_input"
        _with_weight(launch, problem, weight, which, *parts)
    if wanted[1]:
        read = _copies(launch, problem, *parts)
        launch.place(1)
        _run(launch, problem, "grad_weight")
        launch.give(*read)
    launch.give(*reversed(copies))
    if wanted[2]:
        launch.place(2)
        dims = [0, *range(2, grad.dim())]
        reduce_over(launch, grad, dims, max(4, grad.element_size()))
    launch.give(*line)


def _with_weight(launch: Launch, problem: Problem, weight: Any, which: str, *parts: Any) -> None:
    """The weight is brought to the common layout only when the memory for the result is there."""
    copies = _copies(launch, problem, weight, *parts)
    _run(launch, problem, which)
    launch.give(*reversed(copies))


def _lies_in_layout(problem: Problem, grad: Any) -> bool:
    """Whether cuDNN is given a gradient as it is: its strides go with the layout, gaps in it or not."""
    if problem.transposed or problem.depthwise:
        return False
    shape, strides = grad.shape, grad.stride()
    if grad.dim() == 3:
        shape = (*shape[:2], 1, shape[2])
        strides = (*strides[:2], shape[3] * strides[2], strides[2])
    return problem.channels_last == _go_by_pixels(shape, strides)


def _go_by_pixels(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether channels lie next to each other, then the pixels of a row, and so on; gaps may be between them."""
    if strides[1] == 0:
        return False
    least = 0
    for dim in (1, *range(len(shape) - 1, 1, -1), 0):
        if strides[dim] < least or (dim == 0 and least == strides[1]):
            return False
        least = strides[dim] * shape[dim]
    return True


def _run(launch: Launch, problem: Problem, which: str) -> None:
    if torch.backends.cudnn.benchmark and not problem.depthwise:
        _try_all(launch, problem, which)
    size, other, chance = problem.workspaces(which, launch.gpu)
    if chance == 0 or abs(size - other) < _MATTERS:
        launch.scratch(size, category=WORKSPACE)
        return
    ledger = launch.observer.ledger
    choice = launch.observer.choices.setdefault(
        cudnn.problem_key(problem, which, launch.gpu), len(launch.observer.choices)
    )
    ledger.unsure_scratch(size, other, chance, choice)


def _try_all(launch: Launch, problem: Problem, which: str) -> None:
    """At its first run each convolution is tried with all kernels; what is cached then goes back."""
    key = cudnn.problem_key(problem, which, launch.gpu)
    if key in launch.observer.tried:
        return
    launch.observer.tried.add(key)
    ledger = launch.observer.ledger
    room = launch.gpu.memory - ledger.live_bytes
    tried = cudnn.trial(problem, which, launch.gpu, room)
    if tried.bytes - tried.sure < _MATTERS:
        launch.scratch(tried.bytes, category=WORKSPACE)
    else:
        launch.observer.facts.guesses_trials = True
        # What keeps one layer from being tried with a transform may keep others with filters of this size.
        choices = launch.observer.choices
        choice = choices.setdefault(("tried", which, tuple(problem.w[2:])), len(choices))
        ledger.unsure_scratch(tried.bytes, tried.sure, fourier.UNTRIED[which], choice)
    ledger.empty_cache()


def _copies(launch: Launch, problem: Problem, *tensors: Any) -> list[int]:
    """All tensors are brought to the layout that input and weight suggest."""
    layout = torch.channels_last if problem.channels_last else torch.contiguous_format
    return [
        launch.take(t.numel() * t.element_size())
        for t in tensors
        if not t.is_contiguous(memory_format=layout if t.dim() == 4 else torch.contiguous_format)
    ]
