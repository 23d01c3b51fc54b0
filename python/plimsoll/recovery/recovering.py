"""`plimsoll.recovering`: the one name for a step, or a function, that survives running out of memory."""

from __future__ import annotations

from typing import Any, Callable

from ..arguments import BadType, dtype, function, mapping, number, seconds, shown, whole
from ..arguments import optimizer as torch_optimizer


def recovering(
    target: Any = None,
    optimizer: Any = None,
    loss: Callable[[Any], Any] | None = None,
    *,
    microbatch: int | None = None,
    clip: float | None = None,
    scaler: Any = None,
    autocast: Any = None,
    share: str | Callable[[Any], float] = "auto",
    reduction: str = "mean",
    split: Callable[[Any, int, int], Any] | None = None,
    size: Callable[[Any], int] | None = None,
    join: Callable[[list[Any]], Any] | None = None,
    backup: str = "first",
    grow_after: int = 20,
    patience: float = 60.0,
    rungs: dict[str, Callable[[], Any]] | None = None,
) -> Any:
    """Makes a training step, or a function of a batch, survive running out of memory.

    A training step, in any loop:

        step = plimsoll.recovering(model, optimizer, lambda batch: model(**batch).loss)
        for batch in loader:
            loss = step(batch)

    Without the loss it is a decorator of one. Any other function of a batch is decorated without a
    model: `@plimsoll.recovering`, or `@plimsoll.recovering(microbatch=64)`.

    For both: `microbatch` (samples to begin with; found where left out), `split`, `size`, `grow_after`.
    For a step: `clip` (norm of the gradients), `scaler`, `autocast`, `share` and `reduction` (how the loss
    is averaged), `backup` (copies for the optimizer's step), `patience` (seconds to wait for memory that
    other processes hold), `rungs`. For a function: `join`.
    """
    torch_optimizer("optimizer", optimizer)
    for name, value in (("loss", loss), ("size", size), ("split", split), ("join", join)):
        function(name, value)
    if microbatch is not None:
        whole("microbatch", microbatch, 1)
    if clip is not None:
        number("clip", clip, 0)
    dtype("autocast", autocast)
    whole("grow_after", grow_after, 1)
    seconds("patience", patience)
    mapping("rungs", rungs, '{"offload": to_host}')
    if scaler is not None and not hasattr(scaler, "unscale_"):
        fact = f"scaler must be a GradScaler of torch, not {shown(scaler)}"
        raise BadType(fact, 'pass torch.amp.GradScaler("cuda"), or leave scaler out')
    if optimizer is not None:
        if not hasattr(target, "parameters"):
            fact = f"recovering(model, optimizer, loss) takes a model first, not {shown(target)}"
            raise BadType(fact, "pass the model whose parameters the optimizer has")
        if join is not None:
            raise BadType("join is for functions; a step returns its loss", "leave join out")
        from .steps.step import RecoveringStep

        return RecoveringStep(
            target,
            optimizer,
            loss,
            microbatch=microbatch,
            clip=clip,
            scaler=scaler,
            autocast=autocast,
            share=share,
            reduction=reduction,
            split=split,
            size=size,
            backup=backup,
            grow_after=grow_after,
            patience=patience,
            rungs=rungs,
        )
    for_steps = {
        "clip": clip is not None,
        "scaler": scaler is not None,
        "autocast": autocast is not None,
        "share": share != "auto",
        "reduction": reduction != "mean",
        "backup": backup != "first",
        "patience": patience != 60.0,
        "rungs": rungs is not None,
    }
    misplaced = [name for name, given in for_steps.items() if given]
    if misplaced:
        fact = f"{', '.join(misplaced)}: only for a training step, and no optimizer was given"
        raise BadType(fact, "call recovering(model, optimizer, loss, ...)")
    from .function import RecoveringFunction

    def decorate(work: Callable[..., Any]) -> RecoveringFunction:
        return RecoveringFunction(
            work,
            microbatch=microbatch,
            split=split,
            size=size,
            join=join,
            grow_after=grow_after,
        )

    if target is None:
        return decorate
    if not callable(target) or hasattr(target, "parameters"):
        raise BadType(
            f"recovering takes a model with its optimizer, or a function of a batch; not {shown(target)}",
            "call recovering(model, optimizer, loss), or decorate a function with @recovering",
        )
    return decorate(target)
