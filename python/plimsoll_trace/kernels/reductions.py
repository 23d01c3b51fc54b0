"""Sums, means, norms, spreads and largest values: one kernel that may reduce through a buffer in global memory.

Follows the launch configuration of PyTorch's `Reduce.cuh`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from .registry import Launch, rule

_THREADS = 512
_WARP = 32
_MIN_VALUES, _MAX_VALUES = 16, 256
_INT32_BYTES = 2**31 - 1
# Norms of many tensors at once are summed in parts of so many values; for these orders alone.
_VALUES_OF_PART = 65536
_ORDERS_AT_ONCE = (1, 2, float("inf"))


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _last_pow2(n: int) -> int:
    return max(1, 1 << (n.bit_length() - 1)) if n > 0 else 1


class Shape:
    """A reduction's iteration space: reduced dimensions first, fastest first, merged where dense."""

    def __init__(self, sizes: Sequence[int], strides: Sequence[int], reduced: Sequence[bool]):
        dims = [(s, st, r) for s, st, r in zip(sizes, strides, reduced) if s != 1]
        # The output's own strides order the kept dimensions; a reduced one has none.
        out_strides = {}
        running = 1
        for i in range(len(dims) - 1, -1, -1):
            if not dims[i][2]:
                out_strides[i] = running
                running *= dims[i][0]
        order = sorted(
            range(len(dims)),
            key=lambda i: (0, dims[i][1], dims[i][0])
            if dims[i][2]
            else (1, out_strides[i], dims[i][0]),
        )
        merged: list[list[int]] = []
        for i in order:
            size, stride, is_reduced = dims[i]
            out = 0 if is_reduced else out_strides[i]
            if merged:
                last = merged[-1]
                if (
                    last[0] * last[1] == stride
                    and last[0] * last[2] == out
                    and (last[3] == is_reduced)
                ):
                    last[0] *= size
                    continue
            merged.append([size, stride, out, is_reduced])
        self.sizes = [d[0] for d in merged]
        self.strides = [d[1] for d in merged]
        self.out_strides = [d[2] for d in merged]
        self.reduce_dims = sum(1 for d in merged if d[3])

    @property
    def inputs_per_output(self) -> int:
        total = 1
        for size in self.sizes[: self.reduce_dims]:
            total *= size
        return total

    @property
    def outputs(self) -> int:
        total = 1
        for size in self.sizes[self.reduce_dims :]:
            total *= size
        return total


