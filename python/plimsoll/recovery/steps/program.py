"""What a program gives a step: the value of its loss, and what else to try."""

from __future__ import annotations

from typing import Any, Callable

from ...failure import Failure


def loss_of(value: Any) -> Any:
    """The loss in what a loss function returned: itself, or the `loss` of a Hugging Face output."""
    if hasattr(value, "backward"):
        return value
    if getattr(value, "loss", None) is not None:
        return value.loss
    if isinstance(value, dict) and "loss" in value:
        return value["loss"]
    if isinstance(value, tuple) and value and hasattr(value[0], "backward"):
        return value[0]
    raise Failure(
        "no-loss",
        f"the loss is a {type(value).__name__}, not a tensor",
        "return the mean loss of the batch",
    )


def declared_rungs(model: Any, given: dict[str, Callable[[], Any]]) -> dict[str, Callable[[], Any]]:
    """The program's own, and checkpointing where the model knows how: it changes no result."""
    inner = getattr(model, "module", model)
    if "checkpointing" in given or not getattr(inner, "supports_gradient_checkpointing", False):
        return dict(given)
    if getattr(inner, "is_gradient_checkpointing", False) or not hasattr(
        inner, "gradient_checkpointing_enable"
    ):
        return dict(given)
    return {"checkpointing": inner.gradient_checkpointing_enable, **given}
