"""The weight of each microbatch: its share of what the mean of the whole batch is taken over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Callable, Union

from ...arguments import BadValue, shown

IGNORED_LABEL = -100
NAMES = ("auto", "samples", "tokens", "shifted-tokens")

Share = Union[str, Callable[[Any], float]]


def check_share(share: Share) -> None:
    if not callable(share) and share not in NAMES:
        fact = (
            f"share must be one of {', '.join(NAMES)} or a function of a batch, not {shown(share)}"
        )
        raise BadValue(fact, 'leave it out, or pass share="samples"')


def sample_weights(batch: Any, count: int, share: Share, model: Any) -> list[int] | None:
    """What each sample adds to the mean's denominator; None where all samples add the same.

    `auto` looks for integer labels and counts those that carry loss; the loss of a causal language
    model leaves out the first of each sequence. One transfer from the device for a whole batch.
    """
    if share == "samples" or callable(share):
        return None
    labels = _labels(batch)
    if labels is None or labels.shape[0] != count:
        return None
    shifted = share == "shifted-tokens" or (share == "auto" and is_causal(model))
    if shifted and labels.dim() > 1:
        labels = labels[..., 1:]
    return (labels != IGNORED_LABEL).reshape(count, -1).sum(dim=1).tolist()


def is_causal(model: Any) -> bool:
    """Whether a model's own loss compares each token with the one before it."""
    inner = getattr(model, "module", model)
    unwrap = getattr(inner, "get_base_model", None)
    inner = unwrap() if callable(unwrap) else inner
    kind = getattr(inner, "loss_type", None)
    if isinstance(kind, str):
        return kind == "ForCausalLM"
    return type(inner).__name__.endswith(("ForCausalLM", "LMHeadModel"))


def _labels(batch: Any) -> Any:
    """The integer labels of a batch; None where the mean is over samples."""
    found: Any = None
    if isinstance(batch, Mapping):
        found = next(
            (batch[key] for key in ("labels", "label", "targets", "target") if key in batch), None
        )
    elif isinstance(batch, (list, tuple)) and len(batch) == 2:
        found = batch[1]
    if not hasattr(found, "is_floating_point") or found.is_floating_point() or found.is_complex():
        return None
    return found if found.dim() > 0 else None
