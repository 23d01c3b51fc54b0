"""`generate()` with fewer sequences at once when all of them do not fit."""

from __future__ import annotations

import functools
import sys
from typing import Any

from ..recovery.function import RecoveringFunction
from .handled import handled_by

# What a call can carry beside tensors of its batch; these tie the sequences together or cannot be cut.
WHOLE = ("streamer", "past_key_values", "encoder_outputs", "assistant_model", "synced_gpus")


def install(module: Any) -> None:
    """`module` is transformers.generation.utils."""
    mixin = getattr(module, "GenerationMixin", None)
    real = getattr(mixin, "generate", None)
    if mixin is None or real is None or hasattr(real, "_plimsoll"):
        return

    @functools.wraps(real)
    def generate(self: Any, *arguments: Any, **named: Any) -> Any:
        if _is_whole(self, named) or (sequences(arguments, named) or 1) < 2:
            return real(self, *arguments, **named)
        return _recovering(self, real)({"given": arguments, "named": named}, self)

    generate.__dict__["_plimsoll"] = True
    mixin.generate = generate


def _is_whole(model: Any, named: Any) -> bool:
    """Whether a call cannot be cut: by what it was given, by what it returns, or since somebody else will."""
    asked = named.get("return_dict_in_generate")
    if asked is None:
        config = named.get("generation_config") or getattr(model, "generation_config", None)
        asked = getattr(config, "return_dict_in_generate", False)
    given = any(named.get(name) is not None for name in WHOLE)
    return bool(asked) or given or handled_by() is not None


def sequences(arguments: Any, named: Any) -> int | None:
    """How many sequences a call begins with; None where its tensors do not say."""
    tensor = sys.modules["torch"].Tensor
    given = [one for one in (*arguments, *named.values()) if isinstance(one, tensor) and one.dim()]
    lengths = {int(one.shape[0]) for one in given}
    return lengths.pop() if len(lengths) == 1 else None


def _recovering(model: Any, real: Any) -> RecoveringFunction:
    """One a model: two models do not need the same memory. Kept in the model's own attributes."""
    kept = model.__dict__.get("_plimsoll_generate")
    if kept is None:

        def generate(batch: Any, one: Any) -> Any:
            return real(one, *batch["given"], **batch["named"])

        kept = RecoveringFunction(
            generate,
            size=lambda batch: sequences(batch["given"], batch["named"]) or 1,
            split=_cut,
            join=lambda parts: padded(parts, _padding(model), sys.modules["torch"]),
        )
        model.__dict__["_plimsoll_generate"] = kept
    return kept


def _cut(batch: Any, start: int, stop: int) -> Any:
    tensor = sys.modules["torch"].Tensor

    def part(value: Any) -> Any:
        return value[start:stop] if isinstance(value, tensor) and value.dim() else value

    return {
        "given": tuple(part(one) for one in batch["given"]),
        "named": {name: part(one) for name, one in batch["named"].items()},
    }


def _padding(model: Any) -> int:
    for config in (getattr(model, "generation_config", None), getattr(model, "config", None)):
        for name in ("pad_token_id", "eos_token_id"):
            found = getattr(config, name, None)
            if isinstance(found, (list, tuple)) and found:
                found = found[0]
            if isinstance(found, int):
                return found
    return 0


def padded(parts: list[Any], padding: int, torch: Any) -> Any:
    """Tensors end to end; a part that ended earlier is filled up as a shorter sequence of a batch is."""
    first = parts[0]
    longest = max(one.shape[1] for one in parts) if first.dim() > 1 else 0
    if first.dim() > 1 and any(one.shape[1] != longest for one in parts):
        parts = [_filled(one, longest, padding, torch) for one in parts]
    return torch.cat(parts)


def _filled(one: Any, longest: int, padding: int, torch: Any) -> Any:
    shape = (one.shape[0], longest, *one.shape[2:])
    wide = one.new_full(shape, padding)
    wide[:, : one.shape[1]] = one
    return wide
