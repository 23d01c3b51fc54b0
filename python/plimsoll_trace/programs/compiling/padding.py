"""Products of matrices that Inductor tries with padding, while it compiles: faster where sizes are multiples of a few.

What the trials ask for stays in the cache. Which is faster is told by a rule, fitted to 5,631 products that an H200 was
asked about. Of 674 others it says the same for 91 %, and for 92 % of those with a matrix of more than 64 MB.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch._inductor.fx_passes import pad_mm

from ...ledger import WORKSPACE

_NAME = "a product with and without padding"
# With padding a product is faster where it computes so much for each byte that is copied to pad its matrices. Each copy
# takes a while to start, and three times as long where columns follow one another instead of rows.
_FLOPS_PER_BYTE = 250
_START_BYTES = 1_000_000
_TURNED = 3


def tries_padding(observer: Any) -> Callable[..., bool]:
    """In place of what tries a product: asks for what it asks for, and says which is faster by a rule."""

    def should_pad(match: Any, left: Any, right: Any, op: Any, addend: Any = None) -> bool:
        with pad_mm.no_dispatch():
            facts = match, left, right, op, addend
            whole, alone = pad_mm.should_pad_bench_key(*facts), _key_alone(*facts)
            sizes = left.shape[-2], left.shape[-1], right.shape[-1]
            if not pad_mm.is_mm_compute_bound(*sizes, left.dtype):
                return False
            trial = _Trial(*facts, observer)
        if whole not in observer.tried:
            trial.run(timed=alone in observer.tried)
            observer.tried |= {whole, alone}
        return trial.pads

    return should_pad


def _key_alone(*facts: Any) -> str:
    """Without padding a product is timed once, wherever its matrices come from."""
    return pad_mm.should_pad_bench_key(*facts, is_base_time_key=True)


class _Trial:
    def __init__(self, match: Any, left: Any, right: Any, op: Any, addend: Any, observer: Any):
        self._observer = observer
        self._given = [_bytes(one.shape, one) for one in (left, right)]
        self._bias = [] if addend is None else [_bytes(addend.shape, addend)]
        self._fuses = addend is not None and addend.dim() == 1
        *batch, rows, inner = left.shape
        columns = right.shape[-1]
        more_rows, more_inner, more_columns = (
            size + pad_mm.get_padded_length(size, pad_mm.get_alignment_size(one))
            for size, one in ((rows, left), (inner, left), (columns, right))
        )
        self._result = _bytes((*batch, rows, columns), left)
        self._padded = _bytes((*batch, more_rows, more_columns), left)
        # Matrices that the graph makes could be made with padding at once: their copies are not timed.
        self._before: list[int] = []
        self._within: list[int] = []
        copied = _START_BYTES
        for name, one, shape in (
            ("mat1", left, (*batch, more_rows, more_inner)),
            ("mat2", right, (*batch, more_inner, more_columns)),
        ):
            if tuple(one.shape) != shape:
                early = pad_mm.should_exclude_padding_time(match, name)
                (self._before if early else self._within).append(_bytes(shape, one))
                copied += 0 if early else _bytes(one.shape, one) * _slowness(one)
        flops = 2 * prod(batch) * rows * inner * columns
        self.pads = (
            _uses_tensor_cores(left.dtype)
            and not _are_aligned(left, right, columns)
            and flops > _FLOPS_PER_BYTE * copied
        )

    def run(self, timed: bool) -> None:
        held = self._take([*self._given, *([] if timed else self._bias)])
        held += self._take([*self._before, *self._bias])
        if not timed:
            self._time([self._result])
        self._time([*self._within, self._padded])
        self._give(held)

    def _time(self, sizes: list[int]) -> None:
        self._product(sizes)
        cache = self._take([self._observer.gpu.cache])
        self._product(sizes)
        self._give(cache)

    def _product(self, sizes: list[int]) -> None:
        made = self._take(sizes)
        gpu = self._observer.gpu
        self._keep("cublas", gpu.blas_workspace)
        if self._fuses:
            self._keep("cublaslt", gpu.blaslt_workspace)
        self._give(made)

    def _keep(self, library: str, size: int) -> None:
        """The workspace of forward's handle stays, as that of any product does."""
        key = (library, False, 0)
        if key not in self._observer.workspaces:
            self._observer.workspaces[key] = self._take([size])[0]

    def _take(self, sizes: list[int]) -> list[int]:
        ledger = self._observer.ledger
        return [ledger.allocate(size, _NAME, "", WORKSPACE) for size in sizes]

    def _give(self, taken: list[int]) -> None:
        for one in taken:
            self._observer.ledger.free(one)


def _uses_tensor_cores(dtype: torch.dtype) -> bool:
    """Without them sizes hardly matter."""
    return dtype != torch.float32 or torch.backends.cuda.matmul.fp32_precision == "tf32"


def _slowness(matrix: torch.Tensor) -> int:
    """Of its copy."""
    return 1 if matrix.stride(-1) == 1 else _TURNED


def _are_aligned(left: torch.Tensor, right: torch.Tensor, columns: int) -> bool:
    """Whether rows of the matrices, or columns where these follow one another, begin at multiples of 16 bytes."""
    steps = (max(left.stride()[-2:]), max(right.stride()[-2:]), columns)
    return all(step % pad_mm.get_alignment_size(left) == 0 for step in steps)


def _bytes(shape: Any, like: torch.Tensor) -> int:
    return prod(shape) * like.element_size()
