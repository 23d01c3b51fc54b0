"""Results of batch norms, where a layer meets images of a new size: those of a detector differ from batch to batch.

One result is as large as the images, the others have a number for each channel, whatever the size of the images is.
So the kernel, which is Python of many ops, is asked once for as many channels.
"""

from __future__ import annotations

from typing import Any

import torch

from .alike_results import strides_in_one_run

_ATEN = torch.ops.aten
_OPS = frozenset((_ATEN.native_batch_norm.default, _ATEN.native_batch_norm_backward.default))
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_META = torch.device("meta")
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
            parts = [_part(one, known[1]) for one in result or ()]
            sure = [part for part in parts if part is not None]
            self._made[known[0]] = sure if sure and len(sure) == len(parts) else None


def _shape(shape: Any, images: Any) -> Any:
    return images if shape is _OF_IMAGES else shape


def _part(one: Any, images: Any) -> tuple[Any, Any] | None:
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
