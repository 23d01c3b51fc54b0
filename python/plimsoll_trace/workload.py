"""What is traced: a model on the meta device, its batches, and how a loss comes out of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable

import torch

from .gpu import H200, Gpu
from .sharding.parallel import Parallel

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
    loss: Callable[[Any, Any], Any] | None = None
    # Makes the optimizer of the workload's own, or None where the settings name one.
    optimizer: Callable[[Any], Any] | None = None
    # What a person should know about how the model was chosen and built.
    notes: list[str] = field(default_factory=list)


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
    quantization: str = ""
    target_seq: int = 0
    # What the loop holds until the next step: "loss", "outputs", or "" for what the source usually does.
    keep: str = ""
    # Batches whose gradients are added up before the optimizer steps.
    accumulation: int = 1
    gpu: Gpu = H200
    # One rank of many; None is one GPU alone.
    parallel: Parallel | None = None

    @property
    def training(self) -> bool:
        return self.mode == "train"

    @property
    def dtype(self):
        dtype = DTYPES[self.precision]
        # Quantized weights are turned back into 16 bits, and all that is not quantized is kept so.
        return torch.bfloat16 if self.quantization and dtype == torch.float32 else dtype

    @property
    def autocast_dtype(self):
        return AUTOCAST.get(self.precision)
