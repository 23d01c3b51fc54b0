"""What is traced: a model on the meta device, its batches, and how a loss comes out of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch

DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "amp-bf16": torch.float32,
    "amp-fp16": torch.float32,
}
AUTOCAST = {"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}


@dataclass
class Workload:
    model: Any
    # Makes one batch; called once a step, as a data loader would be.
    batch: Callable[[], Any]
    # Runs the model on a batch under autocast, if any; what it returns lives until the next step's.
    forward: Callable[[Any, Any], Any]
    # Turns that into the loss, or None where forward already returns it.
    loss: Optional[Callable[[Any, Any], Any]] = None


@dataclass(frozen=True)
class Settings:
    mode: str
    batch: int
    seq: int
    image: int
    precision: str
    optimizer: str
    checkpointing: bool
    lora: int
    steps: int

    @property
    def training(self) -> bool:
        return self.mode == "train"

    @property
    def dtype(self):
        return DTYPES[self.precision]

    @property
    def autocast_dtype(self):
        return AUTOCAST.get(self.precision)
