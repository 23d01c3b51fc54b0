"""Results of meta kernels, kept by op and arguments: layers and steps repeat, and so do their ops.

Most meta kernels of PyTorch are Python and take up to a millisecond. What they give follows from the
shapes, strides and types they are given, so an op that was seen with the same ones gets empty tensors
of the form it gave before. Whatever is not sure to follow from them is asked again each time.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import torch

from .corrections import (
    CORRECTIONS,
    DEPENDS_ON_ARGUMENTS,
    AlikeResults,
    strides_in_one_run,
    works_by_value,
)

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_DEFAULT_FUNCTION = torch.Tensor.__torch_function__.__func__
_META = torch.device("meta")
_NUMBERS = (int, float, bool, str, type(None))
_COMPLEX = {torch.complex32, torch.complex64, torch.complex128}
_NAMED = (torch.dtype, torch.device, torch.layout, torch.memory_format)
# Ops whose result depends on values, or which change the form of what they are given.
_UNSURE_TAGS = tuple(
    getattr(torch.Tag, name)
    for name in ("inplace_view", "data_dependent_output", "dynamic_output_shape")
    if hasattr(torch.Tag, name)
)
# Asked for each time, kept by their arguments, kept for other shapes as well, or nothing to keep: they write to what
# they are given.
_ASKED, _KEPT, _BY_VALUE, _WRITES = "asked", "kept", "by value", "writes"
_NORMS = "norms"
# Kept where places are given; how many a mask takes depends on its values.
_BY_PLACES = "by places"
_INDEX = torch.ops.aten.index.Tensor
_MASKS = (torch.bool, torch.uint8)


# Results of batch norms, where a layer meets images of a new size: those of a detector differ from batch to batch.
#
# One result is as large as the images, the others have a number for each channel, whatever the size of the images is.
# So the kernel, which is Python of many ops, is asked once for as many channels.

_ATEN = torch.ops.aten
_OPS = frozenset((_ATEN.native_batch_norm.default, _ATEN.native_batch_norm_backward.default))
# In place of the shape of the images.
_OF_IMAGES = "images"


def is_norm(func: Any) -> bool:
    return func in _OPS


class NormResults:
    def __init__(self) -> None:
        # The shape and type of each result, by the op and what it is given but for the size of the images; None where
        # they are something else.
        self._made: dict[tuple, list[tuple[Any, Any]] | None] = {}

    def made(self, key: tuple) -> Any:
        """The results for a key with forms (`MetaResults`); None where the kernel must be asked."""
        known = _without_size(key)
        parts = None if known is None else self._made.get(known[0])
        if known is None or parts is None:
            return None
        images = known[1]
        return tuple(
            None if dtype is None else torch.empty(_shape(shape, images), dtype=dtype, device=_META)
            for shape, dtype in parts
        )

    def learn(self, key: tuple, args: tuple, result: Any) -> None:
        known = _without_size(key)
        if known is not None:
            parts = [_part_of_norm(one, known[1]) for one in result or ()]
            sure = [part for part in parts if part is not None]
            self._made[known[0]] = sure if sure and len(sure) == len(parts) else None


def _shape(shape: Any, images: Any) -> Any:
    return images if shape is _OF_IMAGES else shape


def _part_of_norm(one: Any, images: Any) -> tuple[Any, Any] | None:
    if one is None:
        return (), None
    if type(one) not in _PLAIN or one.stride() != strides_in_one_run(one.shape):
        return None
    if one.shape == images:
        return _OF_IMAGES, one.dtype
    return (one.shape, one.dtype) if one.dim() == 1 else None


def _without_size(key: tuple) -> tuple[tuple, Any] | None:
    """A key for images of all sizes, and their shape; None where they do not lie in one run."""
    func, default, forms, named = key
    images = forms[0][0]
    if named or len(images) < 2 or 0 in images:
        return None
    in_one_run = strides_in_one_run(images)
    rest = []
    for form in forms:
        if type(form) is tuple and isinstance(form[0], torch.Size) and form[0] == images:
            if form[1] != in_one_run:
                return None
            rest.append((_OF_IMAGES, form[2]))
        else:
            rest.append(form)
    return (func, default, len(images), images[1], *rest), images


# PyTorch does not mark these as elementwise.
_NOT_MARKED = frozenset((_ATEN.leaky_relu.default, _ATEN.hardswish.default))


def as_laid_out(func: Any, args: tuple, result: Any) -> Any:
    """How elementwise ops lay out their results where strides can be read in two ways.

    An image of one pixel that came from channels-last ones, as a pooled one, is contiguous as well. CUDA's
    elementwise ops take it for contiguous, and so does all that follows: an `interpolate`, a `cat`, the kernels of
    a convolution. The meta kernels keep its strides.
    """
    if not isinstance(result, torch.Tensor) or result.dim() not in (4, 5) or not result.is_meta:
        return result
    # Strides can be read in two ways only along a dimension of one, or of none.
    if 1 not in result.shape and 0 not in result.shape:
        return result
    if not result.is_contiguous() or any(result is one for one in args):
        return result
    plain = torch.empty(result.shape, dtype=result.dtype, device=result.device)
    if plain.stride() == result.stride() or not _takes_contiguous(func, args, result):
        return result
    return plain


def _takes_contiguous(func: Any, args: tuple, result: Any) -> bool:
    """Whether all operands have the shape of the result and are contiguous; a number is an operand of another shape."""
    marked = torch.Tag.pointwise in func.tags and func is not _ATEN.clone.default
    if not (marked or func in _NOT_MARKED) or func._overloadname == "Scalar":
        return False
    operands = [
        given for given, told in zip(args, func._schema.arguments) if str(told.type) == "Tensor"
    ]
    return all(
        isinstance(one, torch.Tensor) and one.shape == result.shape and one.is_contiguous()
        for one in operands
    )


class _Unsure(Exception):
    """The result may depend on more than what a key can say."""


class MetaResults:
    """Runs ops on the meta device; the same question is put to a kernel once."""

    def __init__(self) -> None:
        # By the `id` of an op, which is held so that no other gets it.
        self._kinds: dict[int, tuple[str, Any]] = {}
        # A function that makes the result out of the arguments; None where it must be asked for.
        self._makers: dict[Any, Callable | None] = {}
        self._alike: dict[str, Any] = {_BY_VALUE: AlikeResults(), _NORMS: NormResults()}
        # What ops that write to lists were run with.
        self._written: set[tuple | None] = set()

    def run(self, func: Any, args: tuple, kwargs: dict) -> Any:
        kind = self._kept(func)
        if kind is _ASKED or (kind is _BY_PLACES and _has_mask(args[1])):
            return _ask(func, args, kwargs)
        if kind is _WRITES:
            return self._write(func, args, kwargs)
        try:
            key = (id(func), torch.get_default_dtype(), *_forms(args, kwargs))
            maker = self._makers[key]
        except (_Unsure, TypeError):
            return _ask(func, args, kwargs)
        except KeyError:
            return self._first(key, func, args, kwargs, kind)
        return _ask(func, args, kwargs) if maker is None else maker(args)

    def _first(self, key: tuple, func: Any, args: tuple, kwargs: dict, kind: str) -> Any:
        """The result for arguments that were not seen before."""
        alike = self._alike.get(kind)
        made = None if alike is None else alike.made(key)
        result = _ask(func, args, kwargs) if made is None else made
        maker = self._makers[key] = _maker(key, args, kwargs, result)
        if alike is not None and made is None:
            alike.learn(key, args, result if maker is not None else None)
        return result

    def _write(self, func: Any, args: tuple, kwargs: dict) -> None:
        """Steps of optimizers write to lists of hundreds of tensors, in many ops that give nothing back.

        Their kernel would only check the shapes, which it does once for as many.
        """
        try:
            key = (id(func), *map(_form_of_lists, args), *map(_form_of_lists, kwargs.values()))
        except _Unsure:
            key = None
        if key is None or key not in self._written:
            first = args if key is None else _first_of_lists(func, args)
            _ask(func, first, kwargs)
            self._written.add(key)

    def _kept(self, func: Any) -> str:
        known = self._kinds.get(id(func))
        if known is None:
            known = self._kinds[id(func)] = (_kind(func), func)
        return known[0]


def _kind(func: Any) -> str:
    if func is _INDEX:
        return _BY_PLACES
    if is_norm(func):
        return _NORMS
    if not _is_keepable(func):
        return _ASKED
    if not func._schema.returns:
        return _WRITES
    return _BY_VALUE if works_by_value(func) and func not in CORRECTIONS else _KEPT


def _has_mask(places: Any) -> bool:
    return any(one is not None and one.dtype in _MASKS for one in places)


def _first_of_lists(func: Any, args: tuple) -> tuple:
    """Lists of one length, cut to what comes first: kernels for lists go through them, at a millisecond each."""
    lengths = {len(one) for one in args if isinstance(one, (list, tuple))}
    if len(lengths) != 1 or lengths <= {0, 1} or not func._opname.startswith("_foreach_"):
        return args
    return tuple(one[:1] if isinstance(one, (list, tuple)) else one for one in args)


def _form_of_lists(value: Any) -> Any:
    """What is looked at of an argument of an op that writes to lists: how long they are, and what comes first."""
    if isinstance(value, (list, tuple)):
        return len(value), _form_of_lists(value[0]) if value else None
    return _form(value) if isinstance(value, torch.Tensor) else type(value)


def _ask(func: Any, args: tuple, kwargs: dict) -> Any:
    if not _any_of_own_kind(args) or torch.Tag.inplace_view in func.tags:
        return _answer(func, args, kwargs)
    # PyTorch's kernels in Python call methods, of which a program's own kind of tensor may have others.
    plain = _without_kinds(args)
    result = _answer(func, plain, kwargs)
    pairs = zip(_tensors(plain), _tensors(args))
    return next((own for one, own in pairs if one is result), result)


def _any_of_own_kind(values: Any) -> bool:
    for one in values:
        kind = type(one)
        if kind is torch.Tensor or kind is int:
            continue
        if kind is list or kind is tuple:
            if _any_of_own_kind(one):
                return True
        elif isinstance(one, torch.Tensor) and _is_own_kind(one):
            return True
    return False


def _is_own_kind(tensor: Any) -> bool:
    kind = type(tensor)
    if kind in _PLAIN:
        return False
    return getattr(kind.__torch_function__, "__func__", None) is _DEFAULT_FUNCTION


def _without_kinds(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(map(_without_kinds, value))
    if not isinstance(value, torch.Tensor) or not _is_own_kind(value):
        return value
    plain = value.as_subclass(torch.Tensor)
    plain.__dict__.update(vars(value))
    return plain


def _answer(func: Any, args: tuple, kwargs: dict) -> Any:
    correct = CORRECTIONS.get(func)
    # In host memory there are values, which decide as they do in a real run.
    if correct is None or not any(t.is_meta for t in _tensors(args)):
        return as_laid_out(func, args, func(*args, **kwargs))
    return correct(func, args, kwargs)


def _is_keepable(func: Any) -> bool:
    if func in CORRECTIONS and func not in DEPENDS_ON_ARGUMENTS:
        return False
    if func.namespace != "aten" or any(tag in func.tags for tag in _UNSURE_TAGS):
        return False
    schema = func._schema
    views = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    # Variants with `out=` write into what they are given by name.
    outs = any(
        a.kwarg_only and a.alias_info is not None and a.alias_info.is_write
        for a in schema.arguments
    )
    return not views and not outs


def _forms(args: tuple, kwargs: dict) -> tuple:
    return tuple(map(_form, args)), tuple(map(_form, kwargs.items())) if kwargs else ()


def _form(value: Any) -> Any:
    """What a meta kernel can see of an argument, as a key."""
    kind = type(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        dtype = value.dtype
        if not value.is_meta or value.layout is not torch.strided or dtype in _COMPLEX:
            raise _Unsure
        return value.shape, value.stride(), dtype
    if isinstance(value, _NUMBERS):
        # 1, 1.0 and True are equal, and give results of different types.
        return type(value), value
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(_form, value))
    if isinstance(value, _NAMED):
        return value
    raise _Unsure


def _maker(key: Any, args: tuple, kwargs: dict, result: Any) -> Callable | None:
    """How to make this result again from such arguments; None where that is not sure."""
    given = list(_tensors((args, tuple(kwargs.values()))))
    if _forms(args, kwargs) != key[2:]:
        return None
    storages = {tensor.untyped_storage()._cdata for tensor in given}
    single = not isinstance(result, (tuple, list))
    parts: list[Callable] = []
    for one in (result,) if single else result:
        part = _part(one, args, storages)
        if part is None:
            return None
        parts.append(part)
    if single:
        return parts[0]
    kind = type(result)
    return lambda args: kind([part(args) for part in parts])


def _part(one: Any, args: tuple, storages: set[int]) -> Callable | None:
    """Makes one of the results; fresh storages are added to those that are known."""
    if isinstance(one, (int, float, type(None))):
        return lambda args: one
    if type(one) not in _PLAIN:
        return None
    place = next((index for index, given in enumerate(args) if given is one), None)
    if place is not None:
        return itemgetter(place)
    if one.device.type != "meta" or one.layout is not torch.strided:
        return None
    storage = one.untyped_storage()
    if storage._cdata in storages:
        return None
    storages.add(storage._cdata)
    shape, stride, dtype = one.shape, one.stride(), one.dtype

    def fresh(_args: Any) -> Any:
        return torch.empty_strided(shape, stride, dtype=dtype, device=_META)

    same = fresh(args).untyped_storage().nbytes() == storage.nbytes()
    return fresh if same and one.storage_offset() == 0 and not dtype.is_complex else None


def _tensors(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _tensors(part)
