"""`plimsoll.recovering`: the one name for a step, or a function, that survives running out of memory."""

from __future__ import annotations

from typing import Any, Callable, Optional


def recovering(
    target: Any = None, optimizer: Any = None, loss: Optional[Callable[[Any], Any]] = None, **options: Any
) -> Any:
    """Makes a training step, or a function of a batch, survive running out of memory.

    A training step, in any loop:

        step = plimsoll.recovering(model, optimizer, lambda batch: model(**batch).loss)
        for batch in loader:
            loss = step(batch)

    Without the loss it is a decorator of one. Any other function of a batch is decorated without a
    model: `@plimsoll.recovering`, or `@plimsoll.recovering(microbatch=64)`.
    """
    if optimizer is not None:
        from .step import RecoveringStep

        return RecoveringStep(target, optimizer, loss, **options)
    from .function import RecoveringFunction

    if target is None:
        return lambda function: RecoveringFunction(function, **options)
    if not callable(target) or hasattr(target, "parameters"):
        raise TypeError("recovering(model, optimizer, loss) makes a step; @recovering decorates a function of a batch")
    return RecoveringFunction(target, **options)
