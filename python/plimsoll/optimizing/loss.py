"""The loss of a language model a piece of the tokens at a time: no copy of all logits in 32 bits."""

from __future__ import annotations

from functools import cache
from typing import Any

from .change import Change

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
