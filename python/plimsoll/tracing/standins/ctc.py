"""The loss of transcripts (CTC): PyTorch reads its lengths on the host, wherever they lie.

While a mode watches it would compute with them where they are, beside a loss on another device.
"""

from __future__ import annotations

from typing import Any

import torch

from .. import small_values
from ..kernels.ctc import longest

_MEAN = 1


def ctc_loss(
    log_probs,
    targets,
    input_lengths,
    target_lengths,
    blank=0,
    reduction=_MEAN,
    zero_infinity=False,
):
    """Takes the place of `aten::ctc_loss.Tensor`."""
    steps, samples = log_probs.shape[0], log_probs.shape[1] if log_probs.dim() == 3 else 1
    return torch.ops.aten.ctc_loss.IntList(
        log_probs,
        targets,
        _numbers(input_lengths, steps, samples),
        _numbers(target_lengths, longest(targets, samples), samples),
        blank,
        reduction,
        zero_infinity,
    )


def _numbers(lengths: Any, most: int, samples: int) -> list[int]:
    """Lengths that only the data would tell are taken as the most that there can be."""
    with torch._C.DisableTorchFunction():
        known = small_values.value_of(lengths) if lengths.device.type == "meta" else lengths
        return [most] * samples if known is None else known.flatten().tolist()
