"""LoRA adapters on every linear layer, as peft adds them."""

from __future__ import annotations

from typing import Any

import torch

from ..failure import MISSING_PACKAGE, Failure


def add(model: Any, rank: int) -> Any:
    try:
        import peft
    except ImportError as error:
        raise Failure(
            "peft-missing",
            "peft is not installed for this Python",
            "pip install peft, or leave --lora out",
            status=MISSING_PACKAGE,
        ) from error
    with torch.device("meta"):
        config = peft.LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")
        try:
            return peft.get_peft_model(model, config)
        except ValueError as error:
            raise Failure(
                "lora-refused", "peft: %s" % str(error).splitlines()[0], "leave --lora out"
            ) from error
