"""`plimsoll.recovering`: the one name for a step, or a function, that survives running out of memory."""

from __future__ import annotations

from typing import Any, Callable

from ..arguments import function, number, whole
from ..arguments import optimizer as torch_optimizer


def recovering(
    target: Any = None,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Any:
    """Makes a training step, or a function of a batch, survive running out of memory.

    A training step, in any loop:

        step = plimsoll.recovering(model, optimizer, lambda batch: model(**batch).loss)
        for batch in loader:
            loss = step(batch)

    Without the loss it is a decorator of one. Any other function of a batch is decorated without a
    model: `@plimsoll.recovering`, or `@plimsoll.recovering(microbatch=64)`.
    """
    _check(optimizer, loss, options)
    if optimizer is not None:
        if not hasattr(target, "parameters"):
            raise TypeError(
                f"recovering(model, optimizer, loss) takes a model first, not a {type(target).__name__}"
            )
        from .steps.step import RecoveringStep

        return RecoveringStep(target, optimizer, loss, **options)
    from .function import RecoveringFunction

    if target is None:
        return lambda function: RecoveringFunction(function, **options)
    if not callable(target) or hasattr(target, "parameters"):
        raise TypeError(
            "recovering(model, optimizer, loss) makes a step; @recovering decorates a function of a batch"
        )
    return RecoveringFunction(target, **options)


def _check(optimizer: Any, loss: Any, options: dict[str, Any]) -> None:
    """Before anything is set up; names that mean nothing are left to the call itself."""
    torch_optimizer("optimizer", optimizer)
    function("loss", loss)
    for name in ("size", "split", "join"):
        function(name, options.get(name))
    if options.get("microbatch") is not None:
        whole("microbatch", options["microbatch"], 1)
    if options.get("clip") is not None:
        number("clip", options["clip"], 0)
    whole("grow_after", options.get("grow_after", 1), 1)
    number("patience", options.get("patience", 0), 0)
