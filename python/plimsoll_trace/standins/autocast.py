"""Autocast for meta tensors, at the same place in the dispatcher as CUDA's.

PyTorch keeps no autocast rules for the meta device, so they are registered under the key of
a backend that is not in use here, which is switched on and off with CUDA's own autocast state.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from .imports import when_imported

_ATEN = torch.ops.aten
_KEY = torch._C.DispatchKey.AutocastPrivateUse1
_KEYS = torch._C.DispatchKeySet(_KEY)


def _names(text: str) -> list[str]:
    return text.split()


# PyTorch's lists for CUDA (autocast_mode.h): what runs in the lower type, what stays in float32.
LOWER = _names(
    """
    _convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d
    conv_transpose2d.input conv_transpose3d.input convolution prelu addmm addmv addr matmul einsum mm mv
    linalg_vecdot linear addbmm baddbmm bmm chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell
    rnn_relu_cell scaled_dot_product_attention
    """
)
FLOAT = _names(
    """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
    pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm frobenius_norm.dim
    nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss
    nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss
    multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp upsample_nearest1d
    _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d upsample_nearest3d
    _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d _upsample_bilinear2d_aa
    upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
    """
)
# These take an output dtype, which autocast fills in instead of casting the input.
FLOAT_OUTPUT = _names(
    """
    prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm linalg_matrix_norm
    linalg_matrix_norm.str_ord sum sum.dim_IntList
    """
)
PROMOTE = _names(
    """
    addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
    """
)
# Those of torchvision compute in float32; what they compute comes back in the type of the first input.
DETECTION = _names("roi_align roi_pool ps_roi_align ps_roi_pool deform_conv2d nms")
_PLACES = "nms"


class Autocast:
    """The rules, the cache of weight copies, and the switch."""

    def __init__(self) -> None:
        self._cache: dict[int, Any] = {}
        # Rules that are under way: what they call is not cast again.
        self._rules_running = 0
        self._fallback = torch.library.Library("_", "IMPL")
        self._fallback.fallback(torch.library.fallthrough_kernel, _KEY.name)
        self._library = torch.library.Library("aten", "IMPL")
        for names, cast in (
            (LOWER, self._lower),
            (FLOAT, self._float),
            (FLOAT_OUTPUT, self._float_output),
            (PROMOTE, self._promote),
        ):
            for name in names:
                if _overload(name) is not None:
                    self._library.impl(
                        name, self._uncast(functools.partial(cast, _overload(name))), _KEY.name
                    )
        self._of_torchvision: Any = None
        self._closed = False
        when_imported("torchvision._meta_registrations", self._follow_torchvision)

    def _follow_torchvision(self, _module: Any) -> None:
        if self._closed:
            return
        self._of_torchvision = torch.library.Library("torchvision", "IMPL")
        for name in DETECTION:
            packet = getattr(torch.ops.torchvision, name, None)
            if packet is not None:
                cast = self._float if name == _PLACES else self._float_and_back
                kernel = self._uncast(functools.partial(cast, packet.default))
                self._of_torchvision.impl(name, kernel, _KEY.name)

    def close(self) -> None:
        self._switch(False)
        self._closed = True
        if self._of_torchvision is not None:
            self._of_torchvision._destroy()
        self._library._destroy()
        self._fallback._destroy()

    def refresh(self) -> None:
        """Follows CUDA's autocast state; called whenever that may have changed."""
        self._switch(torch.is_autocast_enabled("cuda"))

    @contextmanager
    def resumed(self) -> Iterator[None]:
        """Casts what a composite op calls while the dispatcher has left autocast behind, as CUDA does."""
        if self._rules_running or not torch._C._dispatch_tls_is_dispatch_key_included(_KEY):
            yield
            return
        _exclude(False)
        try:
            yield
        finally:
            _exclude(True)

    def clear(self) -> None:
        self._cache.clear()

    def copies(self) -> list[tuple[Any, Any]]:
        """Weights, and the copies that are kept of them until autocast ends."""
        return list(self._cache.values())

    def keep(self, weight: Any, copy: Any) -> None:
        self._cache[id(weight)] = (weight, copy)

    @staticmethod
    def _switch(on: bool) -> None:
        torch._C._dispatch_tls_set_dispatch_key_excluded(_KEY, not on)
        torch._C._dispatch_tls_set_dispatch_key_included(_KEY, on)

    def _uncast(self, function):
        """Runs a rule with autocast off, so that what it calls is not cast again."""

        def kernel(*args, **kwargs):
            self._rules_running += 1
            try:
                with torch._C._ExcludeDispatchKeyGuard(_KEYS):
                    return function(*args, **kwargs)
            finally:
                self._rules_running -= 1

        return kernel

    def _cast(self, value, dtype):
        if isinstance(value, torch.Tensor):
            if not (value.is_floating_point() and value.dtype not in (torch.float64, dtype)):
                return value
            if value.is_cpu:
                return value
            cacheable = (
                value.requires_grad
                and value.is_leaf
                and not value._is_view()
                and torch.is_autocast_cache_enabled()
                and not torch.is_inference_mode_enabled()
                and value.dtype == torch.float32
                and dtype == torch.get_autocast_dtype("cuda")
            )
            if not cacheable:
                return value.to(dtype)
            held = self._cache.get(id(value))
            if held is None:
                held = self._cache[id(value)] = (value, value.to(dtype))
            return held[1]
        if isinstance(value, (list, tuple)):
            return type(value)(self._cast(v, dtype) for v in value)
        return value

    def _call(self, op, dtype, args, kwargs):
        """Casts the arguments from the last to the first, as the C++ call evaluates them."""
        named = {k: self._cast(v, dtype) for k, v in reversed(kwargs.items())}
        placed = [self._cast(a, dtype) for a in reversed(args)]
        return op(*reversed(placed), **named)

    def _lower(self, op, *args, **kwargs):
        return self._call(op, torch.get_autocast_dtype("cuda"), args, kwargs)

    def _float(self, op, *args, **kwargs):
        return self._call(op, torch.float32, args, kwargs)

    def _float_and_back(self, op, *args, **kwargs):
        made = self._call(op, torch.float32, args, kwargs)
        if isinstance(made, torch.Tensor):
            return made.to(args[0].dtype)
        return tuple(one.to(args[0].dtype) for one in made)

    def _float_output(self, op, *args, **kwargs):
        if _low(args[0]) and kwargs.get("dtype") is None and not _names_dtype(op, args):
            kwargs["dtype"] = torch.float32
        return op(*args, **kwargs)

    def _promote(self, op, *args, **kwargs):
        widest = torch.get_autocast_dtype("cuda")
        for value in _tensors(args):
            if value.dtype == torch.float32:
                widest = torch.float32
        return self._call(op, widest, args, kwargs)


def _overload(name: str):
    base, _, overload = name.partition(".")
    packet = getattr(_ATEN, base, None)
    return getattr(packet, overload or "default", None) if packet is not None else None


def _exclude(excluded: bool) -> None:
    """CUDA's key as well: whether that is excluded is what tells a function if autocast is on."""
    for key in (_KEY, torch._C.DispatchKey.AutocastCUDA):
        torch._C._dispatch_tls_set_dispatch_key_excluded(key, excluded)


def _low(value) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and not value.is_cpu


def _names_dtype(op, args) -> bool:
    names = [a.name for a in op._schema.arguments]
    return "dtype" in names[: len(args)] and args[names.index("dtype")] is not None


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            if _low(value):
                yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
