"""Real values beside small meta tensors.

Some models compute numbers with tensors on the current device (widths of stages, dropout rates,
relative positions) and read them back, often to give a tensor its size. A meta tensor has nothing
to read, so such small tensors are computed on the CPU as well, from the ops that make values out
of nothing. Values that follow from likely ones (`choices.likely_values`) are followed in the same
way and marked as unsure: they say how many rows the data choose and how large a box is, and nothing else.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .known_values.computing import compute, compute_once, is_repeating, repeats, run
from .known_values.later import Later, NotComputed, before_writing, now
from .known_values.layout import holds_coordinates, strides_of
from .op_facts import COMPUTES, LEAVES, LIKE, UNWRITTEN, WRITES, is_view, written_places

_ATEN = torch.ops.aten
_TO_COPY = _ATEN._to_copy.default
# These leave nothing of it.
_FILLS = {_ATEN.fill_.Scalar, _ATEN.zero_.default}
_LARGEST = 4096
# Places, labels and masks decide more, and cost little: sizes of graphs, lengths, what is chosen. Masks of sound have a
# place for each of 16,000 samples a second.
_LARGEST_WHOLE = 1 << 24
# What is computed of known values, as anchors and how they overlap with boxes.
_LARGEST_COMPUTED, _LARGEST_COORDINATES = 1 << 23, 1 << 24
# Masks with a row for each position, what is made of one, and parts of it: most are never read, so never computed.
_LARGEST_MASK = 1 << 25
# Masks with a row for each position whose rows are alike: values that differ, and all. Who asks whether any is set
# waits for all of them.
_LARGEST_REPEATED, _LARGEST_REPEATING = 1 << 20, 1 << 27
_CHOOSE = {_ATEN.where.self, _ATEN.masked_fill.Scalar, _ATEN.masked_fill.Tensor}
_LARGEST_COPIED = 1 << 18
# Tensors with known values, by the storage they share.
_holders: dict[int, list[Any]] = {}
_VALUE = "_plimsoll_value"
_UNSURE = "_plimsoll_unsure"
_MARKED = "_plimsoll_marked"
_LIKELY = "_plimsoll_likely"
# All that say what a tensor holds.
MARKS = (_VALUE, _UNSURE, _MARKED, _LIKELY)


# Whole numbers that a program makes without values, and then writes part by part: `torch.empty`, `new_empty`.
#
# Where each part is written with known values, all of it is known: the first places of the graphs of a batch, say.
# Until then its values are unknown.

_UNWRITTEN = "_plimsoll_unwritten"


def mark_unwritten(result: Any) -> None:
    """After an op that writes nothing into what it makes."""
    if not isinstance(result, torch.Tensor) or not result.is_meta:
        return
    small = 0 < result.numel() <= _LARGEST and not result.dtype.is_floating_point
    if small and not result.dtype.is_complex and result.layout is torch.strided:
        setattr(result, _UNWRITTEN, True)


def take_unwritten(target: Any) -> list[tuple[Any, Any]]:
    """Before the first write to it, or to a part: the whole and the part, with zeros for what they hold."""
    whole = target if target._base is None else target._base
    if not getattr(whole, _UNWRITTEN, False):
        return []
    delattr(whole, _UNWRITTEN)
    if not whole.is_contiguous():
        return []
    zeros = torch.zeros(whole.shape, dtype=whole.dtype, device="cpu")
    if target is whole:
        return [(whole, zeros)]
    start = target.storage_offset() - whole.storage_offset()
    return [(whole, zeros), (target, zeros.as_strided(target.shape, target.stride(), start))]


def value_of(tensor: Any) -> Any:
    """What a tensor holds, where that is sure."""
    return likely_value_of(tensor) if is_known(tensor) else None


def likely_value_of(tensor: Any) -> Any:
    value = held_by(tensor)
    if isinstance(value, Later):
        value = value.now()
        if value is None:
            delattr(tensor, _VALUE)
        else:
            setattr(tensor, _VALUE, value)
    elif value is not None and value.shape != tensor.shape:
        # Saved or copied before it could not be computed.
        return None
    return value


def is_known(tensor: Any) -> bool:
    """Whether what a tensor holds is sure. It may have to be computed first."""
    return is_likely(tensor) and not getattr(tensor, _UNSURE, False)


def is_likely(tensor: Any) -> bool:
    return held_by(tensor) is not None


def held_by(tensor: Any) -> Any:
    """What a tensor holds, or what computes it later."""
    return getattr(tensor, _VALUE, None) if isinstance(tensor, torch.Tensor) else None


def read(func: Any, args: tuple, kwargs: dict) -> Any:
    """The real tensor, where an op copies a known one to the host; else None."""
    if func is not _TO_COPY or str(kwargs.get("device")) != "cpu":
        return None
    value = value_of(args[0])
    return None if value is None else func(value, **kwargs)


def follow(func: Any, args: tuple, kwargs: dict, result: Any, way: str) -> None:
    """Computes what a small result would hold, if everything it is made of is known. `way`: of the op."""
    if way == WRITES:
        _write(func, args, kwargs)
        return
    if way == LEAVES:
        mark_unwritten(result)
        return
    if way == COMPUTES and _lacks_values(args):
        return
    results = result if isinstance(result, (tuple, list)) else (result,)
    if _follow_repeating(func, args, kwargs, result):
        return
    if not any(_may_be_known(func, one, args) for one in results):
        return
    if way == LIKE:
        args = (_of_shape(args[0]), *args[1:])
    reading = _Reading()
    try:
        given = [reading.of(a) for a in args]
        named = {
            k: (torch.device("cpu") if k == "device" else reading.of(v)) for k, v in kwargs.items()
        }
        made = compute(func, given, named, results, strides_of(func, args))
    except (NotComputed, _NotKnown, RuntimeError, TypeError, IndexError):
        return
    for one, value in zip(results, made):
        # On the host, a gradient that is not needed is None.
        if value is not None and _may_be_known(func, one, args) and value.shape == one.shape:
            remember(one, value, reading.sure)


def _follow_repeating(func: Any, args: tuple, kwargs: dict, result: Any) -> bool:
    """Whether a result is known that has many values, of which few differ."""
    if not isinstance(result, torch.Tensor):
        return False
    if not _LARGEST_COMPUTED < result.numel() <= _LARGEST_REPEATING:
        return False
    if not result.is_meta or not repeats(func, [held_by(one) for one in args], _LARGEST_REPEATED):
        return False
    reading = _Reading()
    try:
        given = now([reading.of(a) for a in args])
        named = {**kwargs, "device": torch.device("cpu")} if "device" in kwargs else kwargs
        value = compute_once(func, given, named, result.shape, _LARGEST_REPEATED)
    except (NotComputed, _NotKnown, RuntimeError, TypeError, IndexError):
        return False
    if value is None or value.shape != result.shape:
        return False
    remember(result, value, reading.sure)
    return True


def _may_be_known(func: Any, result: Any, args: tuple) -> bool:
    if not isinstance(result, torch.Tensor) or not result.is_meta:
        return False
    if readable(result):
        return True
    small = may_be_computed(result) or _is_of_mask(func, result)
    return small and any(map(is_likely, _flat(args)))


def _is_of_mask(func: Any, result: Any) -> bool:
    plain = result.layout is torch.strided and result.numel() <= _LARGEST_MASK
    return plain and (result.dtype == torch.bool or func in _CHOOSE or is_view(func))


def may_be_copied(tensor: Any) -> bool:
    """Whether what is copied from the host is kept: small tensors, and coordinates that were computed there."""
    known = holds_coordinates(tensor) and tensor.numel() <= _LARGEST_COPIED
    return readable(tensor) or (known and may_be_computed(tensor))


def may_be_computed(result: Any) -> bool:
    """Whether values may be followed into a result, by its size."""
    if not result.dtype.is_floating_point and result.dtype != torch.bool:
        return readable(result)
    most = _LARGEST_COORDINATES if holds_coordinates(result) else _LARGEST_COMPUTED
    return result.layout is torch.strided and result.is_meta and result.numel() <= most


def _flat(args: tuple) -> Iterator[Any]:
    for one in args:
        yield from one if isinstance(one, (list, tuple)) else (one,)


def _lacks_values(args: tuple) -> bool:
    """Whether there is nothing to compute a result of: for most ops of a model."""
    none = True
    for value in args:
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, torch.Tensor):
                none = False
                if one.is_meta and getattr(one, _VALUE, None) is None and one.numel():
                    return True
    return none


def _of_shape(tensor: Any) -> Any:
    """On the host, without memory for each value."""
    return torch.zeros((), dtype=tensor.dtype, device="cpu").expand(tensor.shape)


def _write(func: Any, args: tuple, kwargs: dict) -> None:
    """A tensor that is written to holds something else from then on, and so do its views."""
    written = [t for t in _written(func, args, kwargs) if t.is_meta]
    named_out = len(written) == 1 and written[0] is kwargs.get("out")
    if not named_out and (len(written) != 1 or written[0] is not args[0]):
        for target in written:
            _forget_values(target)
        return
    target = written[0]
    for tensor, zeros in take_unwritten(target):
        remember(tensor, zeros)
    if not is_likely(target) and not _is_shared(target) and func not in _FILLS:
        # As most that is written: nothing is known of it.
        return
    value = likely_value_of(target)
    reading = _Reading(sure=is_known(target))
    sharing = _sharing(target)
    if any(is_repeating(held) and not is_repeating(tensor) for tensor, held in sharing):
        sharing = _each_place(target)
        value = next((held for tensor, held in sharing if tensor is target), None)
    _forget_values(target)
    if value is None and func in _FILLS and target.numel() <= _LARGEST and readable(target):
        value = torch.empty(target.shape, dtype=target.dtype, device="cpu")
        sharing, reading.sure = [(target, value)], True
    if value is None or func in UNWRITTEN:
        return
    try:
        real = now([reading.of(a) for a in (args if named_out else args[1:])])
        named = now({name: reading.of(a) for name, a in kwargs.items() if name != "out"})
        before_writing(value)
        if not _mirrors(value, sharing):
            value, sharing = value.clone(), [(target, value)]
        if named_out:
            run(func, real, {**named, "out": value})
        else:
            run(func, [value, *real], named)
    except (NotComputed, _NotKnown, RuntimeError, TypeError, IndexError):
        return
    for tensor, held in sharing:
        remember(tensor, value if tensor is target else held, reading.sure)


def _written(func: Any, args: tuple, kwargs: dict) -> list[Any]:
    found: list[Any] = []
    for place, name in written_places(func):
        value = args[place] if place < len(args) else kwargs.get(name)
        found.extend(value if isinstance(value, (list, tuple)) else (value,))
    return [one for one in found if isinstance(one, torch.Tensor)]


def _sharing(target: Any) -> list[tuple[Any, Any]]:
    """The tensors of one storage whose values are known, with these."""
    holders = (holder() for holder in _holders.get(target.untyped_storage()._cdata, ()))
    unique = {id(tensor): tensor for tensor in holders if likely_value_of(tensor) is not None}
    return [(tensor, likely_value_of(tensor)) for tensor in unique.values()]


def _is_shared(target: Any) -> bool:
    """Whether something may be known of its storage."""
    return target.untyped_storage()._cdata in _holders


def _each_place(target: Any) -> list[tuple[Any, Any]]:
    """The whole that a tensor is a part of, and the part, with memory for each of the values that repeat."""
    whole = target if target._base is None else target._base
    held = likely_value_of(whole)
    if held is None or not whole.is_contiguous() or whole.numel() > _LARGEST_MASK:
        return []
    held = held.contiguous()
    if target is whole:
        return [(whole, held)]
    start = target.storage_offset() - whole.storage_offset()
    return [(whole, held), (target, held.as_strided(target.shape, target.stride(), start))]


def _mirrors(value: Any, sharing: list[tuple[Any, Any]]) -> bool:
    """Whether the values share their memory as the tensors do, so that what is written to one is in all."""
    place = value.untyped_storage().data_ptr()
    return all(held.untyped_storage().data_ptr() == place for _, held in sharing)


class _NotKnown(Exception):
    """Something that is written, or the place where, is not known."""


class _Reading:
    """What arguments hold, and whether all of it is sure."""

    def __init__(self, sure: bool = True) -> None:
        self.sure = sure

    def of(self, value: Any) -> Any:
        """Arguments that say where to write stand in a list."""
        if isinstance(value, (list, tuple)):
            return type(value)(self.of(one) for one in value)
        if not isinstance(value, torch.Tensor) or not value.is_meta:
            return value
        known = getattr(value, _VALUE, None)
        if known is None and value.numel() == 0:
            # Nothing was chosen.
            return torch.empty(value.shape, dtype=value.dtype, device="cpu")
        if known is None:
            raise _NotKnown
        self.sure = self.sure and not getattr(value, _UNSURE, False)
        return known


def _forget_values(tensor: Any) -> None:
    """Of all tensors that share its storage."""
    for holder in _holders.pop(tensor.untyped_storage()._cdata, ()):
        sharing = holder()
        if sharing is not None and hasattr(sharing, _VALUE):
            delattr(sharing, _VALUE)


def may_be_written(tensor: Any) -> None:
    """For what a kernel is given, of which it is not known whether it reads or writes it.

    Filled with one value it is where results go; lengths and places, which are read, differ.
    """
    value = value_of(tensor)
    if value is None or value.numel() == 0:
        return
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        filled = bool((value == value.flatten()[0]).all())
        if filled:
            _forget_values(tensor)


def readable(tensor: Any) -> bool:
    if not tensor.is_meta or tensor.layout is not torch.strided:
        return False
    return tensor.numel() <= (_LARGEST if tensor.dtype.is_floating_point else _LARGEST_WHOLE)


def remember(tensor: Any, value: Any, sure: bool = True) -> None:
    """Ties a meta tensor to what it was made from."""
    setattr(tensor, _VALUE, value)
    if not sure or hasattr(tensor, _UNSURE):
        setattr(tensor, _UNSURE, not sure)
    _holders.setdefault(tensor.untyped_storage()._cdata, []).append(weakref.ref(tensor))


def hold_the_same(tensor: Any, other: Any) -> None:
    """For a tensor that has the storage of another from now on."""
    value = held_by(other)
    if value is not None:
        remember(tensor, value, sure=is_known(other))
    elif hasattr(tensor, _VALUE):
        delattr(tensor, _VALUE)


def forget(storage_key: int) -> None:
    _holders.pop(storage_key, None)


def count_marked(mask: Any, count: int) -> None:
    """Keeps how many places a mask marks, where its values need not be known for that."""
    setattr(mask, _MARKED, count)


def is_counted(mask: Any) -> bool:
    return mask.device.type == "cpu" or hasattr(mask, _MARKED) or is_known(mask)


def expect_marked(mask: Any, count: int) -> None:
    """Says how many places are likely marked by a mask that is not counted."""
    setattr(mask, _LIKELY, count)


def marked(mask: Any) -> int:
    """How many places a mask marks: as it was made, else as is likely, or all where only the data would tell."""
    value = mask if mask.device.type == "cpu" else value_of(mask)
    if value is not None:
        return int(value.count_nonzero())
    return getattr(mask, _MARKED, getattr(mask, _LIKELY, mask.numel()))
