"""Sharded checkpoints: each rank copies its part to the host and writes it, which takes none of the GPU."""

from __future__ import annotations

import errno
import os
from typing import Any, Callable

from ...standins.imports import when_imported
from ...standins.patches import Patches
from ..watch import SAVING, Watch

_MODULES = ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_saver")
_LOADERS = ("torch.distributed.checkpoint", "torch.distributed.checkpoint.state_dict_loader")
# PyTorch writes it last: programs look for it.
_LAST = ".metadata"


def install(patches: Patches, watch: Watch) -> None:
    for module in _MODULES:
        when_imported(module, _only_named(patches, watch))
    for module in _LOADERS:
        when_imported(module, _nothing_read(patches))


def _only_named(patches: Patches, watch: Watch) -> Callable[[Any], None]:
    """The folder is there after it, and what it holds is not read again."""

    def saved(*_: Any, checkpoint_id: Any = None, **__: Any) -> None:
        with watch.within(SAVING):
            if checkpoint_id is not None:
                os.makedirs(checkpoint_id, exist_ok=True)
                with open(os.path.join(checkpoint_id, _LAST), "wb"):
                    pass

    def install_into(module: Any) -> None:
        for name in ("save", "async_save", "save_state_dict"):
            if hasattr(module, name):
                patches.set(module, name, saved)

    return install_into


def _nothing_read(patches: Patches) -> Callable[[Any], None]:
    """What is loaded is copied into tensors that are there already."""

    def loaded(state_dict: Any, *_: Any, checkpoint_id: Any = None, **__: Any) -> None:
        if checkpoint_id is not None and not os.path.exists(checkpoint_id):
            from torch.distributed.checkpoint import api

            missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), checkpoint_id)
            raise api.CheckpointException("read metadata", {0: api._wrap_exception(missing)})

    return lambda module: patches.set(module, "load", loaded)
