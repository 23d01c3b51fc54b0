"""Decides what follows a failure: the rule in force when no supervisor answers.

The supervisor decides by the same rule (src/run/ladder/in-process.ts); test/fixtures/recovery-rules.json holds
both to the same answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .sizes import Measured, smaller

GIVE_BACK, SMALLER = "give-back-cache", "smaller-microbatch"
# What a program can declare, from the cheapest to the most costly, and the rung that climbs it.
HOOKS = {"checkpointing": "checkpointing", "precision": "lower-precision", "offload": "cpu-offload"}

# Cached memory in pieces is worth another try of the same size only where it is this share of the limit: less is
# usual at the end of a pass, and the same pass would end the same way.
FRAGMENTED_SHARE = 0.2


class Decision(NamedTuple):
    action: str
    microbatch: int
    rung: str
    why: str


class Failed(NamedTuple):
    """A microbatch that ran out of memory, and all that is known of it. None is unknown."""

    microbatch: int
    # How often this size has failed in this batch, this failure among them.
    attempt: int
    # Whether memory ran out in this batch before: caches are given back after each failure.
    gave_back: bool = False
    others_hold: bool = False
    hooks: Sequence[str] = ()
    asked_bytes: int | None = None
    peak_bytes: int | None = None
    cached_bytes: int | None = None


def decide(failed: Failed, measured: Measured) -> Decision:
    """What to do about a microbatch that ran out of memory.

    >>> decide(Failed(32, attempt=1), Measured(limit_bytes=8e9)).microbatch
    16
    """
    size = failed.microbatch
    why = _why_the_same_again(failed, measured)
    if why is not None:
        return Decision("retry", size, GIVE_BACK, why)
    if size > 1:
        less, basis = smaller(size, measured, failed.peak_bytes, failed.asked_bytes)
        return Decision("retry", less, SMALLER, f"{size} samples do not fit; {basis}")
    if failed.others_hold:
        return Decision(
            "wait", 1, GIVE_BACK, "other processes are using the memory; waiting for them to end"
        )
    hook = next((name for name in HOOKS if name in failed.hooks), None)
    if hook is not None:
        return Decision("retry", 1, HOOKS[hook], f"one sample does not fit; {hook} is tried next")
    return Decision("raise", 1, "none", "one sample does not fit, and there is nothing left to try")


def _why_the_same_again(failed: Failed, measured: Measured) -> str | None:
    """Whether the size that failed should be tried again once caches were given back, and why."""
    size, first = failed.microbatch, failed.attempt <= 1
    if first and not failed.others_hold and any(fitted == size for fitted, _ in measured.fitted):
        return f"{size} samples fitted before; cached memory was given back"
    if first and size <= 1:
        return "one sample did not fit; cached memory was given back"
    if not failed.gave_back and not failed.others_hold and _cache_is_enough(failed, measured):
        return "cached memory in unused pieces would be enough; it was given back"
    return None


def _cache_is_enough(failed: Failed, measured: Measured) -> bool:
    """Where the measured line says that this size does not fit, no cache makes up for it."""
    cached, asked = failed.cached_bytes, failed.asked_bytes
    if cached is None or asked is None or asked <= 0 or cached < asked:
        return False
    if measured.limit_bytes is not None and cached < measured.limit_bytes * FRAGMENTED_SHARE:
        return False
    fits = measured.largest()
    return fits is None or fits >= failed.microbatch
