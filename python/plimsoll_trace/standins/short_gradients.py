"""Gradients that take a longer way where ops are watched, because values cannot be asked about there.

On CUDA the gradient of a product divides by its factors if none is zero, and that of a loss works in place.
"""

from __future__ import annotations

import torch

_MEAN, _SUM = 1, 2


def loss_of_logits(input, target, weight=None, pos_weight=None, reduction=_MEAN):
    """Takes the place of `aten::binary_cross_entropy_with_logits`."""
    if torch._C._are_functorch_transforms_active():
        logs = torch.nn.functional.logsigmoid(input)
        if pos_weight is not None:
            logs = logs * ((pos_weight - 1) * target + 1)
        loss = (1 - target) * input - logs
        return _reduced(loss if weight is None else loss * weight, reduction)
    return _LossOfLogits.apply(input, target, weight, pos_weight, reduction)


def product(input, *, dtype=None):
    """Takes the place of `aten::prod`."""
    return _product(input if dtype is None else input.to(dtype), None, False)


def product_along(input, dim, keepdim=False, *, dtype=None):
    """Takes the place of `aten::prod.dim_int`."""
    return _product(input if dtype is None else input.to(dtype), dim, keepdim)


def running_product(input, dim, *, dtype=None):
    """Takes the place of `aten::cumprod`."""
    source = input if dtype is None else input.to(dtype)
    if torch._C._are_functorch_transforms_active():
        return source.log().cumsum(dim).exp()
    return _RunningProduct.apply(source, dim)


def _product(source, dim, keepdim):
    if torch._C._are_functorch_transforms_active():
        logs = source.log()
        return (logs.sum() if dim is None else logs.sum(dim, keepdim)).exp()
    return _Product.apply(source, dim, keepdim)


def _reduced(loss, reduction):
    if reduction == _MEAN:
        return loss.mean()
    return loss.sum() if reduction == _SUM else loss


class _LossOfLogits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, target, weight, pos_weight, reduction):
        ctx.save_for_backward(source, target, weight, pos_weight)
        ctx.reduction = reduction
        logs = torch.empty_like(source)
        if pos_weight is not None:
            logs.mul_((pos_weight - 1).mul(target).add_(1))
        loss = (1 - target).mul_(source).sub_(logs)
        return _reduced(loss if weight is None else loss.mul_(weight), reduction)

    @staticmethod
    def backward(ctx, grad):
        source, target, weight, pos_weight = ctx.saved_tensors
        # What is differentiated once more is kept.
        again = torch.is_grad_enabled()
        if pos_weight is not None:
            weighted = pos_weight.mul(target)
            shares = weighted.add(1)
            result = (
                shares.sub(target).mul(source.sigmoid()).sub(weighted)
                if again
                else shares.sub_(target).mul_(source.sigmoid()).sub_(weighted)
            )
        else:
            result = source.sigmoid()
            result = result.sub(target) if again else result.sub_(target)
        for factor in (grad, weight):
            if factor is not None:
                result = result.mul(factor) if again else result.mul_(factor)
        if ctx.reduction == _MEAN:
            result = result.div(source.numel()) if again else result.div_(source.numel())
        to_target = torch.empty_like(target) if ctx.needs_input_grad[1] else None
        return result, to_target, None, None, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, dim, keepdim):
        with torch._C._AutoDispatchBelowAutograd():
            result = source.prod() if dim is None else source.prod(dim, keepdim)
        ctx.save_for_backward(source, result)
        ctx.dim, ctx.keepdim = dim, keepdim
        return result

    @staticmethod
    def backward(ctx, grad):
        source, result = ctx.saved_tensors
        if ctx.dim is not None and source.dim() and not ctx.keepdim:
            grad, result = grad.unsqueeze(ctx.dim), result.unsqueeze(ctx.dim)
        zeros = source == 0
        if ctx.dim is not None and source.dim():
            counts = zeros.sum(ctx.dim, True)
            counts = (counts, counts.sum())
        return grad * (result / source), None, None


class _RunningProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, dim):
        with torch._C._AutoDispatchBelowAutograd():
            result = source.cumprod(dim)
        ctx.save_for_backward(source, result)
        ctx.dim = dim
        return result

    @staticmethod
    def backward(ctx, grad):
        source, result = ctx.saved_tensors
        if source.numel() <= 1 or source.shape[ctx.dim] == 1:
            return grad, None
        scaled = result * grad
        zeros = source == 0
        zeros.any()
        turned = scaled.flip(ctx.dim)
        summed = turned.cumsum(ctx.dim)
        back = summed.flip(ctx.dim)
        del turned, summed
        return back.div(source), None
