"""Layers that models of transformers leave out at random in training (layerdrop).

A trace must not be luck, and a long training has steps that run them all: so does a trace. What a real run
reserves is settled by the layers of its first steps, and stays: on an H200 two speech encoders held after 60
steps what they held after five.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch

_ALL = (
    "layers that the model leaves out at random (layerdrop) were all run; "
    "a real run reserves less or more, by those that its first steps leave out"
)
_DRAWN = "the program leaves out layers at random (layerdrop): with another seed it reserves less or more"
_MODELS = "transformers.models."
# How many frames up the model's own line is looked for: PyTorch's modes lie in between.
_FRAMES = 12


class LayerDraws:
    """Answers a model that asks whether to leave out a layer."""

    def __init__(self, observer: Any, by_program: bool):
        self._observer = observer
        # A program draws by its own seed.
        self._by_program = by_program

    def draw(self) -> Any | None:
        """What `torch.rand([])` gives where it decides on a layer; None where it is to be drawn."""
        if not _may_leave_out(_drawing()):
            return None
        self._observer.skips_layers = True
        self._observer.notes.add(_DRAWN if self._by_program else _ALL)
        return None if self._by_program else torch.ones((), device="cpu")


def _drawing() -> Any | None:
    """The module whose forward pass draws; None where that is none of transformers'."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return None
        if str(frame.f_globals.get("__name__")).startswith(_MODELS):
            return frame.f_locals.get("self")
        frame = frame.f_back
    return None


def _may_leave_out(module: Any | None) -> bool:
    """Models keep their chance themselves, or in their config, where it has more than one name."""
    if not getattr(module, "training", False):
        return False
    own = getattr(module, "layerdrop", None)
    if own is not None:
        return bool(own)
    config = vars(getattr(module, "config", object))
    return any(chance for name, chance in config.items() if name.endswith("layerdrop"))
