"""Linear layers over inputs that do not lie in one run: CUDA adds the bias in place."""

from __future__ import annotations

from math import prod
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .. import small_values
from ..kernels.losses import longest

_LINEAR = torch.ops.aten.linear.default
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd


# Dropout as CUDA's one kernel with a boolean mask.


def dropout(input, p, train):
    """Takes the place of `aten::dropout`."""
    if p == 0 or not train or input.numel() == 0:
        return input
    if p == 1:
        return input * torch.zeros((), device=input.device, dtype=input.dtype)
    return torch.native_dropout(input, p, train)[0]


# Softmax of float16 values into float32: CUDA converts as it reads, meta makes a copy first.

_ATEN = torch.ops.aten


def softmax(input, dim, dtype=None):
    """Takes the place of `aten::softmax.int`."""
    if _widens(input, dtype):
        return _ATEN._softmax(input, dim, True)
    return _ATEN.softmax.int.decompose(input, dim, dtype)


def log_softmax(input, dim, dtype=None):
    """Takes the place of `aten::log_softmax.int`."""
    if _widens(input, dtype):
        return _ATEN._log_softmax(input, dim, True)
    return _ATEN.log_softmax.int.decompose(input, dim, dtype)


def _widens(input, dtype) -> bool:
    # bfloat16 takes the other way, with a copy.
    return input.dtype == torch.float16 and dtype == torch.float32


# Classes as rows of zeros with a one: CUDA writes the ones into zeros.
#
# On the meta device, and where PyTorch's compiler looks on, all classes are compared with each label instead, which
# takes a mask as well.


def one_hot(labels, num_classes=-1):
    """Takes the place of `aten::one_hot`."""
    if num_classes == -1:
        num_classes = int(labels.max().item()) + 1
    if isinstance(labels, FakeTensor):
        classes = torch.arange(num_classes, dtype=labels.dtype, device=labels.device)
        return (labels.unsqueeze(-1) == classes).to(torch.int64)
    rows = torch.zeros((*labels.shape, num_classes), dtype=labels.dtype, device=labels.device)
    return rows.scatter_(-1, labels.unsqueeze(-1), 1)


# RMS normalisation as CUDA's one kernel: the result and one number a row, kept for backward.

_PLAIN = (torch.Tensor, torch.nn.Parameter)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Takes the place of `aten::rms_norm`."""
    if type(input) not in _PLAIN:
        # While a compiler captures a graph: it takes the kernel apart.
        return torch.ops.aten.rms_norm.default.decompose(input, normalized_shape, weight, eps)
    return _RmsNorm.apply(input, weight, prod(normalized_shape))


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, weight, width):
        result = torch.empty(source.shape, dtype=source.dtype, device=source.device)
        rows = source.numel() // max(1, width)
        scales = torch.empty(rows, dtype=torch.float32, device=source.device)
        ctx.save_for_backward(source, weight, scales)
        return result

    @staticmethod
    def backward(ctx, grad):
        source, weight, _ = ctx.saved_tensors
        for_source = torch.empty(source.shape, dtype=source.dtype, device=source.device)
        for_weight = None if weight is None else torch.empty_like(weight)
        return for_source, for_weight, None


# The loss of transcripts (CTC): PyTorch reads its lengths on the host, wherever they lie.
#
# While a mode watches it would compute with them where they are, beside a loss on another device.

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


def linear(input, weight, bias=None):
    """Takes the place of `aten::linear`."""
    if bias is None or input.dim() <= 2 or input.is_contiguous():
        # Its steps in C++; `decompose` would look for others in Python each time.
        return _LINEAR._op_dk(_COMPOSITE, input, weight, bias)
    return torch.matmul(input, weight.t()).add_(bias)
