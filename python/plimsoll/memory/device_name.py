"""The device that a person names: checked against what there is."""

from __future__ import annotations

import re
from typing import Any

from ..arguments import BadType, BadValue, shown

# What other tools call them.
OTHER_NAMES = {"host": "cpu", "gpu": "cuda"}


def device_of(value: Any, any_kind: bool = False) -> Any:
    """A torch.device of the host or of a CUDA (or HIP) card that is there; with `any_kind` of any
    other sort that PyTorch knows, too.

    Names of other tools are told in PyTorch's words: `gpu:0` is `cuda:0`, `host` is `cpu`.
    """
    import torch

    if not isinstance(value, (str, torch.device)):
        fact = f"device must be a name, not {shown(value)}"
        raise BadType(fact, 'write "cuda:0" or "cpu"')
    text = str(value)
    known = re.fullmatch(r"cpu|cuda(?::(\d{1,4}))?", text)
    if known is None:
        other = _other_kind(text) if any_kind else None
        if other is not None:
            return other
        number = re.fullmatch(r"(?:gpu:?)?(\d{1,4})", text)
        meant = f"cuda:{number[1]}" if number else OTHER_NAMES.get(text, "")
        next_step = f'write "{meant}"' if meant else 'write "cuda:0" or "cpu"'
        raise BadValue(f"{shown(text)} is not the name of a device", next_step)
    if text == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise BadValue(f"there is no CUDA device here, so no {text!r}", 'write "cpu"')
    if known[1] is not None and int(known[1]) >= count:
        fact = f"there is no device {text!r}; this machine has cuda:0 to cuda:{count - 1}"
        raise BadValue(fact, "name one of them")
    return torch.device(text)


def _other_kind(text: str) -> Any:
    import torch

    try:
        return torch.device(text)
    except RuntimeError:
        return None
