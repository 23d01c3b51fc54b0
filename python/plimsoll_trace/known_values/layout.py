"""How known values lie in memory on the host: as is quick to compute with, whatever the strides on the device."""

from __future__ import annotations

from typing import Any

import torch

_ATEN = torch.ops.aten
# Coordinates stand by four at most.
_COORDINATES = 4
# Fewer values than this are computed in no time.
_MANY = 4096
# These go by how a tensor lies in memory.
_BY_STRIDES = {
    _ATEN.view.default,
    _ATEN.view.dtype,
    _ATEN._unsafe_view.default,
    _ATEN._reshape_alias.default,
    _ATEN.as_strided.default,
}


def holds_coordinates(tensor: Any) -> bool:
    return tensor.dim() > 1 and tensor.shape[-1] <= _COORDINATES


def by_columns(value: Any) -> Any:
    """Of many boxes, one coordinate after the other: ops then go over long rows, in a third of the time."""
    if (
        value is None
        or value.numel() <= _MANY
        or not holds_coordinates(value)
        or value.shape[-1] < 2
    ):
        return value
    if value.stride(-1) != 1 or not value.is_floating_point():
        return value
    return value.movedim(-1, 0).contiguous().movedim(0, -1)


def goes_by_strides(func: Any) -> bool:
    return func in _BY_STRIDES


def stacked(stack: Any, parts: list, dim: int = 0) -> Any:
    """Coordinates of many boxes beside each other: laid out by columns at once, they need not be moved afterwards."""
    dims = parts[0].dim()
    if dim % (dims + 1) != dims or parts[0].numel() <= _MANY or len(parts) > _COORDINATES:
        return stack(parts, dim)
    return stack(parts, 0).movedim(0, -1)


def strides_of(func: Any, args: tuple) -> tuple[int, ...] | None:
    """How the first argument lies in memory, where an op goes by that."""
    return args[0].stride() if goes_by_strides(func) else None


def laid_out(value: Any, strides: tuple[int, ...]) -> Any:
    """The values with these strides."""
    if value.stride() == strides:
        return value
    return torch.empty_strided(value.shape, strides, dtype=value.dtype, device="cpu").copy_(value)
