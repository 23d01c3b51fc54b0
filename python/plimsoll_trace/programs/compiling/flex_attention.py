"""`flex_attention`: PyTorch hands it to its compiler, which a trace cannot enter.

Inside of `torch.compile` it is one kernel for each direction (`plimsoll_trace.kernels.flex_attention`).
Outside of it PyTorch runs formulas of its own, op by op, over all scores; so does a trace.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ...kernels import flex_attention as kernels
from ...standins.imports import when_imported
from ...standins.patches import Patches
from ..places import GPU

MODULE = "torch.nn.attention.flex_attention"
_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
_SMALL = torch.int32


def is_it(function: Any) -> bool:
    return getattr(function, "__module__", "") == MODULE and function.__name__ == "flex_attention"


def install(patches: Patches, observer: Any) -> None:
    when_imported(MODULE, lambda module: _Attention(module, observer).install(patches))


class _Attention:
    def __init__(self, module: Any, observer: Any):
        self._module, self._observer = module, observer

    def install(self, patches: Patches) -> None:
        self._op = patches.set(self._module, "flex_attention_hop", self)
        # Newer versions give the largest score of each row as well.
        self._results = 3 if hasattr(self._module, "AuxOutput") else 2
        self._no_mask = patches.set(self._module, "_create_empty_block_mask", self._without_mask)

    def __call__(
        self, query: Any, key: Any, value: Any, score_mod: Any, block_mask: tuple, *more: Any
    ) -> Any:
        with torch._C.DisableTorchFunction():
            on_gpu = query.device.type == "meta" and self._observer.places.of(query) == GPU
        if not on_gpu:
            return self._op(query, key, value, score_mod, block_mask, *more)
        if torch.is_autocast_enabled("cuda"):
            dtype = torch.get_autocast_dtype("cuda")
            query, key, value = (_cast(tensor, dtype) for tensor in (query, key, value))
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            learned = _learned(score_mod, query.dtype)
            if self._observer.in_compiled:
                read = [part for part in block_mask if isinstance(part, torch.Tensor)]
                results = _Fused.apply(query, key, value, read, *learned)
            else:
                results = _plain(query, key, value, score_mod, block_mask, more, learned)
        return results[: self._results]

    def _without_mask(self, query: Any, key: Any) -> Any:
        """A mask of one block, which the compiler makes in one kernel, with one number of its own."""
        observer = self._observer
        recording = observer.recording
        if not (observer.in_compiled and recording and observer.places.of(query) == GPU):
            return self._no_mask(query, key)
        observer.recording = False
        try:
            mask = self._no_mask(query, key)
        finally:
            observer.recording = recording
        name = "flex_attention"
        number = observer.ledger.allocate(8, name, observer.current_module(), observer.category)
        for part in (mask.q_num_blocks, mask.q_indices, mask.kv_num_blocks):
            observer.adopt(part.untyped_storage(), name)
        observer.ledger.free(number)
        observer.adopt(mask.kv_indices.untyped_storage(), name)
        return mask


def _cast(tensor: Any, dtype: torch.dtype) -> Any:
    eligible = tensor.is_floating_point() and tensor.dtype != torch.float64
    return tensor.to(dtype) if eligible else tensor


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, read: list, *learned: Any) -> Any:
        ctx.set_materialize_grads(False)
        heads = read[0].shape[1] if read else 1
        out, sums, largest = torch.ops.plimsoll.flex_attention(
            query, key, value, [*read, *learned], kernels.is_short(query, value, heads)
        )
        ctx.mark_non_differentiable(largest)
        ctx.save_for_backward(*learned, query, key, value, *read, out, sums)
        ctx.learned = len(learned)
        return out, sums, largest

    @staticmethod
    def backward(ctx: Any, grad: Any, sums_grad: Any, _: Any) -> Any:
        saved = ctx.saved_tensors
        learned = saved[: ctx.learned]
        query, key, value, *read, out, sums = saved[ctx.learned :]
        if grad is None:
            grad = torch.zeros_like(out)
        to_query, to_key, to_value = torch.ops.plimsoll.flex_attention_backward(
            query, key, value, out, sums, grad, sums_grad, [*read, *learned]
        )
        to_learned = [torch.zeros_like(one) for one in learned]
        if key.shape[0] != query.shape[0]:
            to_key, to_value = (one.sum(0, keepdim=True) for one in (to_key, to_value))
        return to_query, to_key, to_value, None, *to_learned


def _plain(
    query: Any, key: Any, value: Any, score_mod: Any, block_mask: tuple, more: tuple, learned: list
) -> Any:
    """As PyTorch's `flex_attention_autograd`, which would trace the score function inside our modes."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    needs = any(t.requires_grad for t in (query, key, value, *learned))
    with TransformGetItemToIndex():
        joint = None
        if torch.is_grad_enabled() and needs:
            numbers = [query.new_zeros(())]
            numbers += [query.new_zeros((), dtype=_SMALL) for _ in range(4)]
            # The score function's result and its gradient.
            result, grad = query.new_empty(()), query.new_empty(())
            joint = _joint(score_mod, query.dtype)
            del result, grad
        return _Plain.apply(query, key, value, score_mod, joint, block_mask, more, *learned)


