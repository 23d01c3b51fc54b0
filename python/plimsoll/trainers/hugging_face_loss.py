"""How the loss of a Trainer adds up: its own compute_loss is asked, since programs override it."""

from __future__ import annotations

import logging
from typing import Any, Callable

from ..memory.out_of_memory import recognise
from ..recovery.parts.split import Splitter
from . import weighing

log = logging.getLogger("plimsoll")


def rule_of(
    trainer: Any,
    model: Any,
    items: Callable[[], Any],
    batch: Any,
    count: int,
    splitter: Splitter,
) -> str | None:
    args = trainer.args
    coarse = any(getattr(args, name, False) for name in ("fp16", "bf16")) or _is_half(model)

    def loss(part: Any) -> Any:
        inputs = trainer._prepare_inputs(dict(part))
        number = items()
        named = {} if number is None else {"num_items_in_batch": number}
        with trainer.compute_loss_context_manager():
            return trainer.compute_loss(getattr(model, "module", model), inputs, **named)

    try:
        return weighing.rule_of(loss, batch, count, splitter, model, coarse)
    except Exception as error:
        # One or two samples alone are not a batch of this loss; or even they do not fit.
        short = " (out of memory)" if recognise(error) is not None else ""
        log.warning("plimsoll: the loss of a few samples could not be computed%s: %s", short, error)
        return None


def _is_half(model: Any) -> bool:
    first = next(iter(model.parameters()), None)
    return first is not None and first.element_size() < 4
