"""An optimizer that updates in one kernel, without a temporary copy of all its parameters."""

from __future__ import annotations

from typing import Any

from .change import Change


def fuse(optimizer: Any) -> Change | None:
    """Turns on the fused kernel of a torch optimizer; None where it has none or runs it already."""
    import torch

    kinds = tuple(getattr(torch.optim, name) for name in ("Adam", "AdamW", "SGD", "Adagrad"))
    groups = optimizer.param_groups
    if type(optimizer) not in kinds or any(
        group.get("fused") or group.get("differentiable") for group in groups
    ):
        return None
    parameters = [p for group in groups for p in group["params"]]
    if not all(p.is_floating_point() for p in parameters):
        return None
    before = [(group.get("foreach"), group.get("fused")) for group in groups]
    scaling = getattr(optimizer, "_step_supports_amp_scaling", None)
    for group in groups:
        group["foreach"], group["fused"] = False, True
    optimizer._step_supports_amp_scaling = True
    # Fused kernels count steps on the device of the parameter.
    for parameter, state in optimizer.state.items():
        if torch.is_tensor(state.get("step")):
            state["step"] = state["step"].to(parameter.device, torch.float32)

    def undo() -> None:
        for group, (foreach, was_fused) in zip(groups, before):
            group["foreach"], group["fused"] = foreach, was_fused
        if scaling is None:
            del optimizer._step_supports_amp_scaling
        else:
            optimizer._step_supports_amp_scaling = scaling
        for state in optimizer.state.values():
            if torch.is_tensor(state.get("step")):
                state["step"] = state["step"].cpu()

    on_cards = [p for p in parameters if p.is_cuda]
    temporary = sum(p.numel() * p.element_size() for p in on_cards)
    note = (
        "no temporary copies in optimizer.step()"
        if on_cards
        else "on the host the default makes no copies; faster only"
    )
    return Change("fused-optimizer", undo, temporary, note)
