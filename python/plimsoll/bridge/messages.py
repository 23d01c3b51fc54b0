"""What is said on the line to the supervisor, version 1."""

from __future__ import annotations

import math
import os
import sys
from typing import Any

from ..memory.highest import highest_bytes

VERSION = 1
# A job waits this long for a decision and no longer; then it decides by the same rule itself.
ANSWER_SECONDS = 2.0
# The supervisor's longest message is some hundred bytes; more than this is not from one.
LONGEST_LINE = 64 * 1024
# A supervisor that does not read loses figures; memory here stays bounded.
MAX_WAITING = 256


def hello(bridge: Any) -> dict[str, Any]:
    torch = sys.modules.get("torch")
    return {
        "type": "hello",
        "version": VERSION,
        "pid": os.getpid(),
        "rank": bridge.rank,
        "world": bridge.world,
        "torch": str(torch.__version__)
        if torch is not None and hasattr(torch, "__version__")
        else None,
        "hooks": bridge.hooks,
        "spill": bridge.spills,
        "device": device_name(),
        # Where things stand: a supervisor that took the place of a killed one goes on from there.
        "peakBytes": highest_bytes(),
        "works": bridge.works(),
    }


def oom(
    ident: str,
    rank: int,
    found: Any,
    phase: str,
    microbatch: int | None = None,
    batch: int | None = None,
    peak: int | None = None,
    snapshot: str | None = None,
) -> dict[str, Any]:
    return {
        "type": "oom",
        "id": ident,
        "rank": rank,
        "phase": phase,
        "kind": found.kind,
        "message": found.message,
        "askedBytes": found.asked_bytes,
        "microbatch": microbatch,
        "batch": batch,
        "peakBytes": peak,
        "snapshot": snapshot,
    }


def step(
    number: int,
    microbatch: int,
    batch: int,
    peak: int,
    who: str,
    loss: float | None = None,
    is_training: bool = True,
) -> dict[str, Any]:
    sizes = {"microbatch": microbatch, "batch": batch, "peakBytes": peak, "training": is_training}
    return {"type": "step", "who": who, "number": number, **sizes, **_known(loss)}


def loop(number: int, peak: int, who: str, loss: float | None) -> dict[str, Any]:
    """A step of a loop of the program's own: what a batch of it holds is not known here."""
    return {"type": "loop", "who": who, "number": number, "peakBytes": peak, **_known(loss)}


def _known(loss: float | None) -> dict[str, float]:
    return {} if loss is None or not math.isfinite(loss) else {"loss": loss}


def forecast(ident: str, ahead: Any, batch: int, who: str) -> dict[str, Any]:
    """What is known before a step that will pass the load line."""
    known = ahead.measured
    return {
        "type": "forecast",
        "id": ident,
        "who": who,
        "step": ahead.step,
        "microbatch": ahead.microbatch,
        "batch": batch,
        "baseBytes": known.base_bytes,
        "limitBytes": known.limit_bytes,
        "readings": [
            {
                "step": one.step,
                "microbatch": one.microbatch,
                "baseBytes": one.base_bytes,
                "peakBytes": one.peak_bytes,
            }
            for one in ahead.readings
        ],
        "sizes": [{"microbatch": size, "peakBytes": peak} for size, peak in known.fitted],
    }


def climbed(rung: str, why: str, seconds_ago: float) -> dict[str, Any]:
    return {"type": "climbed", "rung": rung, "why": why, "secondsAgo": round(seconds_ago, 3)}


def device_name() -> str:
    """The device in use; a card is named only once it is in use, since asking would wake it."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is not None and hasattr(cuda, "is_initialized") and cuda.is_initialized():
        return f"cuda:{cuda.current_device()}"
    return "cpu"
