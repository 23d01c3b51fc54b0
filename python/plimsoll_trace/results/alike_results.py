"""Results of ops that work value by value, where an op meets a new shape: texts and batches that grow.

Of tensors of one shape that lie in one run such an op makes another one of this shape, which lies in one run as well.
Its type follows from theirs, whatever the shape is, so that it is asked for once.
"""

from __future__ import annotations

from typing import Any

import torch

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
