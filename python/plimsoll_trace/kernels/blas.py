"""Matrix products: the output first, then the handle's workspace where it is the first use."""

from __future__ import annotations

from .registry import Launch, rule


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
