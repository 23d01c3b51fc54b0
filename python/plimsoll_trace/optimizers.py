"""The optimizers a trace can run, with the settings PyTorch gives them on CUDA."""

from __future__ import annotations

from typing import Any

import torch

from plimsoll.failure import Failure

_RATE = 1e-4
# bitsandbytes keeps smaller tensors in float32, and one scale per block of the others.
_SMALLEST_QUANTIZED, _BLOCK = 4096, 256


# The class of torch.optim for each name, with the settings that the name stands for.
_CLASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "adamw": ("AdamW", {}),
    "adamw-fused": ("AdamW", {"fused": True}),
    "adam": ("Adam", {}),
    "adam-fused": ("Adam", {"fused": True}),
    "adamax": ("Adamax", {}),
    "nadam": ("NAdam", {}),
    "radam": ("RAdam", {}),
    "rmsprop": ("RMSprop", {}),
    "adagrad": ("Adagrad", {}),
    "adadelta": ("Adadelta", {}),
    "sgd": ("SGD", {}),
    "sgd-momentum": ("SGD", {"momentum": 0.9}),
    "adafactor": ("Adafactor", {}),
}


def make(name: str, model: Any, spread: bool = False) -> Any:
    """`spread`: each rank keeps the state of its share of the parameters alone (ZeRO stage 1)."""
    parameters = trained(model)
    kind, settings = _CLASSES.get(name, ("", {}))
    chosen = getattr(torch.optim, kind) if kind else EightBitAdamW
    rate = {"lr": _RATE} if kind else {}
    if not spread:
        return chosen(_alike(parameters), **rate, **settings)
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer(parameters, optimizer_class=chosen, **rate, **settings)


def _alike(parameters: list[Any]) -> list[Any]:
    """Tensor parallelism cuts some parameters alone, and an optimizer cannot step through both at once."""
    cut = [p for p in parameters if hasattr(p, "_local_tensor")]
    if not cut or len(cut) == len(parameters):
        return parameters
    whole = [p for p in parameters if not hasattr(p, "_local_tensor")]
    return [{"params": cut}, {"params": whole}]


def trained(model: Any) -> list[Any]:
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise Failure(
            "nothing-to-train", "no parameter of the model takes gradients", "use --mode infer"
        )
    return parameters


class EightBitAdamW(torch.optim.Optimizer):
    """The memory of bitsandbytes' 8-bit AdamW: two bytes a parameter and two scales a block."""

    def __init__(self, parameters: Any):
        super().__init__(parameters, {"lr": _RATE})
        self._maps: list[Any] | None = None

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not self.state[parameter]:
                    self._begin(parameter)

    def _begin(self, parameter: Any) -> None:
        state = self.state[parameter]
        if parameter.numel() < _SMALLEST_QUANTIZED:
            state["state1"] = torch.zeros_like(parameter, dtype=torch.float32)
            state["state2"] = torch.zeros_like(parameter, dtype=torch.float32)
            return
        if self._maps is None:
            self._maps = [torch.empty(256, device=parameter.device) for _ in range(2)]
        blocks = -(-parameter.numel() // _BLOCK)
        for number in ("1", "2"):
            state["state" + number] = torch.zeros_like(parameter, dtype=torch.uint8)
        for number in ("1", "2"):
            state["absmax" + number] = torch.zeros(
                blocks, dtype=torch.float32, device=parameter.device
            )
