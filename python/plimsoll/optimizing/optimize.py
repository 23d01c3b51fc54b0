"""`plimsoll.optimize`: less memory for the same model, each change told and undone on demand."""

from __future__ import annotations

import logging
from typing import Any, Callable

from ..arguments import BadValue, function, one_of, shown, whole
from ..arguments import dtype as floating_type
from ..arguments import model as torch_model
from ..arguments import optimizer as torch_optimizer
from . import checkpointing, fused, loss, precision, pruning
from .change import Change, parameter_bytes
from .levels import LEVELS
from .measure import kept_for_backward

log = logging.getLogger("plimsoll")
# What changes the bytes kept for backward.
_MEASURED = ("checkpointing", "autocast", "attention", "loss-in-pieces")


class Optimization:
    """What was changed. `undo()` takes all of it back, the last first."""

    def __init__(self, model: Any, forward: Callable[[], Any] | None) -> None:
        self.model = model
        self.changes: list[Change] = []
        self.skipped: dict[str, str] = {}
        self._forward = forward
        self._kept = self._measure()
        self._weights = parameter_bytes(model)

    def apply(self, change: Change | None, name: str, why_not: str) -> None:
        if change is None:
            self.skipped[name] = why_not
            return
        self.changes.append(change)
        now = self._measure()
        if self._kept is not None and now is not None and change.what in _MEASURED:
            change.measured_bytes = self._kept - now
        weights = parameter_bytes(self.model)
        if change.what in ("dtype", "prune"):
            change.measured_bytes = self._weights - weights
        self._kept, self._weights = now, weights

    def undo(self) -> None:
        while self.changes:
            self.changes.pop().undo()

    def report(self) -> dict[str, Any]:
        """What each change saves: estimated by a formula, measured where a forward was given."""
        return {
            "changes": [change.as_json() for change in self.changes],
            "skipped": dict(self.skipped),
            "parameterBytes": parameter_bytes(self.model),
            "keptForBackwardBytes": "unknown" if self._kept is None else self._kept,
        }

    def _measure(self) -> int | None:
        return None if self._forward is None else kept_for_backward(self._forward, self.model)


def optimize(
    model: Any,
    optimizer: Any = None,
    *,
    level: str | None = None,
    training: bool | None = None,
    checkpoint: bool | None = None,
    segments: int | None = None,
    autocast: Any = None,
    attention: str | None = "sdpa",
    pieces: bool | None = None,
    dtype: Any = None,
    fuse: bool | None = None,
    prune: None | float | str = None,
    forward: Callable[[], Any] | None = None,
) -> Optimization:
    """Makes a model need less memory, in place.

        done = plimsoll.optimize(model, optimizer, forward=lambda: model(**batch).loss)
        print(done.report())
        done.undo()

    In training: checkpointing, autocast to bfloat16 (False turns it off), the sdpa attention kernel, the
    loss of a language model in pieces, a fused optimizer; results stay the same but for the rounding of
    bfloat16. For inference: the weights' type (`dtype`), and `prune` as a share of channels to remove or
    "2:4"; both change results. `level` ("O0" to "O3") names a set of these; other arguments count for more.
    """
    import torch

    torch_model("model", model)
    torch_optimizer("optimizer", optimizer)
    function("forward", forward)
    floating_type("dtype", dtype)
    floating_type("autocast", None if isinstance(autocast, bool) else autocast)
    if segments is not None:
        whole("segments", segments, 1)
    _check_prune(prune)
    train = model.training if training is None else training
    if level is not None:
        chosen_level = LEVELS[one_of("level", level, tuple(LEVELS))]
        recompute, cheap = chosen_level.recompute and train, chosen_level.cheap
        checkpoint = recompute if checkpoint is None else checkpoint
        pieces = recompute if pieces is None else pieces
        autocast = chosen_level.autocast if autocast is None else autocast
        fuse = cheap if fuse is None else fuse
        attention = attention if cheap else None
        dtype = torch.bfloat16 if dtype is None and chosen_level.weights else dtype
    on_gpu = any(p.is_cuda for p in model.parameters())
    made = Optimization(model, forward)
    if attention is not None:
        made.apply(
            precision.attention(model, attention),
            "attention",
            "already so, or the model has no switch for it",
        )
    if checkpoint or (checkpoint is None and train):
        made.apply(
            checkpointing.checkpoint(model, segments),
            "checkpointing",
            "no repeated blocks were found",
        )
    if autocast or (autocast is None and train):
        made.apply(
            precision.autocast(model, torch.bfloat16 if autocast in (None, True) else autocast),
            "autocast",
            "",
        )
    if pieces or (pieces is None and train):
        made.apply(
            loss.in_pieces(model),
            "loss-in-pieces",
            "only causal language models of transformers have it",
        )
    chosen = torch.bfloat16 if dtype is None and not train and on_gpu and level is None else dtype
    if chosen is not None:
        made.apply(
            precision.cast_parameters(model, chosen), "dtype", "the weights have this type already"
        )
    if prune is not None:
        _prune(made, model, prune, train)
    if optimizer is not None and fuse is not False:
        made.apply(
            fused.fuse(optimizer),
            "fused-optimizer",
            "fused already, or an optimizer without a fused kernel",
        )
    for change in made.changes:
        log.info("plimsoll: %s: %s", change.what, change.note)
    return made


def _prune(made: Optimization, model: Any, prune: float | str, train: bool) -> None:
    if train:
        made.apply(
            None, "prune", "pruning is for inference: call model.eval(), or pass training=False"
        )
    elif prune == "2:4":
        made.apply(
            pruning.semi_structured(model),
            "prune",
            "needs linear layers in 16 bits on a CUDA device",
        )
    else:
        made.apply(
            pruning.remove_channels(model, float(prune)),
            "prune",
            "no feed-forward layers were found",
        )


def _check_prune(prune: None | float | str) -> None:
    """Before anything is changed: a model half optimized would be hard to explain."""
    if prune is not None and prune != "2:4" and not (isinstance(prune, float) and 0 < prune < 1):
        fact = f'prune must be a share between 0 and 1, or "2:4"; not {shown(prune)}'
        raise BadValue(fact, "write prune=0.3 for 30 %")
