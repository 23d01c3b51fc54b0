"""A torchvision classifier by name, with a batch of images and cross entropy."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import torch

from plimsoll.failure import MISSING_PACKAGE, Failure

from ..workload import Settings, Workload
from .hugging_face import default_dtype

_USUAL_SIZE = 224
_CLASSES = 1000
# Names that people use for one of several sizes, and the size they mean by it.
_SHORT = {
    "mobilenetv3": "mobilenet_v3_large",
    "inception": "inception_v3",
    "squeezenet": "squeezenet1_1",
}


def load(name: str, settings: Settings) -> Workload:
    try:
        import torchvision
    except ImportError as error:
        raise Failure(
            "torchvision-missing",
            "torchvision is not installed for this Python",
            "pip install torchvision, or name another Python",
            status=MISSING_PACKAGE,
        ) from error
    if settings.checkpointing:
        raise Failure(
            "no-checkpointing",
            "models of torchvision have no gradient checkpointing",
            "leave --checkpointing out",
        )
    known = torchvision.models.list_models(module=torchvision.models)
    with default_dtype(settings.dtype), torch.device("meta"):
        model = torchvision.models.get_model(full_name(name, known), weights=None)
    model.train(settings.training)
    size = settings.image or settings.seq or _USUAL_SIZE

    def batch():
        with torch.device("meta"):
            images = torch.randn(settings.batch, 3, size, size, dtype=settings.dtype)
            return images, torch.randint(0, _CLASSES, (settings.batch,))

    return Workload(model, batch, lambda model, given: model(given[0]), _loss)


def full_name(name: str, known: list[str]) -> str:
    """torchvision's own name, however its parts are joined."""
    # Where two names differ by an underscore alone (regnet_y_16gf, regnet_y_1_6gf), it counts.
    if name in known:
        return name
    by_letters = {_letters(one): one for one in known}
    found = by_letters.get(_letters(name)) or _SHORT.get(_letters(name))
    if found is None:
        near = get_close_matches(name.lower(), known, 3, 0.5)
        raise Failure(
            "unknown-vision-model",
            f"torchvision has no classifier {name!r}",
            "did you mean {}?".format(" or ".join(near))
            if near
            else "see torchvision.models.list_models()",
        )
    return found


def _letters(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _loss(out: Any, given: Any) -> Any:
    """Of the last output alone, where a model has others on the way to it."""
    logits = out.logits if hasattr(out, "logits") else out
    return torch.nn.functional.cross_entropy(logits, given[1])
