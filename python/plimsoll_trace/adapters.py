"""LoRA adapters on every linear layer but the output layer, as peft adds them.

peft itself is run where it is installed. Else layers of our own take its place, which follow its
0.21: adapters are in float32 even beside weights in 16 bits, their input is cast to that first, and
the sum is cast back; there is no dropout; nothing but the adapters learns.
"""

from __future__ import annotations

from typing import Any

import torch

from plimsoll.failure import Failure

from .workload import Workload


def add(workload: Workload, rank: int) -> None:
    """Replaces the workload's model with one whose adapters learn."""
    try:
        import peft
    except ImportError:
        _stand_in(workload, rank)
        return
    with torch.device("meta"):
        config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        try:
            workload.model = peft.get_peft_model(workload.model, config)
        except ValueError as error:
            raise Failure(
                "lora-refused", f"peft: {str(error).splitlines()[0]}", "leave --lora out"
            ) from error


class Adapted(torch.nn.Module):
    """A frozen linear layer and the adapter beside it."""

    def __init__(self, layer: Any, rank: int, inputs: int, outputs: int):
        super().__init__()
        self.layer = layer
        self.down = torch.nn.Linear(inputs, rank, bias=False, dtype=torch.float32)
        self.up = torch.nn.Linear(rank, outputs, bias=False, dtype=torch.float32)

    @property
    def weight(self) -> Any:
        return self.layer.weight

    def forward(self, x):
        result = self.layer(x)
        dtype = result.dtype
        x = x.to(self.down.weight.dtype)
        result = result + self.up(self.down(x)) * 2.0
        return result.to(dtype)


def _stand_in(workload: Workload, rank: int) -> None:
    model = workload.model
    model.requires_grad_(False)
    output = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    found = 0
    with torch.device("meta"):
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                sizes = _sizes(child)
                if sizes is not None and child is not output:
                    setattr(module, name, Adapted(child, rank, *sizes))
                    found += 1
    if not found:
        raise Failure("lora-refused", "the model has no linear layer to adapt", "leave --lora out")
    if getattr(model, "is_gradient_checkpointing", False):
        model.enable_input_require_grads()
    workload.notes.append("peft is not installed; adapters like its own were taken")


def _sizes(module: Any) -> Any:
    if isinstance(module, torch.nn.Linear):
        return module.in_features, module.out_features
    # GPT-2's linear layers, which keep their weight the other way round.
    if type(module).__name__ == "Conv1D" and getattr(module, "weight", None) is not None:
        return tuple(module.weight.shape)
    return None
