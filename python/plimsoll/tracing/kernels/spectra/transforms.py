"""What `torch.fft` asks for on CUDA: results, copies of inputs that cuFFT cannot read as they lie, and its work area.

The order is that of PyTorch: dimensions that are not transformed come first, by their strides, as one; of the others
cuFFT takes up to three at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ..registry import Launch, rule
from .work_area import work_area

_AT_ONCE = 3


@dataclass(frozen=True)
class Laid:
    """How a tensor lies in memory."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    # Bytes of one of its numbers.
    element: int
    is_real: bool = False

    @classmethod
    def of(cls, tensor: Any) -> Laid:
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        return cls(shape, strides, tensor.element_size(), not tensor.is_complex())

    @property
    def bytes(self) -> int:
        return prod(self.sizes) * self.element

    def in_order(self, order: list[int], sizes: tuple[int, ...]) -> Laid:
        """Of other sizes, without gaps, the last of the order closest together."""
        strides, step = [0] * len(sizes), 1
        for dim in reversed(order):
            strides[dim] = step
            step *= sizes[dim]
        return Laid(sizes, tuple(strides), self.element, self.is_real)

    def packed(self) -> Laid:
        return self.in_order(list(range(len(self.sizes))), self.sizes)


@rule("aten._fft_r2c")
def from_real(launch: Launch) -> None:
    given, dims = _given(launch)
    if not dims:
        return
    laid = Laid.of(given)
    half = tuple(size // 2 + 1 if dim == dims[-1] else size for dim, size in enumerate(laid.sizes))
    result = Laid(half, (), 2 * laid.element)
    now, later = (dims, []) if _at_once(dims) else (dims[-1:], dims[:-1])
    first = _first(launch, later)
    # To cuFFT two real numbers are a complex one, which begins at a multiple of its size.
    copy = launch.take(laid.bytes) if given.storage_offset() % 2 else None
    done = _transform(launch, laid if copy is None else laid.packed(), now, result)
    launch.place_all()
    _stages(launch, done, later)
    _give(launch, copy, first)


@rule("aten._fft_c2r")
def to_real(launch: Launch) -> None:
    given, dims = _given(launch)
    if not dims:
        return
    laid = Laid.of(given)
    result = Laid(tuple(launch.outputs[0].shape), (), laid.element // 2, is_real=True)
    now, before = (dims, []) if _at_once(dims) else (dims[-1:], dims[:-1])
    launch.place_all()
    # cuFFT writes into its input: that is a copy, or what the other dimensions gave.
    copy = launch.take(laid.bytes)
    _transform(launch, _stages(launch, laid, before) if before else laid.packed(), now, result)
    _give(launch, copy)


@rule("aten._fft_c2c")
def between_complex(launch: Launch) -> None:
    given, dims = _given(launch)
    if not dims:
        return
    laid = Laid.of(given)
    dims = sorted(dims, key=lambda dim: -laid.strides[dim])
    now, later = dims[-_AT_ONCE:], dims[:-_AT_ONCE]
    first = _first(launch, later)
    done = _transform(launch, laid, now, laid)
    launch.place_all()
    _stages(launch, done, later)
    _give(launch, first)


def _given(launch: Launch) -> tuple[Any, list[int]]:
    """The input, and the dimensions that are transformed: none of an input without numbers."""
    given, dims = launch.argument(0, "self"), launch.argument(1, "dim")
    return given, [dim % given.dim() for dim in dims] if given.numel() else []


def _first(launch: Launch, later: list[int]) -> int | None:
    """Where more transforms are to come, what the first one gives lies elsewhere than the result."""
    if not later:
        launch.place_all()
        return None
    result = launch.outputs[0]
    return launch.take(result.numel() * result.element_size())


def _give(launch: Launch, *taken: int | None) -> None:
    launch.give(*(one for one in taken if one is not None))


def _at_once(dims: list[int]) -> bool:
    """Whether cuFFT gets them all: not where they are the first ones of the tensor, which is slower."""
    return len(dims) == 1 or (len(dims) <= _AT_ONCE and dims[:2] != [0, 1])


def _stages(launch: Launch, laid: Laid, dims: list[int]) -> Laid:
    """Complex numbers, as many dimensions at once as can be, those that lie closest together first."""
    left = list(dims)
    while left:
        left.sort(key=lambda dim: -laid.strides[dim])
        now, left = left[-_AT_ONCE:], left[:-_AT_ONCE]
        laid = _transform(launch, laid, now, laid)
    return laid


def _transform(launch: Launch, laid: Laid, dims: list[int], result: Laid) -> Laid:
    """One call of cuFFT, and how its result lies."""
    batch = [dim for dim in range(len(laid.sizes)) if dim not in dims]
    batch.sort(key=lambda dim: -laid.strides[dim])
    copy = launch.take(laid.bytes) if _needs_copy(laid, batch, dims) else None
    lengths = tuple(max(laid.sizes[dim], result.sizes[dim]) for dim in dims)
    is_real = laid.is_real or result.is_real
    complex_bytes = 2 * laid.element if laid.is_real else laid.element
    signals = prod(laid.sizes[dim] for dim in batch)
    area = work_area(lengths, signals, complex_bytes, is_real)
    if area:
        launch.scratch(area)
    if copy is not None:
        launch.give(copy)
    return result.in_order([*batch, *dims], result.sizes)


def _needs_copy(laid: Laid, batch: list[int], dims: list[int]) -> bool:
    """cuFFT reads signals that are equally far from one another, and each dimension in steps of those of the next."""
    many = [(laid.sizes[dim], laid.strides[dim]) for dim in batch if laid.sizes[dim] != 1]
    for (_, far), (size, near) in zip(many, many[1:]):
        if far != size * near:
            return True
    if many and many[-1][1] == 0:
        return True
    steps = [laid.strides[dim] for dim in dims if laid.sizes[dim] != 1]
    last = laid.strides[dims[-1]]
    if last <= 0:
        return True
    for step in reversed(steps[:-1] if laid.sizes[dims[-1]] != 1 else steps):
        if step <= 0 or step % last:
            return True
        last = step
    return False
