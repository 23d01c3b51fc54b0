"""Least squares and reflections: what `linalg_lstsq` and `geqrf` return, which have no meta kernel, and what they
take, which was not measured.

CUDA has one driver, by QR; it tells neither the rank nor the singular values.
"""

from __future__ import annotations

from typing import Any

import torch

from ..registry import Launch, rule
from .factors import orthogonal_scratch


def forward(args: tuple) -> tuple[Any, Any, Any, Any]:
    matrix, right = args[:2]
    rows, columns = matrix.shape[-2:]
    is_vector = right.dim() == 1 or (
        right.dim() == matrix.dim() - 1 and right.shape == matrix.shape[:-1]
    )
    sides = right.unsqueeze(-1) if is_vector else right
    batch = torch.broadcast_shapes(matrix.shape[:-2], sides.shape[:-2])
    # The right side comes in, and the solution lies in its first rows.
    held = _empty((*batch, max(rows, columns), sides.shape[-1]), matrix)
    solution = held[..., :columns, :]
    residuals = _empty((*batch, sides.shape[-1]) if rows > columns else (0,), matrix)
    return (
        solution.squeeze(-1) if is_vector else solution,
        residuals,
        torch.empty(0, dtype=torch.int64, device="meta"),
        _empty((0,), matrix),
    )


def reflections(args: tuple) -> tuple[Any, Any]:
    """The factors in one matrix that lies column by column, and a scale for each reflection."""
    matrix = args[0]
    *batch, rows, columns = matrix.shape
    held = _empty((*batch, columns, rows), matrix)
    return held.mT, _empty((*batch, min(rows, columns)), matrix)


def _empty(shape: tuple[int, ...], like: Any) -> Any:
    return torch.empty(shape, dtype=like.dtype, device="meta")


@rule("aten.linalg_lstsq")
def least_squares(launch: Launch) -> None:
    """A copy of the matrices becomes their factors."""
    launch.place_all()
    matrix = launch.args[0]
    copy = launch.take(matrix.numel() * matrix.element_size())
    orthogonal_scratch(launch, matrix)
    launch.give(copy)


@rule("aten.geqrf")
def in_reflections(launch: Launch) -> None:
    launch.place_all()
    orthogonal_scratch(launch, launch.args[0])
