"""Levels O0 to O3, named as those of apex.amp: what they mean with the PyTorch of today."""

from __future__ import annotations

from typing import NamedTuple


class Level(NamedTuple):
    """What a level turns on; an argument that was given counts for more."""

    autocast: bool
    cheap: bool
    recompute: bool
    weights: bool


LEVELS: dict[str, Level] = {
    # Nothing changes.
    "O0": Level(False, False, False, False),
    # Products in bfloat16, weights as they are, and what costs no time: attention kernel, fused optimizer.
    "O1": Level(True, True, False, False),
    # The same, and what costs time: checkpointing, the loss in pieces.
    "O2": Level(True, True, True, False),
    # The weights themselves in bfloat16: results change.
    "O3": Level(False, True, True, True),
}