class _Plain(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        query: Any,
        key: Any,
        value: Any,
        score_mod: Any,
        joint: Any,
        mask: tuple,
        more: tuple,
        *learned: Any,
    ) -> Any:
        from torch._higher_order_ops.flex_attention import sdpa_dense

        ctx.set_materialize_grads(False)
        ctx.functions, ctx.more = (score_mod, joint), more
        # Its tensors are saved, so that backward lets go of them.
        ctx.mask = tuple(None if isinstance(part, torch.Tensor) else (part,) for part in mask)
        ctx.learned = len(learned)
        out, sums, *rest = sdpa_dense(query, key, value, score_mod, mask, *more)
        blocks = [part for part in mask if isinstance(part, torch.Tensor)]
        ctx.save_for_backward(*learned, query, key, value, out, sums, *rest, *blocks)
        ctx.blocks = len(blocks)
        ctx.mark_non_differentiable(*rest)
        return out, sums, *rest

    @staticmethod
    def backward(ctx: Any, grad: Any, sums_grad: Any, *_: Any) -> Any:
        from torch._higher_order_ops.flex_attention import sdpa_dense_backward

        saved = ctx.saved_tensors
        learned = saved[: ctx.learned]
        query, key, value, out, sums = saved[ctx.learned : ctx.learned + 5]
        blocks = iter(saved[len(saved) - ctx.blocks :])
        mask = tuple(next(blocks) if part is None else part[0] for part in ctx.mask)
        scale, options, *buffers = (*ctx.more, (), ())[:4]
        grads = sdpa_dense_backward(
            query,
            key,
            value,
            out,
            sums,
            grad,
            sums_grad,
            *ctx.functions,
            mask,
            scale,
            options,
            *buffers,
        )
        to_learned = [torch.zeros_like(one) for one in learned]
        return *grads[:3], None, None, None, None, *to_learned


def _joint(score_mod: Callable, dtype: torch.dtype) -> Any:
    """The score function and its gradient as one graph, made where no mode watches."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def both(score: Any, b: Any, h: Any, q: Any, k: Any, grad: Any) -> Any:
        with torch.enable_grad():
            score = score.detach().requires_grad_()
            result = score_mod(score, b, h, q, k)
            to_score = torch.autograd.grad(result, score, grad.to(result.dtype))[0]
        return [to_score, None, None, None, None]

    with _disable_current_modes():
        return make_fx(both)(*_examples(dtype), torch.zeros((), dtype=dtype, device="meta"))


def _examples(dtype: torch.dtype) -> list:
    score = torch.zeros((), dtype=dtype, device="meta")
    return [score, *(torch.zeros((), dtype=_SMALL, device="meta") for _ in range(4))]


def _learned(score_mod: Callable, dtype: torch.dtype) -> list:
    """What the score function uses that gets a gradient, as a bias that is trained."""
    if not torch.is_grad_enabled() or score_mod is None:
        return []
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    with _disable_current_modes():
        examples = _examples(dtype)
    with _disable_current_modes(), TransformGetItemToIndex(), _Used() as used:
        score_mod(*examples)
    return list(used.found.values())


class _Used(TorchFunctionMode):
    """Tensors that need a gradient and come from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, Any] = {}
        self._made: dict[int, Any] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for value in pytree.tree_leaves((args, kwargs)):
            known = not isinstance(value, torch.Tensor) or id(value) in self._made
            if not known and value.requires_grad:
                self.found[id(value)] = value
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            # Held, so that no other takes its number.
            self._made[id(result)] = result
        return result
