"""Ops that write one value per value, where the order or a temporary differs from the outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch._prims_common import (
    compute_elementwise_output_strides,
    make_contiguous_strides_for,
    suggest_memory_format,
)

from .registry import Launch, rule
from .sorting import scan_scratch


@rule("aten.native_dropout")
def native_dropout(launch: Launch) -> None:
    launch.place(1)
    launch.place(0)


@rule("aten.cumsum", "aten.cumprod")
def scan(launch: Launch) -> None:
    """The scan runs in the output's type, so an input of another type is copied first."""
    launch.place_all()
    source, result = launch.args[0], launch.outputs[0]
    count = source.numel()
    sizes = [count * result.element_size()] if source.dtype != result.dtype else []
    if source.dim() == 0 or count == source.shape[launch.argument(1, "dim")]:
        sizes.append(scan_scratch(count, value=result.element_size()))
    launch.scratch(*sizes)


@rule("aten._softmax", "aten._log_softmax")
def softmax(launch: Launch) -> None:
    """An input that does not lie in one run is copied once the memory for the result is there."""
    launch.place_all()
    _copied(launch, launch.args[0], torch.contiguous_format)


@rule(
    "aten.upsample_nearest2d_backward",
    "aten._upsample_nearest_exact2d_backward",
    "aten.upsample_bilinear2d_backward",
    "aten.upsample_nearest3d_backward",
    "aten._upsample_nearest_exact3d_backward",
    "aten.upsample_trilinear3d_backward",
)
def upsample_backward(launch: Launch) -> None:
    """Half of the gradient of two tensors put beside each other, say, is copied into one run first."""
    launch.place_all()
    grad = launch.args[0]
    if grad.dim() == 5:
        # Volumes are brought into the usual order, whatever theirs.
        _copied(launch, grad, torch.contiguous_format)
    elif grad.shape != launch.outputs[0].shape:
        _copied(launch, grad, suggest_memory_format(grad))


def _copied(launch: Launch, tensor: torch.Tensor, layout: torch.memory_format) -> None:
    if not tensor.is_contiguous(memory_format=layout):
        launch.scratch(tensor.numel() * tensor.element_size())


@rule("aten._to_copy")
def brought_over(launch: Launch) -> None:
    """From host memory in another order: it comes as one run first, which is then put in order.

    Without waiting, another type is made on the device as well.
    """
    launch.place_all()
    source, result = launch.args[0], launch.outputs[0]
    if not launch.observer.is_on_host(source) or result.device.type == "cpu":
        return
    same_type = source.dtype == result.dtype
    if same_type and source.stride() == result.stride():
        return
    waits = not launch.kwargs.get("non_blocking")
    if not result.is_contiguous():
        launch.scratch(source.numel() * (result if waits else source).element_size())
    elif not waits and not same_type:
        launch.scratch(source.numel() * source.element_size())


@rule("aten._softmax_backward_data")
def softmax_backward(launch: Launch) -> None:
    """The product of gradient and result has the gradient's order; unless that is one run, it is copied."""
    launch.place_all()
    grad, output = launch.args[:2]
    size = output.numel() * torch.promote_types(grad.dtype, output.dtype).itemsize
    strides = compute_elementwise_output_strides(grad, output)
    usual = make_contiguous_strides_for(output.shape)
    # A side of one, such as a single head, has no steps.
    one_run = all(side == 1 or a == b for side, a, b in zip(output.shape, strides, usual))
    launch.scratch(*([size] if one_run else [size, size]))


@rule("aten._log_softmax_backward_data")
def log_softmax_backward(launch: Launch) -> None:
    """A gradient that does not lie in one run is copied once the memory for the result is there."""
    launch.place_all()
    _copied(launch, launch.args[0], torch.contiguous_format)


@rule("aten.where.self")
def chosen_by_condition(launch: Launch) -> None:
    """A number of the host is brought over for it."""
    numbers = [a for a in launch.args[1:3] if a.device.type == "cpu"]
    taken = [launch.take(number.element_size()) for number in numbers]
    launch.place_all()
    launch.give(*taken)


@rule("aten.pow.Scalar")
def power_of_number(launch: Launch) -> None:
    """The base becomes a tensor of its own."""
    launch.place_all()
    launch.scratch(8)


@rule("aten.embedding")
def embedding(launch: Launch) -> None:
    """Indices that do not lie evenly, one after another, are copied."""
    indices = launch.args[1]
    if _lie_evenly(indices):
        launch.place_all()
        return
    copy = launch.take(indices.numel() * indices.element_size())
    launch.place_all()
    launch.give(copy)


def _lie_evenly(tensor: Any) -> bool:
    """Whether all values are a row as they lie, as one column of a table is."""
    sides = [side for side in zip(tensor.shape, tensor.stride()) if side[0] != 1]
    return all(
        step == inner * inner_step for (_, step), (inner, inner_step) in zip(sides, sides[1:])
    )


@rule("aten.abs.default", "aten.angle.default")
def size_of_complex(launch: Launch) -> None:
    """Of complex numbers it is worked out as complex numbers first."""
    source = launch.args[0]
    launch.place_all()
    if source.is_complex():
        launch.scratch(source.numel() * source.element_size())


@rule("aten.roll")
def roll(launch: Launch) -> None:
    """One dimension after another, each into new memory."""
    dims = launch.argument(2, "dims", [])
    size = launch.outputs[0].numel() * launch.outputs[0].element_size()
    before = 0
    for _ in dims[1:]:
        after = launch.take(size)
        launch.give(before)
        before = after
    launch.place_all()
    launch.give(before)


@rule("aten.scalar_tensor")
def number(launch: Launch) -> None:
    if launch.observer.numbers_on_host:
        launch.skip(0)
