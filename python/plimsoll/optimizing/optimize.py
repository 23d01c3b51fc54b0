"""`plimsoll.optimize`: less memory for the same model, each change told and undone on demand."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from functools import cache
from typing import Any, Callable, NamedTuple

from ..arguments import BadValue, function, one_of, optional_truth, shown, text, whole
from ..arguments import dtype as floating_type
from ..arguments import model as torch_model
from ..arguments import optimizer as torch_optimizer
from . import checkpointing, precision, pruning
from .change import Change, as_in_training, kept_for_backward, parameter_bytes

log = logging.getLogger("plimsoll")
# What changes the bytes kept for backward.
_MEASURED = ("checkpointing", "autocast", "attention", "loss-in-pieces")


# Levels O0 to O3, named as those of apex.amp: what they mean with the PyTorch of today.


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


# An optimizer that updates in one kernel, without a temporary copy of all its parameters.


def fuse_optimizer(optimizer: Any) -> Change | None:
    """Turns on the fused kernel of a torch optimizer; None where it has none or runs it already."""
    import torch

    kinds = tuple(getattr(torch.optim, name) for name in ("Adam", "AdamW", "SGD", "Adagrad"))
    groups = optimizer.param_groups
    if type(optimizer) not in kinds or any(
        group.get("fused") or group.get("differentiable") for group in groups
    ):
        return None
    parameters = [p for group in groups for p in group["params"]]
    if not all(p.is_floating_point() for p in parameters):
        return None
    before = [(group.get("foreach"), group.get("fused")) for group in groups]
    scaling = getattr(optimizer, "_step_supports_amp_scaling", None)
    for group in groups:
        group["foreach"], group["fused"] = False, True
    optimizer._step_supports_amp_scaling = True
    # Fused kernels count steps on the device of the parameter.
    for parameter, state in optimizer.state.items():
        if torch.is_tensor(state.get("step")):
            state["step"] = state["step"].to(parameter.device, torch.float32)

    def undo() -> None:
        for group, (foreach, was_fused) in zip(groups, before):
            group["foreach"], group["fused"] = foreach, was_fused
        if scaling is None:
            del optimizer._step_supports_amp_scaling
        else:
            optimizer._step_supports_amp_scaling = scaling
        for state in optimizer.state.values():
            if torch.is_tensor(state.get("step")):
                state["step"] = state["step"].cpu()

    on_cards = [p for p in parameters if p.is_cuda]
    temporary = sum(p.numel() * p.element_size() for p in on_cards)
    note = (
        "no temporary copies in optimizer.step()"
        if on_cards
        else "on the host the default makes no copies; faster only"
    )
    return Change("fused-optimizer", undo, temporary, note)


# The loss of a language model a piece of the tokens at a time: no copy of all logits in 32 bits.

# Logits that are worked on at once: 128 MiB in 32 bits, a small part of any batch that needs this.
_PIECE = 1 << 25


def in_pieces(model: Any) -> Change | None:
    """For Hugging Face's causal language models; None for a model that takes its loss another way."""
    inner = getattr(model, "module", model)
    try:
        from transformers.loss.loss_utils import ForCausalLMLoss
    except ImportError:
        return None
    if getattr(inner, "loss_function", None) is not ForCausalLMLoss:
        return None
    had_own = "_loss_function" in inner.__dict__
    inner.loss_function = causal_loss

    def undo() -> None:
        if had_own:
            inner.loss_function = ForCausalLMLoss
        else:
            del inner._loss_function

    return Change("loss-in-pieces", undo, note="logits are never held in 32 bits as a whole")


def causal_loss(
    logits: Any,
    labels: Any,
    vocab_size: int,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: Any = None,
    **_: Any,
) -> Any:
    """Cross entropy of each token's successor, as transformers defines it."""
    import torch

    if shift_labels is None:
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    targets = shift_labels.reshape(-1).to(logits.device)
    total = _summed().apply(logits.reshape(-1, vocab_size), targets, ignore_index)
    if num_items_in_batch is None:
        return total / (targets != ignore_index).sum()
    return total / (
        num_items_in_batch.to(total.device)
        if torch.is_tensor(num_items_in_batch)
        else num_items_in_batch
    )


