"""Sharded checkpoints: each rank copies its part to the host and writes it, which takes none of the GPU."""

from __future__ import annotations

from typing import Any, Callable

from ...standins.imports import when_imported
from ...standins.patches import Patches
from ..watch import SAVING, Watch

_MODULES = ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_saver")


def install(patches: Patches, watch: Watch) -> None:
    for module in _MODULES:
        when_imported(module, _nothing_written(patches, watch))


def _nothing_written(patches: Patches, watch: Watch) -> Callable[[Any], None]:
    def saved(*_: Any, **__: Any) -> None:
        with watch.within(SAVING):
            pass

    def install_into(module: Any) -> None:
        for name in ("save", "async_save", "save_state_dict"):
            if hasattr(module, name):
                patches.set(module, name, saved)

    return install_into
