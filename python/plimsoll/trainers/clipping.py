"""Clipping of gradients that runs out of memory: the norm takes copies, and nothing is written before it is known."""

from __future__ import annotations

import functools
import logging
from operator import attrgetter
from typing import Any

from ..memory.clean_up import drop_dead_frames, give_back_caches
from ..memory.out_of_memory import recognise
from .handled import handled_by

log = logging.getLogger("plimsoll")

_gradient, _version = attrgetter("grad"), attrgetter("_version")

NAMES = ("clip_grad_norm_", "clip_grad_value_")


def install() -> None:
    """Trainers, and most loops, call it by its name in torch.nn.utils."""
    from torch.nn import utils

    for name in NAMES:
        real = getattr(utils, name, None)
        if real is not None and not hasattr(real, "_plimsoll"):
            setattr(utils, name, _retrying(real))


def _retrying(real: Any) -> Any:
    @functools.wraps(real)
    def clip(parameters: Any, *arguments: Any, **named: Any) -> Any:
        if not hasattr(parameters, "grad"):
            parameters = list(parameters)
        given = parameters if isinstance(parameters, list) else [parameters]
        gradients = [one for one in map(_gradient, given) if one is not None]
        versions = list(map(_version, gradients))
        try:
            return real(parameters, *arguments, **named)
        except Exception as error:
            if recognise(error) is None or handled_by() is not None:
                raise
            if list(map(_version, gradients)) != versions:
                raise
            log.warning("plimsoll: out of memory in clipping: cached memory was given back")
            drop_dead_frames(error)
        give_back_caches()
        return real(parameters, *arguments, **named)

    clip.__dict__["_plimsoll"] = True
    return clip
