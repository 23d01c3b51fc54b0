"""The device that a person names: checked against what there is."""

from __future__ import annotations

import re
from typing import Any


def device_of(value: Any, any_kind: bool = False) -> Any:
    """A torch.device of the host or of a CUDA (or HIP) card that is there; with `any_kind` of any
    other sort that PyTorch knows, too.

    Names of other tools are told in PyTorch's words: `gpu:0` is `cuda:0`, `host` is `cpu`.
    """
    import torch

    if not isinstance(value, (str, torch.device)):
        raise TypeError(f'device is a name such as "cuda:0" or "cpu", not {value!r}')
    text = str(value)
    known = re.fullmatch(r"cpu|cuda(?::(\d{1,4}))?", text)
    if known is None:
        other = _other_kind(text) if any_kind else None
        if other is not None:
            return other
        number = re.fullmatch(r"(?:gpu:?)?(\d{1,4})", text)
        meant = (
            f"cuda:{number[1]}"
            if number
            else "cpu"
            if text == "host"
            else "cuda"
            if text == "gpu"
            else ""
        )
        then = f'; write "{meant}"' if meant else ' or "cpu"'
        raise ValueError(f'device is a name such as "cuda:0", not {text!r}{then}')
    if text == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise ValueError(f'there is no CUDA device here, so device cannot be {text!r}; write "cpu"')
    if known[1] is not None and int(known[1]) >= count:
        raise ValueError(
            f"there is no device {text!r}; this machine has cuda:0 to cuda:{count - 1}"
        )
    return torch.device(text)


def _other_kind(text: str) -> Any:
    import torch

    try:
        return torch.device(text)
    except RuntimeError:
        return None