@cache
def _summed() -> Any:
    """The sum over all tokens. Its gradient is made on the way, in the type of the logits."""
    import torch
    from torch.autograd.function import once_differentiable

    class SummedCrossEntropy(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, logits: Any, targets: Any, ignore_index: int) -> Any:
            wanted = logits.requires_grad
            gradient = torch.empty_like(logits) if wanted else None
            total = torch.zeros((), dtype=torch.float32, device=logits.device)
            rows = max(1, _PIECE // logits.shape[-1])
            for start in range(0, len(logits), rows):
                piece = slice(start, start + rows)
                logs = torch.log_softmax(logits[piece].float(), dim=-1)
                counted = targets[piece] != ignore_index
                target = targets[piece].where(counted, targets.new_zeros(()))[:, None]
                total -= logs.gather(1, target)[:, 0].where(counted, logs.new_zeros(())).sum()
                if gradient is not None:
                    shares = logs.exp_()
                    shares.scatter_add_(1, target, shares.new_full((), -1.0).expand(target.shape))
                    gradient[piece] = shares.mul_(counted[:, None])
            context.save_for_backward(gradient)
            return total

        @staticmethod
        @once_differentiable
        def backward(context: Any, above: Any) -> Any:
            (gradient,) = context.saved_tensors
            scaled = torch.empty_like(gradient)
            rows = max(1, _PIECE // gradient.shape[-1])
            for start in range(0, len(gradient), rows):
                piece = slice(start, start + rows)
                scaled[piece] = gradient[piece].float().mul_(above)
            return scaled, None, None

    return SummedCrossEntropy


class Optimization:
    """What was changed. `undo()` takes all of it back, the last first."""

    def __init__(self, model: Any, forward: Callable[[], Any] | None, train: bool) -> None:
        self.model = model
        self._train = train
        self.changes: list[Change] = []
        self.skipped: dict[str, str] = {}
        self.forward = forward
        self._kept = self._measure()
        self._weights = parameter_bytes(model)

    def apply(self, change: Change | None, name: str, why_not: str) -> None:
        if change is None:
            self.skipped[name] = why_not
            return
        self.changes.append(change)
        try:
            now = self._measure()
        except Exception as error:
            # The forward ran before this change.
            self.changes.pop().undo()
            why = (str(error).splitlines() or [""])[0]
            self.skipped[name] = (
                f"undone: with it, the forward ends with {type(error).__name__}: {why}"
            )
            return
        weights = parameter_bytes(self.model)
        # Where nothing is kept for backward there is nothing to save of it.
        if self._kept and now is not None and change.what in _MEASURED:
            change.measured_bytes = self._kept - now
        if change.what in ("dtype", "prune"):
            change.measured_bytes = self._weights - weights
        if change.measured_bytes is not None and change.measured_bytes <= 0:
            self.changes.pop().undo()
            more = -change.measured_bytes
            self.skipped[name] = f"undone: measured, it saves nothing and takes {more} bytes more"
            return
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
        if self.forward is None:
            return None
        with as_in_training(self.model) if self._train else nullcontext():
            return kept_for_backward(self.forward, self.model)


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

    With an optimizer it is training, else what `model.training` says. Weights that are trained keep their type.
    A change that was measured (`forward`) and saves nothing is undone.
    """
    torch_model("model", model)
    torch_optimizer("optimizer", optimizer)
    function("forward", forward)
    floating_type("dtype", dtype)
    floating_type("autocast", None if isinstance(autocast, bool) else autocast)
    if attention is not None:
        text("attention", attention, "sdpa")
    if segments is not None:
        whole("segments", segments, 1)
    for name, value in (("checkpoint", checkpoint), ("pieces", pieces), ("fuse", fuse)):
        optional_truth(name, value)
    if level is not None:
        one_of("level", level, tuple(LEVELS))
    _check_prune(prune)
    wanted = _Wanted(
        train=_trains(model, optimizer, training), checkpoint=checkpoint, segments=segments,
        autocast=autocast, attention=attention, pieces=pieces, dtype=dtype, fuse=fuse, prune=prune,
    )  # fmt: skip
    made = Optimization(model, forward, wanted.train)
    try:
        _apply(made, optimizer, wanted if level is None else wanted.at(LEVELS[level]))
    except BaseException:
        # A model half optimized would be hard to explain.
        made.undo()
        raise
    for change in made.changes:
        log.info("plimsoll: %s: %s", change.what, change.note)
    return made


class _Wanted(NamedTuple):
    """What was asked for; None is what fits training or inference."""

    train: bool
    checkpoint: bool | None
    segments: int | None
    autocast: Any
    attention: str | None
    pieces: bool | None
    dtype: Any
    fuse: bool | None
    prune: None | float | str
    by_level: bool = False

    def at(self, level: Level) -> _Wanted:
        """With what a level says in the place of what was left out."""
        import torch

        recompute = level.recompute and self.train
        # Weights that are trained keep their type: their products alone are in bfloat16.
        autocast = level.autocast or (level.weights and self.train)
        weights = torch.bfloat16 if level.weights and not self.train else None
        return self._replace(
            checkpoint=recompute if self.checkpoint is None else self.checkpoint,
            pieces=recompute if self.pieces is None else self.pieces,
            autocast=autocast if self.autocast is None else self.autocast,
            fuse=level.cheap if self.fuse is None else self.fuse,
            attention=self.attention if level.cheap else None,
            dtype=weights if self.dtype is None else self.dtype,
            by_level=True,
        )


def _trains(model: Any, optimizer: Any, training: Any) -> bool:
    optional_truth("training", training)
    if optimizer is None:
        return bool(model.training) if training is None else bool(training)
    if training is False:
        fact = "training is False, and an optimizer was given: an optimizer trains"
        raise BadValue(fact, "leave one of them out")
    return True


def _apply(made: Optimization, optimizer: Any, wanted: _Wanted) -> None:
    import torch

    model, train = made.model, wanted.train
    if wanted.attention is not None:
        found, why_not = _attention(model, wanted.attention)
        made.apply(found, "attention", why_not)
    if wanted.autocast or (wanted.autocast is None and train):
        kind = torch.bfloat16 if wanted.autocast in (None, True) else wanted.autocast
        made.apply(precision.autocast(model, kind), "autocast", "")
    if wanted.pieces or (wanted.pieces is None and train):
        why_not = "only causal language models of transformers have it"
        made.apply(in_pieces(model), "loss-in-pieces", why_not)
    # After the others: what they save inside a block can no longer be measured once the block keeps nothing.
    if wanted.checkpoint or (wanted.checkpoint is None and train):
        found = checkpointing.checkpoint(model, wanted.segments)
        made.apply(found, "checkpointing", "no repeated blocks were found")
    _cast(made, wanted)
    if wanted.prune is not None:
        _prune(made, model, wanted.prune, train)
    if optimizer is not None and wanted.fuse is not False:
        why_not = "fused already, or an optimizer without a fused kernel"
        made.apply(fuse_optimizer(optimizer), "fused-optimizer", why_not)


def _attention(model: Any, kernel: str) -> tuple[Change | None, str]:
    try:
        return precision.attention(model, kernel), "already so, or the model has no switch for it"
    except (ImportError, ValueError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        if kernel != "sdpa":
            raise BadValue(f"attention={kernel!r}: {why}", 'pass "sdpa", or None') from error
        return None, why


def _cast(made: Optimization, wanted: _Wanted) -> None:
    import torch

    model, dtype = made.model, wanted.dtype
    if wanted.train:
        if dtype is not None:
            made.apply(None, "dtype", _for_inference("weights that are trained keep their type"))
        return
    on_gpu = any(p.is_cuda for p in model.parameters())
    chosen = torch.bfloat16 if dtype is None and on_gpu and not wanted.by_level else dtype
    if chosen is not None:
        why_not = "the weights have this type already"
        made.apply(precision.cast_parameters(model, chosen), "dtype", why_not)


def _for_inference(why: str) -> str:
    return f"{why}: call model.eval() or pass training=False, and pass no optimizer"


def _prune(made: Optimization, model: Any, prune: float | str, train: bool) -> None:
    if train:
        made.apply(None, "prune", _for_inference("pruning is for inference"))
    elif prune == "2:4":
        made.apply(
            pruning.semi_structured(model),
            "prune",
            "needs linear layers in 16 bits on a CUDA device",
        )
    else:
        made.apply(
            pruning.remove_channels(model, float(prune), made.forward),
            "prune",
            "no layer was found whose channels the next one alone uses"
            + ("" if made.forward else "; forward=lambda: model(batch) lets it look at a run"),
        )


def _check_prune(prune: None | float | str) -> None:
    """Before anything is changed: a model half optimized would be hard to explain."""
    if prune is not None and prune != "2:4" and not (isinstance(prune, float) and 0 < prune < 1):
        fact = f'prune must be a share between 0 and 1, or "2:4"; not {shown(prune)}'
        raise BadValue(fact, "write prune=0.3 for 30 %")
