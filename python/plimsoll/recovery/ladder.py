"""Decides what follows a failure: the rule in force when no supervisor answers."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from .sizes import PeakLine, smaller

GIVE_BACK, SMALLER = "give-back-cache", "smaller-microbatch"
# What a program can declare, from the cheapest to the most costly, and the rung that climbs it.
HOOKS = {"checkpointing": "checkpointing", "precision": "lower-precision", "offload": "cpu-offload"}
# A batch that failed this often is not going to fit; each failure costs the work of a microbatch.
MOST_ATTEMPTS = 24


class Decision(NamedTuple):
    action: str
    microbatch: int
    rung: str
    why: str


def decide(
    failed: int,
    line: PeakLine,
    limit_bytes: float,
    attempt: int,
    fitted_before: bool,
    hooks: Sequence[str],
    others_hold: bool,
) -> Decision:
    """What to do about a microbatch of `failed` samples that ran out of memory for the attempt-th time.

    >>> decide(32, PeakLine(), 8e9, 1, False, [], False).microbatch
    16
    """
    if attempt >= MOST_ATTEMPTS:
        return Decision("raise", failed, "none", f"{attempt} attempts at one batch failed")
    if fitted_before and attempt == 1 and not others_hold:
        return Decision("retry", failed, GIVE_BACK, f"{failed} samples fitted before; cached memory was given back")
    if failed > 1:
        size = smaller(failed, line, limit_bytes)
        known = line.largest_under(limit_bytes)
        basis = "measured peaks say that fits" if known == size else "half of what failed"
        return Decision("retry", size, SMALLER, f"{failed} samples do not fit; {basis}")
    if attempt == 1:
        return Decision("retry", 1, GIVE_BACK, "one sample did not fit; cached memory was given back")
    if others_hold:
        return Decision("wait", 1, GIVE_BACK, "other processes hold the device; waiting for them to leave")
    if hooks:
        return Decision("retry", 1, HOOKS[hooks[0]], f"one sample does not fit; {hooks[0]} is the next rung")
    return Decision("raise", 1, "none", "one sample does not fit, and no other rung was declared")
