"""The loss of transcripts (CTC): a table of steps by places in the text, forward and backward."""

from __future__ import annotations

from typing import Any, Tuple

import torch

from .registry import Launch, rule


def forward(args: Tuple) -> Tuple[Any, Any]:
    """What `_ctc_loss` returns, which has no meta kernel; lengths are data, so the longest is taken."""
    steps, batch = args[0].shape[:2]
    targets = args[1]
    longest = targets.shape[1] if targets.dim() > 1 else -(-targets.shape[0] // max(1, batch))
    losses = torch.empty(batch, dtype=args[0].dtype, device="meta")
    return losses, torch.empty(batch, steps, 2 * longest + 1, dtype=args[0].dtype, device="meta")


def backward(args: Tuple) -> Any:
    return torch.empty(args[1].shape, dtype=args[1].dtype, device="meta")


@rule("aten._ctc_loss")
def table(launch: Launch) -> None:
    """The table comes first; the lengths are copied to the device meanwhile."""
    launch.place(1)
    launch.place(0)
    launch.scratch(*[launch.args[0].shape[1] * 8] * 3)


@rule("aten._ctc_loss_backward")
def table_backward(launch: Launch) -> None:
    held = launch.take(launch.args[6].numel() * launch.args[6].element_size())
    launch.place_all()
    launch.scratch(*[launch.args[1].shape[1] * 8] * 3)
    launch.give(held)
