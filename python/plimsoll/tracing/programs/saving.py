"""`torch.save` of a program: into the trace's own folder, without the values that tensors do not have."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from ..standins.holes import holes
from ..standins.patches import Patches
from .files.overlay import Overlay, is_path
from .watch import SAVING, Watch


def install(patches: Patches, overlay: Overlay, watch: Watch) -> None:
    save = torch.save

    def torch_save(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        # What is written into memory has no holes.
        with watch.within(SAVING), holes() if is_path(f) else nullcontext():
            save(obj, overlay.writable(f), *args, **kwargs)

    patches.set(torch, "save", torch_save)
