"""The cross entropy over a large vocabulary in parts of its rows: to the bit what PyTorch computes at once."""

from __future__ import annotations

import functools
import types
from typing import Any, Callable

import torch
from torch.nn import functional

from .decide import LOSS_PART_BYTES

# Parts begin where all rows have the place within 16 bytes that they have in the whole: kernels sum by it.
ROWS_ALIKE = 16
_CLASS = torch.ops.aten


class _InParts(torch.autograd.Function):
    """Keeps the logits, and computes log-softmax again in the backward; each row depends on itself alone."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        target: torch.Tensor,
        ignored: int,
        reduction: str,
        real: Callable[..., torch.Tensor],
        is_widened: bool,
    ) -> torch.Tensor:
        ctx.save_for_backward(logits, target)
        ctx.rest = ignored, reduction, real, is_widened
        with torch.autocast(logits.device.type, enabled=False):
            # A target that is not counted may be any number: the row's first class stands for it.
            place = target.where(target != ignored, 0).unsqueeze(1)
            rows = [
                _log_softmax(logits[part], is_widened).gather(1, place[part])
                for part in _parts(logits)
            ]
            chosen = torch.cat(rows)
            return functional.nll_loss(
                chosen, _first_class(target, ignored), ignore_index=ignored, reduction=reduction
            )

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        logits, target = ctx.saved_tensors
        ignored, reduction, real, is_widened = ctx.rest
        gradient = gradients[0]
        nothing = (None, None, None, None, None)
        if torch.is_grad_enabled():
            # A gradient of the gradient will be asked for: PyTorch's own operations know it.
            with torch.autocast(logits.device.type, enabled=False):
                wide = logits.float() if is_widened else logits
                loss = real(wide, target, ignore_index=ignored, reduction=reduction)
                (made,) = torch.autograd.grad(loss, logits, gradient, create_graph=True)
            return (made, *nothing)
        with torch.autocast(logits.device.type, enabled=False):
            kind = torch.float32 if is_widened else logits.dtype
            column = torch.zeros(logits.shape[0], 1, dtype=kind, device=logits.device)
            index = _first_class(target, ignored)
            of_rows = _CLASS.nll_loss_backward(
                gradient,
                column,
                index,
                None,
                _REDUCTIONS[reduction],
                ignored,
                _weight(column, target, ignored, reduction),
            )
            place = target.where(target != ignored, 0).unsqueeze(1)
            made = torch.empty_like(logits)
            for part in _parts(logits):
                outcome = _log_softmax(logits[part], is_widened)
                above = torch.zeros_like(outcome).scatter_(1, place[part], of_rows[part])
                made[part] = _CLASS._log_softmax_backward_data(above, outcome, 1, kind)
        return (made, *nothing)


_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _first_class(target: torch.Tensor, ignored: int) -> torch.Tensor:
    """Targets of a table with one column; `ignored` stays, whatever it is."""
    return torch.where(target != ignored, 0, ignored)


def _weight(
    column: torch.Tensor, target: torch.Tensor, ignored: int, reduction: str
) -> torch.Tensor:
    """How many rows count, as the forward of `nll_loss` found it."""
    _, total = _CLASS.nll_loss_forward(
        column, _first_class(target, ignored), None, _REDUCTIONS[reduction], ignored
    )
    return total


def _log_softmax(rows: torch.Tensor, is_widened: bool) -> torch.Tensor:
    return torch.log_softmax(rows.float() if is_widened else rows, 1)


def _parts(logits: torch.Tensor) -> list[slice]:
    rows, classes = logits.shape
    wanted = LOSS_PART_BYTES // max(1, classes * 4)
    size = max(ROWS_ALIKE, wanted // ROWS_ALIKE * ROWS_ALIKE)
    return [slice(start, min(rows, start + size)) for start in range(0, rows, size)]


def in_parts(
    real: Callable[..., torch.Tensor],
    logits: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> torch.Tensor | None:
    """None where it would not be exactly the same, or where nothing is gained."""
    if weight is not None or size_average is not None or reduce is not None or label_smoothing:
        return None
    if type(logits) is not torch.Tensor or type(target) is not torch.Tensor:
        return None
    if logits.dim() != 2 or target.dim() != 1 or not logits.is_contiguous():
        return None
    if target.dtype is not torch.int64 or not logits.requires_grad or reduction not in _REDUCTIONS:
        return None
    # The first class stands for rows that do not count.
    if ignore_index == 0 or logits.shape[0] == 0 or len(_parts(logits)) < 2:
        return None
    kind = logits.device.type
    narrow = logits.dtype in (torch.float16, torch.bfloat16)
    is_widened = narrow and torch.is_autocast_enabled(kind)
    result: torch.Tensor = _InParts.apply(logits, target, ignore_index, reduction, real, is_widened)
    return result


class LossInParts:
    """Takes the place of `torch.nn.functional.cross_entropy`. `is_wanted` is asked with the bytes of the logits."""

    def __init__(self, is_wanted: Callable[[torch.Tensor], bool]) -> None:
        self.calls = 0
        self._real: Callable[..., torch.Tensor] = functional.cross_entropy
        real, ours = self._real, self

        def cross_entropy(*arguments: Any, **named: Any) -> Any:
            logits = arguments[0] if arguments else named.get("input")
            if isinstance_(logits) and not is_compiling() and is_wanted(logits):
                given = {("logits" if name == "input" else name): v for name, v in named.items()}
                loss = split(real, *arguments, **given)
                if loss is not None:
                    ours.calls += 1
                    return loss
            return real(*arguments, **named)

        split, is_compiling = in_parts, torch.compiler.is_compiling

        def isinstance_(value: Any) -> bool:
            return isinstance(value, torch.Tensor)

        # With the names of PyTorch's module around it, a script can be compiled of it as of the real one.
        wrapper = types.FunctionType(
            cross_entropy.__code__,
            vars(functional),
            "cross_entropy",
            None,
            cross_entropy.__closure__,
        )
        self._ours = functools.wraps(self._real)(wrapper)
        functional.cross_entropy = self._ours

    def close(self) -> None:
        if functional.cross_entropy is self._ours:
            functional.cross_entropy = self._real
