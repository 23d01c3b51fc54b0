"""Facts of the GPU whose behaviour is reproduced; the kernels' scratch sizes follow from them."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Gpu:
    name: str = "H200"
    capability: int = 90
    multiprocessors: int = 132
    threads_per_multiprocessor: int = 2048
    # One per cuBLAS handle and stream; PyTorch takes 32 MiB from Hopper on.
    blas_workspace: int = 32 * MIB
    # Bias epilogues go through cuBLASLt, whose workspace is asked for separately.
    blaslt_workspace: int = 1 * MIB


H200 = Gpu()
