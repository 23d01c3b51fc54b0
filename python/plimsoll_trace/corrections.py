"""Ops whose meta kernel does not give what CUDA gives: other strides, or a copy instead of a write."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch._prims_common as _common
from torch._prims_common import suggest_memory_format

from .assumed.chosen import NMS
from .data_sizes import BY_DATA
from .kernels import indexing, losses, matrix_factors, recurrent
from .kernels.convolution import channels_last
from .small_values import is_counted, is_likely, marked, readable, remember
from .standins.imports import when_imported

# Results of ops that work value by value, where an op meets a new shape: texts and batches that grow.
#
# Of tensors of one shape that lie in one run such an op makes another one of this shape, which lies in one run as well.
# Its type follows from theirs, whatever the shape is, so that it is asked for once.

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_META = torch.device("meta")
_NUMBERS = (int, float, bool)


def works_by_value(func: Any) -> bool:
    """Whether an op makes one new tensor, value by value."""
    one = len(func._schema.returns) == 1 and not func._schema.is_mutable
    return one and torch.Tag.pointwise in func.tags


class AlikeResults:
    def __init__(self) -> None:
        # The types of results, by the op and what it is given but for its shape; None where they are something else.
        self._types: dict[tuple, torch.dtype | None] = {}

    def made(self, key: tuple) -> Any:
        """The result for a key with forms (`MetaResults`); None where the kernel must be asked."""
        known = _without_shape(key)
        if known is None:
            return None
        dtype = self._types.get(known[0])
        return None if dtype is None else torch.empty(known[1], dtype=dtype, device=_META)

    def learn(self, key: tuple, args: tuple, result: Any) -> None:
        known = _without_shape(key)
        if known is None:
            return
        fresh = type(result) in _PLAIN and not any(one is result for one in args)
        plain = (
            fresh and result.shape == known[1] and result.stride() == strides_in_one_run(known[1])
        )
        self._types[known[0]] = result.dtype if plain else None


def _without_shape(key: tuple) -> tuple[tuple, Any] | None:
    """A key for all shapes, and the one at hand; None where tensors differ in it, or do not lie in one run."""
    func, default, forms, named = key
    shape = strides = None
    rest = []
    for form in forms:
        if type(form) is tuple and isinstance(form[0], torch.Size):
            if shape is None:
                shape, strides = form[0], form[1]
            elif form[0] != shape or form[1] != strides:
                return None
            rest.append(form[2])
        elif type(form) is tuple and form[0] in _NUMBERS:
            # Which number it is does not matter, as for boxes that end where a picture of this width does.
            rest.append(form[0])
        else:
            rest.append(form)
    if not shape or 0 in shape or strides != strides_in_one_run(shape):
        return None
    if not all(map(_is_plain, named)):
        return None
    return (func, default, named, *rest), shape


def _is_plain(form: tuple) -> bool:
    """Whether an argument with a name is a number, a word or a type: not where a result lies, or how."""
    value = form[1][1]
    if isinstance(value, torch.dtype):
        return True
    return type(value) is tuple and (value[0] in _NUMBERS or value[0] in (str, type(None)))


def strides_in_one_run(shape: Any) -> tuple[int, ...]:
    """Of a tensor that lies in one run."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


# Where autograd adds a second gradient into the first one's memory.
#
# The engine adds in place when it holds the last reference, but never while a dispatch mode
# watches; so the decision is taken again here, with the references the watching adds counted out.

# Named differently across versions of PyTorch.
_dense = (
    getattr(_common, "is_non_overlapping_and_dense_or_false", None)
    or _common.is_non_overlapping_and_dense
)

# References to a tensor that nothing else holds, as counted from inside a dispatch mode: the
# engine's buffer, the two boxed copies of the call, and the Python object; for its storage,
# the tensor and the Python object.
_TENSOR_REFERENCES = 4
STORAGE_REFERENCES = 2


def accumulates_in_place(args, kwargs) -> bool:
    """Whether this `add` is the engine's, into a buffer that nothing else can see."""
    if (
        kwargs
        or len(args) != 2
        or torch._C._current_graph_task_id() == -1
        or torch.is_grad_enabled()
    ):
        return False
    old, new = args
    if (
        not (isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor))
        or old.shape != new.shape
    ):
        return False
    return (
        old._use_count() <= _TENSOR_REFERENCES
        and torch._C._storage_Use_Count(old.untyped_storage()._cdata) <= STORAGE_REFERENCES
        and (old.is_contiguous() or _dense(old))
    )


