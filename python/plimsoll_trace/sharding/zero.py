"""ZeRO stages 2 and 3 of DeepSpeed by the buffers it documents; DeepSpeed itself is not run.

The model runs as it is. Beside it lie DeepSpeed's buffers, asked for when DeepSpeed asks for them: the
rank's share of float32 weights and states, its share of the gradients, the bucket that gradients are
reduced in, and in stage 3 the parameters that are gathered at a time.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import ledger as kinds
from .parallel import Parallel
from .world import DEVICE, labelled

# Elements, as DeepSpeed's documentation has them: reduce_bucket_size, stage3_max_live_parameters,
# stage3_prefetch_bucket_size.
_REDUCE_BUCKET = 500_000_000
_MAX_LIVE = 1_000_000_000
_PREFETCH = 50_000_000


class Zero:
    """Stands for DeepSpeed's engine and its optimizer."""

    def __init__(self, model: Any, parallel: Parallel, observer: Any) -> None:
        self._third = parallel.way == "zero3"
        self._on_host = parallel.offload == "optimizer"
        self._observer = observer
        learning = [p for p in model.parameters() if p.requires_grad]
        self._dtype = learning[0].dtype
        self._whole = sum(p.numel() for p in learning)
        self._share = -(-self._whole // parallel.gpus)
        self._states: list[Any] = []
        # Those of a backward pass, and the share of the gradients until the step.
        self._buckets: list[Any] = []
        self._gathered: list[Any] = []
        self._gradients: Any = None
        self._kept = [] if self._on_host else [self._take(kinds.WEIGHT, torch.float32)]
        if self._third:
            self._kept.append(self._take(kinds.WEIGHT, self._dtype))
        for parameter in learning:
            parameter.register_post_accumulate_grad_hook(self._reduced)
        model.register_forward_pre_hook(self._before_forward)
        model.register_forward_hook(self._after_forward)

    def _take(self, category: str, dtype: Any, elements: int = 0) -> Any:
        make = labelled(self._observer, category, torch.empty)
        return make(elements or self._share, dtype=dtype, device=DEVICE)

    def _before_forward(self, *_: Any) -> None:
        self._buckets.clear()
        if self._third and not self._gathered:
            live = min(self._whole, _MAX_LIVE) + min(self._whole, _PREFETCH)
            self._gathered.append(self._take(kinds.GATHERED, self._dtype, live))

    def _after_forward(self, *_: Any) -> None:
        # Stage 3 fills one bucket while the other is sent.
        self._buckets = [
            self._take(kinds.BUCKET, self._dtype, _REDUCE_BUCKET)
            for _ in range(2 if self._third else 1)
        ]
        if self._gradients is None and not self._on_host:
            self._gradients = self._take(kinds.GRADIENT, self._dtype)

    def _reduced(self, parameter: Any) -> None:
        parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self._buckets.clear()
        self._gathered.clear()
        if self._on_host:
            return
        gradients = self._take(kinds.TEMPORARY, torch.float32)
        if not self._states:
            self._states = [self._take(kinds.OPTIMIZER, torch.float32) for _ in range(2)]
        del gradients

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._gradients = None
