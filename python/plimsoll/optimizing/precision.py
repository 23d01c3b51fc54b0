"""Arithmetic and weights in half the bytes."""

from __future__ import annotations

from typing import Any

from .change import Change


def autocast(model: Any, dtype: Any) -> Change:
    """Runs the model's forward under autocast; weights, gradients and optimizer stay as they are."""
    import torch

    had_own = "forward" in model.__dict__
    real = model.forward
    # Checkpointing of the model itself takes its place inside.
    inner = [real]

    def forward(*arguments: Any, **named: Any) -> Any:
        device = next((p.device.type for p in model.parameters()), "cpu")
        with torch.autocast(device, dtype=dtype):
            result = inner[0](*arguments, **named)
        # A loss of the caller's own is taken in fp32, as autocast itself does with losses.
        return (
            result.float() if isinstance(result, torch.Tensor) and result.dtype == dtype else result
        )

    forward.__dict__["inner"] = inner
    model.forward = forward

    def undo() -> None:
        if had_own:
            model.forward = real
        else:
            del model.forward

    return Change(
        "autocast",
        undo,
        note=f"matrix products in {_short(dtype)}; most activations take half the bytes",
    )


def cast_parameters(model: Any, dtype: Any) -> Change | None:
    """All floating weights in another type. The originals are kept on the host for undo."""
    import torch

    floating = [
        t
        for t in [*model.parameters(), *model.buffers()]
        if t.is_floating_point() and t.dtype != dtype
    ]
    if not floating:
        return None
    weights = [p for p in model.parameters() if p.is_floating_point()]
    estimated = sum(p.numel() * (p.element_size() - dtype.itemsize) for p in weights)
    kept = [(tensor, tensor.detach().to("cpu", copy=True), tensor.device) for tensor in floating]
    with torch.no_grad():
        for tensor in floating:
            tensor.data = tensor.data.to(dtype)

    def undo() -> None:
        with torch.no_grad():
            for tensor, copy, device in kept:
                tensor.data = copy.to(device)

    return Change(
        "dtype", undo, estimated, note=f"weights in {_short(dtype)}; a copy for undo is on the host"
    )


def attention(model: Any, kernel: str) -> Change | None:
    """The attention kernel of a Hugging Face model; sdpa never holds the whole matrix of scores."""
    before = getattr(getattr(model, "config", None), "_attn_implementation", None)
    switch = getattr(model, "set_attn_implementation", None)
    if before is None or before == kernel or switch is None:
        return None
    switch(kernel)
    if model.config._attn_implementation != kernel:
        return None
    return Change("attention", lambda: switch(before), note=f"{kernel} instead of {before}")


def _short(dtype: Any) -> str:
    return str(dtype).replace("torch.", "")