_ATEN = torch.ops.aten


# Images that are resized: PyTorch's meta kernels for this work out all places and weights, for a result that follows
# from the shapes. Detectors resize the map of each person to a size of its own, thousands of them.


def resized(func: Any, args: tuple, kwargs: dict) -> Any:
    """Of images that lie row by row. For others, and for what is wrong, the kernel is asked."""
    image, size = args[:2]
    plain = image.dim() == 4 and image.numel() > 0 and image.is_floating_point()
    plain = plain and image.stride() == strides_in_one_run(image.shape) and min(size) > 0
    if not plain or suggest_memory_format(image) is not torch.contiguous_format:
        return func(*args, **kwargs)
    return torch.empty((*image.shape[:2], *size), dtype=image.dtype, device=image.device)


def _contiguous(tensor: Any) -> Any:
    if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous():
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return tensor


def _layer_norm_backward(func, args, kwargs):
    return func(_contiguous(args[0]), _contiguous(args[1]), *args[2:], **kwargs)


def _into_zeros(written: Any) -> Callable:
    """Formulas of autograd write a gradient into fresh zeros, but copy them where a dispatch mode watches."""

    def correct(func, args, kwargs):
        node = torch._C._current_autograd_node()
        own = node is not None and node.name().endswith("0") and not torch.is_grad_enabled()
        if (
            own
            and torch._C._storage_Use_Count(args[0].untyped_storage()._cdata) <= STORAGE_REFERENCES
        ):
            return written(*args, **kwargs)
        return func(*args, **kwargs)

    return correct


def _recurrent(func, args, kwargs):
    return tuple(recurrent.forward(args))


def _recurrent_backward(func, args, kwargs):
    return tuple(recurrent.backward(args))


def _convolution(func, args, kwargs):
    """The result lies as input and weight suggest; the meta kernel knows one layout only."""
    result = func(*args, **kwargs)
    return _pixel_by_pixel(result) if channels_last(args[0]) or channels_last(args[1]) else result


def _convolution_backward(func, args, kwargs):
    """Gradients take the layout of input and weight, whatever that of the incoming gradient is."""
    if channels_last(args[1]) or channels_last(args[2]):
        return tuple(_pixel_by_pixel(result) for result in func(*args, **kwargs))
    return func(*map(_contiguous, args[:3]), *args[3:], **kwargs)


def _pixel_by_pixel(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor) or tensor.dim() != 4:
        return tensor
    layout = torch.channels_last
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device, memory_format=layout)


def _grouped_product(func, args, kwargs):
    """The meta kernel knows bfloat16 alone; CUDA multiplies other types group by group."""
    low = [
        a.to(torch.bfloat16) if isinstance(a, torch.Tensor) and a.is_floating_point() else a
        for a in args
    ]
    dtype = kwargs.get("out_dtype") or args[0].dtype
    return func(*low, **{**kwargs, "out_dtype": None}).to(dtype)


def _index(func, args, kwargs):
    """A mask whose values are known chooses as many as it marks; of others what is likely, or the most."""
    source, indices = args[0], list(args[1])
    masks = [i for i in indices if i is not None and i.dtype == torch.bool]
    if not masks and _picks_whole_rows(source, indices):
        return _lying_as_places(func(*args, **kwargs), indices[0])
    if len(masks) != 1 or len([i for i in indices if i is not None]) != 1:
        return func(*args, **kwargs)
    mask, at = masks[0], indices.index(masks[0])
    shape = (*source.shape[:at], marked(mask), *source.shape[at + mask.dim() :])
    return torch.empty(shape, dtype=source.dtype, device=source.device)


def _picks_whole_rows(source: Any, indices: list[Any]) -> bool:
    """Whether rows of a table are read at places that lie otherwise than one after another."""
    if len(indices) != 1 or not source.is_contiguous():
        return False
    return indices[0] is not None and not indices[0].is_contiguous()