def buffer_sizes(
    gpu, shape: Shape, accumulator: int, input_vector: int = 4, offset: int = 0
) -> tuple[int, int] | None:
    """The bytes of the buffer between blocks and of its semaphores, or None when none is needed."""
    outputs, per_output = shape.outputs, shape.inputs_per_output
    on_fastest = True
    fastest = 1
    dim0, dim1 = 1, 1
    if shape.sizes:
        on_fastest = shape.reduce_dims == len(shape.sizes) or (
            shape.reduce_dims > 0 and shape.strides[0] < shape.strides[shape.reduce_dims]
        )
        if on_fastest:
            dim0, dim1, fastest = per_output, outputs, shape.strides[0]
        else:
            dim0, dim1, fastest = outputs, per_output, shape.strides[shape.reduce_dims]
    output_vector = 1
    if fastest == 1:
        if on_fastest and dim0 >= 128 and shape.reduce_dims == 1:
            dim0 //= input_vector
        elif not on_fastest:
            output_vector = _output_vector(shape, offset)
            dim0 //= output_vector
    most = _THREADS // output_vector
    dim0_pow2 = _last_pow2(dim0) if dim0 < most else most
    dim1_pow2 = _last_pow2(dim1) if dim1 < most else most
    width = min(dim0_pow2, _WARP)
    height = min(dim1_pow2, most // width)
    width = min(dim0_pow2, most // height)
    step_input = step_output = 1
    if on_fastest:
        step_input *= width
    else:
        step_output *= width
    split_across_warps = _ceil(per_output, step_input) >= min(height * 16, _MAX_VALUES)
    if split_across_warps:
        step_input *= height
    else:
        step_output *= height
    target = gpu.multiprocessors * (gpu.threads_per_multiprocessor // (width * height))
    grid = _ceil(outputs // output_vector, step_output)
    values = _ceil(per_output, step_input)
    if not (split_across_warps and values >= _MAX_VALUES and grid <= target):
        return None
    ctas = max(min(_ceil(target, grid), _ceil(values, _MIN_VALUES)), _ceil(values, _MAX_VALUES))
    if ctas <= 1:
        return None
    size = accumulator * outputs * ctas
    if not on_fastest:
        size *= width * output_vector
    return size, 4 * grid


def _output_vector(shape: Shape, offset: int) -> int:
    vector = 4
    numbers = [offset, shape.sizes[shape.reduce_dims]]
    numbers += [s for i, s in enumerate(shape.strides) if i != shape.reduce_dims]
    for number in numbers:
        while number % vector:
            vector //= 2
    return vector


def reduce_over(launch: Launch, tensor, dims, accumulator: int, input_vector: int = 4) -> None:
    """Takes and gives back what reducing a tensor over some dimensions needs in between."""
    rank = tensor.dim()
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        reduced = [True] * rank
    else:
        chosen = {d % rank for d in ([dims] if isinstance(dims, int) else dims)} if rank else set()
        reduced = [i in chosen for i in range(rank)]
    if tensor.numel() == 0:
        return
    sizes, parts = list(tensor.shape), [list(tensor.shape)]
    if tensor.numel() * tensor.element_size() > _INT32_BYTES:
        parts = _halved(sizes, tensor.stride(), tensor.element_size())
    # The parts of a split reduction are collected in its output, where what is kept of each fits in.
    collects = len(parts) > 1 and accumulator > launch.outputs[0].element_size()
    whole = launch.take(launch.outputs[0].numel() * accumulator) if collects else 0
    for part in parts:
        shape = Shape(part, tensor.stride(), reduced)
        buffers = buffer_sizes(
            launch.gpu, shape, accumulator, input_vector, tensor.storage_offset()
        )
        if buffers is not None:
            launch.scratch(*buffers)
    launch.give(whole)


def _halved(sizes: list[int], strides: Sequence[int], element: int) -> list[list[int]]:
    """Splits along the widest dimension until every part can be addressed with 32 bits."""
    extents = [(n - 1) * s * element for n, s in zip(sizes, strides)]
    if sum(extents) + element <= _INT32_BYTES:
        return [sizes]
    widest = extents.index(max(extents))
    first, second = list(sizes), list(sizes)
    first[widest] = sizes[widest] // 2
    second[widest] = sizes[widest] - first[widest]
    return _halved(first, strides, element) + _halved(second, strides, element)


def _accumulator_size(dtype) -> int:
    return {2: 4}.get(dtype.itemsize, dtype.itemsize)


@rule("aten.sum", "aten.mean", "aten.nansum", "aten.prod")
def sums(launch: Launch) -> None:
    launch.place_all()
    tensor, result = launch.args[0], launch.outputs[0]
    dims = launch.argument(1, "dim") if "dim" in str(launch.func) else None
    copy = 0
    if tensor.dtype != result.dtype and not (
        tensor.dtype.itemsize == 2 and result.dtype.itemsize == 4
    ):
        # Only half precision is summed into float32 as it is read; all else is converted first.
        copy = launch.take(tensor.numel() * result.element_size())
        tensor = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=result.dtype, device="meta"
        )
    reduce_over(launch, tensor, dims, _accumulator_size(result.dtype))
    launch.give(copy)


@rule("aten.linalg_vector_norm", "aten.norm")
def norms(launch: Launch) -> None:
    launch.place_all()
    dims = launch.argument(2, "dim")
    reduce_over(launch, launch.args[0], dims, _accumulator_size(launch.outputs[0].dtype))


@rule("aten._foreach_norm")
def norms_at_once(launch: Launch) -> None:
    """One value a part, and for each tensor as many parts as the largest has."""
    tensors = launch.args[0]
    parts = 0
    if launch.argument(1, "ord", 2) in _ORDERS_AT_ONCE and _are_alike(tensors):
        largest = max(_ceil(t.numel(), _VALUES_OF_PART) for t in tensors)
        parts = launch.take(len(tensors) * largest * _accumulator_size(tensors[0].dtype))
    launch.place_all()
    launch.give(parts)


def _are_alike(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether one kernel takes them all; others are worked out one by one."""
    return len({t.dtype for t in tensors}) == 1 and tensors[0].is_floating_point()


@rule("aten.std", "aten.var", "aten.std_mean", "aten.var_mean")
def spreads(launch: Launch) -> None:
    """Mean, squares and two counts are kept at once, and two values read at once instead of four."""
    launch.place_all()
    tensor = launch.args[0]
    # `var(unbiased)` has its correction where `var(dim)` has its dimensions.
    dims = launch.argument(1, "dim") if "correction" in str(launch.func) else None
    kept = 32 if tensor.element_size() == 8 else 16
    reduce_over(launch, tensor, dims, kept, input_vector=2)


@rule("aten.amax", "aten.amin", "aten.max.default", "aten.min.default")
def largest(launch: Launch) -> None:
    launch.place_all()
    tensor = launch.args[0]
    reduce_over(launch, tensor, launch.argument(1, "dim"), tensor.element_size())


@rule("aten.argmax", "aten.argmin", "aten.max.dim", "aten.min.dim")
def places_of_largest(launch: Launch) -> None:
    """A value and its place are kept together."""
    launch.place_all()
    reduce_over(launch, launch.args[0], launch.argument(1, "dim"), 16)


@rule("aten.any", "aten.all")
def truths(launch: Launch) -> None:
    launch.place_all()
    reduce_over(launch, launch.args[0], launch.argument(1, "dim"), 1)


@rule("aten.logsumexp")
def logarithm_of_sums(launch: Launch) -> None:
    """The largest value of each row, a look for those that are not finite, then all values less the largest."""
    tensor, dims = launch.args[:2]
    result = launch.outputs[0]
    size = result.element_size()
    largest = launch.take(result.numel() * size)
    reduce_over(launch, tensor, dims, size)
    launch.scratch(result.numel() * size, result.numel())
    values = torch.empty(tensor.shape, dtype=result.dtype, device="meta")
    powers = launch.take(values.numel() * size)
    launch.place_all()
    reduce_over(launch, values, dims, _accumulator_size(result.dtype))
    launch.give(powers, largest)
