"""Lightning plans its epochs by the length of a loader, so short epochs are asked of its Trainer.

Validation, checkpoints and callbacks come at the end of an epoch that it knows the length of. A checkpoint is saved
into its file at once: Lightning writes it into memory first, with all that tensors without memory would hold.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

from ..standins.imports import when_imported
from ..standins.patches import Patches
from .watch import Watch

# Both names of the package.
_TRAINERS = ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer")
_SAVERS = ("lightning.fabric.plugins.io.torch_io", "lightning_fabric.plugins.io.torch_io")
_STEPS = 3
# What each batch leaves behind shows before the third.
_READ = 3
_EPOCHS = 3


def install(patches: Patches, watch: Watch) -> None:
    for module in _TRAINERS:
        when_imported(module, lambda found: _shorten(patches, watch, found.Trainer))
    for module in _SAVERS:
        when_imported(module, lambda found: _save_into_files(patches, found))


def _save_into_files(patches: Patches, module: Any) -> None:
    save_by_memory = getattr(module, "_atomic_save", None)
    if save_by_memory is None:
        return

    def save(checkpoint: Any, filepath: Any) -> None:
        is_address = "://" in str(filepath)
        save_by_memory(checkpoint, filepath) if is_address else torch.save(checkpoint, filepath)

    patches.set(module, "_atomic_save", save)


def _shorten(patches: Patches, watch: Watch, trainer: Any) -> None:
    make = trainer.__init__

    # LightningCLI reads the names and types of its options from the signature.
    @functools.wraps(make)
    def __init__(self: Any, *args: Any, **settings: Any) -> None:
        if not settings.get("fast_dev_run") and not settings.get("overfit_batches"):
            watch.short_epochs = True
            watch.whole_epochs = _ends_with_an_epoch(settings)
            limits = _limits(settings)
            for kind, limit in (("train", "train"), ("read", "val")):
                name = f"limit_{limit}_batches"
                whole = settings.get(name) in (None, 1.0)
                watch.epoch_ends[kind] = limits[name] if whole else 0
            settings.update(limits)
        make(self, *args, **settings)

    patches.set(trainer, "__init__", __init__)


def _limits(settings: dict[str, Any]) -> dict[str, Any]:
    step = settings.get("accumulate_grad_batches") or 1
    validates = settings.get("val_check_interval")
    within = isinstance(validates, float) and validates < 1.0
    # Where an epoch is validated within, one step follows.
    batches = (_STEPS + within) * step
    limits: dict[str, Any] = {
        "limit_train_batches": _least(settings.get("limit_train_batches"), batches),
        **{
            f"limit_{kind}_batches": _least(settings.get(f"limit_{kind}_batches"), _READ)
            for kind in ("val", "test", "predict")
        },
    }
    if within and limits["limit_train_batches"] == batches:
        # Not after each step: a validation gives up the gradients, which the next step would meet.
        limits["val_check_interval"] = _STEPS * step
    # Counted in batches, or in epochs, that do not come.
    if isinstance(validates, int):
        limits["val_check_interval"] = 1.0
    if settings.get("check_val_every_n_epoch", 1) != 1:
        limits["check_val_every_n_epoch"] = 1
    if _ends_with_an_epoch(settings):
        limits["max_epochs"] = _least(settings.get("max_epochs"), _EPOCHS)
    return limits


def _ends_with_an_epoch(settings: dict[str, Any]) -> bool:
    return settings.get("max_steps", -1) == -1 and settings.get("max_time") is None


def _least(asked: Any, enough: int) -> int:
    """What a person set, where it is a count and fewer."""
    is_count = isinstance(asked, int) and not isinstance(asked, bool) and asked >= 0
    return min(asked, enough) if is_count else enough