def _lying_as_places(rows: Any, places: Any) -> Any:
    """CUDA writes rows in the order in which their places lie; the meta kernel looks at the table alone."""
    width = rows.numel() // max(1, places.numel())
    steps = [step * width for step in torch.empty_like(places).stride()]
    inner = rows.stride()[places.dim() :]
    return torch.empty_strided(rows.shape, (*steps, *inner), dtype=rows.dtype, device=rows.device)


def _masked_select(func, args, kwargs):
    """As many as the mask marks, where its values are known; else the most there can be."""
    source, mask = args[:2]
    shape = torch.broadcast_shapes(source.shape, mask.shape)
    count = marked(mask) * (shape.numel() // max(1, mask.numel()))
    return torch.empty(count, dtype=source.dtype, device=source.device)


def _nonzero(func, args, kwargs):
    places = torch.empty(marked(args[0]), args[0].dim(), dtype=torch.int64, device="meta")
    unknown = not is_counted(args[0]) and not is_likely(args[0])
    if len(places) == args[0].numel() and unknown and readable(places):
        # All were taken, so all are known.
        remember(places, torch.ones(args[0].shape, dtype=torch.bool, device="cpu").nonzero())
    return places


def _masked_fill(func, args, kwargs):
    """CUDA takes a number in host memory; the meta kernel does not."""
    value = args[2]
    if value.device.type == "cpu":
        scalar = _ATEN.masked_fill_.Scalar if func._schema.is_mutable else _ATEN.masked_fill.Scalar
        return scalar(args[0], args[1], value.item())
    return func(*args, **kwargs)


def _product_of_other_type(func, args, kwargs):
    """The meta kernel takes the type of the result for a factor."""
    first, second, dtype = args[1:4]
    shape = (*first.shape[:-1], second.shape[-1])
    result = kwargs.get("out")
    if result is None:
        return torch.empty(shape, dtype=dtype, device="meta")
    return result if result.shape == shape else result.resize_(shape)


def _without_generator(func, args, kwargs):
    """Nothing is drawn, and formulas of Python take no generator."""
    return func(*args, **{**kwargs, "generator": None})


def _like(place: int) -> Callable:
    """For ops without a meta kernel whose result has the shape of one argument, without holes."""

    def correct(func, args, kwargs):
        return torch.empty(args[place].shape, dtype=args[place].dtype, device="meta")

    return correct


def _quantized(func, args, kwargs):
    """Values as they would be after quantization, and which of them lay in its range."""
    shape = args[0].shape
    return (
        torch.empty(shape, dtype=args[0].dtype, device="meta"),
        torch.empty(shape, dtype=torch.bool, device="meta"),
    )


def _jagged(func, args, kwargs):
    """Rows of different lengths, out of their padding: as many as were given, else the most there can be."""
    dense = args[0]
    total = args[2] if len(args) > 2 else kwargs.get("total_L")
    rows = dense.shape[0] * dense.shape[1] if total is None else total
    return torch.empty(rows, *dense.shape[2:], dtype=dense.dtype, device="meta")


def _not_followed(func, args, kwargs):
    """PyTorch has no such tensors without memory; those of layout jagged it has."""
    raise NotImplementedError(f"{func.name()} (with layout=torch.jagged it can be followed)")


# Samples of distributions, with their gradients, and what else PyTorch has no meta kernel for.
_LIKE = {
    _ATEN._standard_gamma.default: 0,
    _ATEN._standard_gamma_grad.default: 0,
    _ATEN._sample_dirichlet.default: 0,
    _ATEN._dirichlet_grad.default: 0,
    _ATEN.binomial.default: 0,
    _ATEN._logcumsumexp.default: 0,
    _ATEN.multi_margin_loss_backward.default: 1,
    _ATEN.multilabel_margin_loss_backward.default: 1,
}
CORRECTIONS: dict[Any, Callable] = {
    **{op: _like(place) for op, place in _LIKE.items()},
    # They write what they find into the tensors that they are given.
    _ATEN._fused_sgd_.default: lambda f, a, k: None,
    _ATEN._fused_sgd_.tensor_lr: lambda f, a, k: None,
    _ATEN._cummax_helper.default: lambda f, a, k: None,
    _ATEN._cummin_helper.default: lambda f, a, k: None,
    _ATEN.native_layer_norm.default: lambda f, a, k: f(_contiguous(a[0]), *a[1:], **k),
    _ATEN.native_layer_norm_backward.default: _layer_norm_backward,
    _ATEN._log_softmax_backward_data.default: lambda f, a, k: f(_contiguous(a[0]), *a[1:], **k),
    _ATEN.index.Tensor: _index,
    _ATEN.masked_select.default: _masked_select,
    _ATEN.nonzero.default: _nonzero,
    _ATEN.masked_fill.Tensor: _masked_fill,
    _ATEN.masked_fill_.Tensor: _masked_fill,
    _ATEN._ctc_loss.default: lambda f, a, k: losses.forward_of_ctc(a),
    _ATEN._ctc_loss.Tensor: lambda f, a, k: losses.forward_of_ctc(a),
    _ATEN._ctc_loss_backward.default: lambda f, a, k: losses.backward(a),
    _ATEN._ctc_loss_backward.Tensor: lambda f, a, k: losses.backward(a),
    _ATEN.fake_quantize_per_tensor_affine_cachemask.default: _quantized,
    _ATEN.fake_quantize_per_channel_affine_cachemask.default: _quantized,
    _ATEN._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: _quantized,
    _ATEN._fused_moving_avg_obs_fq_helper.default: _quantized,
    _ATEN._padded_dense_to_jagged_forward.default: _jagged,
    _ATEN._nested_tensor_from_tensor_list.default: _not_followed,
    _ATEN.linalg_lstsq.default: lambda f, a, k: matrix_factors.forward(a),
    _ATEN.geqrf.default: lambda f, a, k: matrix_factors.reflections(a),
    _ATEN.mse_loss.default: losses.forward,
    _ATEN.smooth_l1_loss.default: losses.forward,
    _ATEN.convolution.default: _convolution,
    _ATEN.convolution_backward.default: _convolution_backward,
    _ATEN.upsample_bilinear2d.default: resized,
    _ATEN.upsample_bicubic2d.default: resized,
    _ATEN.index_put.default: _into_zeros(_ATEN.index_put_.default),
    _ATEN.index_add.default: _into_zeros(_ATEN.index_add_.default),
    _ATEN.scatter.src: _into_zeros(_ATEN.scatter_.src),
    _ATEN.scatter_add.default: _into_zeros(_ATEN.scatter_add_.default),
    _ATEN._cudnn_rnn.default: _recurrent,
    _ATEN._cudnn_rnn_backward.default: _recurrent_backward,
    # Programs ask it of what they have computed in two ways.
    _ATEN.allclose.default: lambda f, a, k: True,
    **BY_DATA,
}
for _drawn in ("cauchy", "exponential", "geometric", "log_normal"):
    for _op in (_drawn, _drawn + "_"):
        CORRECTIONS[getattr(_ATEN, _op).default] = _without_generator
# Those whose result follows from the forms of the arguments, and from nothing else.
DEPENDS_ON_ARGUMENTS = {
    _ATEN.native_layer_norm.default,
    _ATEN.native_layer_norm_backward.default,
    _ATEN._log_softmax_backward_data.default,
    _ATEN.mse_loss.default,
    _ATEN.smooth_l1_loss.default,
    _ATEN.convolution.default,
    _ATEN.convolution_backward.default,
    _ATEN.upsample_bilinear2d.default,
    _ATEN.upsample_bicubic2d.default,
}
if hasattr(_ATEN, "_grouped_mm"):
    CORRECTIONS[_ATEN._grouped_mm.default] = _grouped_product
# Newer than the oldest PyTorch that is traced.
for _product in (_ATEN.addmm, _ATEN.baddbmm):
    for _overload in ("dtype", "dtype_out"):
        if hasattr(_product, _overload):
            CORRECTIONS[getattr(_product, _overload)] = _product_of_other_type


def _of_torchvision(_module: Any) -> None:
    if hasattr(torch.ops.torchvision, "nms"):
        CORRECTIONS[torch.ops.torchvision.nms.default] = indexing.kept_boxes
        NMS.add(torch.ops.torchvision.nms.default)


when_imported("torchvision._meta_registrations", _of_torchvision)
