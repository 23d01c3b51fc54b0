"""`plimsoll.spread`: a batch over all cards, by the way that this program can use, with the better one named."""

from __future__ import annotations

import logging
import os
from typing import Any, NamedTuple

from ..arguments import model as torch_model

log = logging.getLogger("plimsoll")


class Spread(NamedTuple):
    """`model` is what to call; `how` is alone, data-parallel or distributed; `advice` what would be better, and why."""

    model: Any
    how: str
    advice: str


def choose(cards: int, world: int, initialized: bool) -> tuple[str, str]:
    """How, and what to do about it. Decides from figures, reads no machine.

    >>> choose(1, 1, False)
    ('alone', '')
    """
    if initialized:
        return "distributed", ""
    if world > 1:
        advice = (
            f"{world} ranks were started, and no process group was made: call "
            "torch.distributed.init_process_group() before plimsoll.spread"
        )
        return "alone", advice
    if cards < 2:
        return "alone", ""
    advice = (
        f"DataParallel copies the model to {cards} cards at each step, in one process, and gathers outputs on the "
        f"first; DistributedDataParallel does not: start it with torchrun --nproc-per-node {cards}, call "
        "init_process_group() and give each rank its part of the data (DistributedSampler)"
    )
    return "data-parallel", advice


def spread(model: Any) -> Spread:
    """The model, wrapped so that a batch is shared out over all cards.

        model = plimsoll.spread(model).model

    With a process group (torchrun): DistributedDataParallel, on the card of this rank. In one process with
    several cards: DataParallel, which needs no other start, and advice for DistributedDataParallel. With one
    card, or none, the model as it is.
    """
    import torch
    from torch import distributed, nn

    torch_model("model", model)
    if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        return Spread(
            model, "data-parallel" if isinstance(model, nn.DataParallel) else "distributed", ""
        )
    cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
    initialized = distributed.is_available() and distributed.is_initialized()
    said = os.environ.get("WORLD_SIZE", "")
    # Other programs use the name, too: what is not a number was not set by a launcher.
    how, advice = choose(cards, int(said) if said.isdecimal() else 1, initialized)
    if advice:
        log.warning("plimsoll: %s", advice)
    if how == "distributed":
        on = next((p.device for p in model.parameters()), None)
        ids = [on.index] if on is not None and on.type == "cuda" else None
        return Spread(nn.parallel.DistributedDataParallel(model, device_ids=ids), how, advice)
    if how == "data-parallel":
        return Spread(nn.DataParallel(model.to("cuda:0")), how, advice)
    return Spread(model, how, advice)
