"""Matrix products, least squares and reflections."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from .registry import Launch, rule

# Matrix products: the output first, then the handle's workspace where it is the first use.


@rule("aten.mm", "aten.bmm", "aten.baddbmm", "aten.addmv", "aten.mv", "aten.dot")
def product(launch: Launch) -> None:
    launch.place_all()
    launch.workspace("cublas", launch.gpu.blas_workspace)


@rule("aten.addmm")
def product_with_addend(launch: Launch) -> None:
    launch.place_all()
    launch.workspace("cublas", launch.gpu.blas_workspace)
    if fuses_bias(launch):
        launch.workspace("cublaslt", launch.gpu.blaslt_workspace)


def fuses_bias(launch: Launch) -> bool:
    """A vector added to a product becomes cuBLASLt's epilogue, but for single rows and columns."""
    bias, left, right = launch.args[:3]
    return bias.dim() == 1 and left.shape[0] > 1 and left.shape[1] > 1 and right.shape[1] > 1


# Least squares and reflections: what `linalg_lstsq` and `geqrf` return, which have no meta kernel, and what they
# take, which was not measured.
#
# CUDA has one driver, by QR; it tells neither the rank nor the singular values.

# What the factors of matrices take besides their results: copies, and workspaces of cuSOLVER.
#
# As an H200 was asked for them in float32, with matrices of 32 to 2,048 rows, alone and in batches. Copies are
# exact; workspaces are so for QR, and within some percent for the others.

_MiB = 1 << 20
_INDEX, _PIVOT = 8, 4
# QR: one block of 1 MiB for each 256 rows, and two more; then so many values for each row.
_QR_ROWS, _QR_BLOCKS, _QR_HEADER = 256, 2, 128
_Q_VALUES, _Q_HEADER = 384, 16640
# Small matrices go all at once where there are at least as many as the rows divided by this.
_FEW_OF_MANY = 16
# Singular values and eigenvalues: so many values for each row besides matrices.
_SINGULAR_VALUES, _EIGENVALUES = 69, 38
# Powers of the matrix, and sums of them, that its exponential needs at once where its norm is large.
_POWERS = 12


def _rows(matrix: Any) -> int:
    return matrix.shape[-1]


def _count(matrix: Any) -> int:
    return prod(matrix.shape[:-2])


def _bytes(tensor: Any) -> int:
    return tensor.numel() * tensor.element_size()


@rule("aten.linalg_inv_ex")
def inverse(launch: Launch) -> None:
    launch.place_all()
    source = launch.args[0]
    held = [launch.take(_bytes(source)), launch.take(_count(source) * _rows(source) * _PIVOT)]
    _solve(launch, source, source)
    launch.give(*reversed(held))


@rule("aten._linalg_solve_ex")
def solve(launch: Launch) -> None:
    launch.place_all()
    _solve(launch, launch.args[0], launch.outputs[0])


@rule("aten.linalg_lu_solve")
def solve_by_factors(launch: Launch) -> None:
    launch.place_all()
    _solve(launch, launch.args[0], launch.outputs[0])


def _solve(launch: Launch, matrix: Any, result: Any) -> None:
    """The order of the rows, and the result once more."""
    order = _count(matrix) * _rows(matrix) * _INDEX
    launch.scratch(order, order, order, _bytes(result))


@rule("aten.linalg_qr")
def orthogonal(launch: Launch) -> None:
    launch.place_all()
    orthogonal_scratch(launch, launch.args[0])


def orthogonal_scratch(launch: Launch, source: Any) -> None:
    rows, size = max(source.shape[-2:]), source.element_size()
    scales = launch.take(_count(source) * _rows(source) * size)
    if source.shape[-2] > _QR_ROWS or _count(source) < max(2, source.shape[-2] // _FEW_OF_MANY):
        # Larger ones, and few of them, go one by one.
        blocks = _QR_BLOCKS + -(-rows // _QR_ROWS)
        launch.scratch(blocks * _MiB * size // 4 + _QR_HEADER)
    launch.scratch((_Q_VALUES * rows + _Q_HEADER) * size)
    launch.give(scales)


@rule("aten._linalg_svd")
def singular_values(launch: Launch) -> None:
    for index in (0, 2, 1):
        launch.place(index)
    _decompose(launch, launch.args[0])


@rule("aten.linalg_pinv.atol_rtol_tensor")
def pseudo_inverse(launch: Launch) -> None:
    """The two factors and the singular values of the matrix are there until the end."""
    source = launch.args[0]
    held = [launch.take(_bytes(source)), launch.take(_bytes(source))]
    _decompose(launch, source)
    # One factor is divided by the singular values.
    held.append(launch.take(_bytes(source)))
    launch.place_all()
    launch.give(*reversed(held))


def _decompose(launch: Launch, source: Any) -> None:
    rows, size = max(source.shape[-2:]), source.element_size()
    workspace = (2 * rows * _rows(source) + _SINGULAR_VALUES * rows) * size
    launch.scratch(_count(source) * _PIVOT, _bytes(source), workspace)


@rule("aten._linalg_eigh")
def eigenvalues(launch: Launch) -> None:
    for index in (1, 0):
        launch.place(index)
    source = launch.args[0]
    rows, size = _rows(source), source.element_size()
    launch.scratch(_count(source) * _PIVOT, (rows * rows + _EIGENVALUES * rows) * size)


@rule("aten.linalg_matrix_exp")
def exponential(launch: Launch) -> None:
    launch.place_all()
    launch.scratch(*[_bytes(launch.args[0])] * _POWERS)


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
