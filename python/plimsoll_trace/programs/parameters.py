"""Parameters are meta tensors from the moment they are made, wherever the program builds its model.

A model of 7B that is built in host memory and then moved would take 28 GB of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin

from .. import small_values
from ..known_values.layout import holds_coordinates
from ..standins.patches import Patches
from . import values
from .places import HOST, Places
from .plain_ops import MARKS

_SENT_TO = "_plimsoll_sent_to"
# Whether new parameters keep their memory and values; once for each context that asks for it.
_keeping: list[bool] = []
# What goes out, what comes in, and at least one of space. Points have two: which, and where.
_FILTER_DIMS = 3


@contextmanager
def keeping_values() -> Iterator[None]:
    """For what runs in host memory, on values."""
    _keeping.append(True)
    try:
        yield
    finally:
        _keeping.pop()


def install(patches: Patches, places: Places) -> None:
    make = torch.nn.Parameter.__new__

    def __new__(
        cls: Any, data: Any = None, requires_grad: bool = True, *args: Any, **kwargs: Any
    ) -> Any:
        if type(data) is torch.Tensor and not _keeping:
            data = on_meta(data, places, learns=requires_grad)
        made = make(cls, data, requires_grad, *args, **kwargs)
        with torch._C.DisableTorchFunction():
            small_values.hold_the_same(made, data)
        return made

    patches.set(torch.nn.Parameter, "__new__", __new__)
    _without_marks(patches)
    _lazy(patches, places)


def _without_marks(patches: Patches) -> None:
    """Libraries make a parameter once more with all attributes of the first: `kind(data, **first.__dict__)`.

    Those that say what it holds are the trace's own, and no kind of parameter knows them.
    """
    kind = type(torch.nn.Parameter)
    make = kind.__call__

    def __call__(cls: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {name: one for name, one in kwargs.items() if name not in MARKS}
        return make(cls, *args, **kwargs)

    patches.set(kind, "__call__", __call__)


def _lazy(patches: Patches, places: Places) -> None:
    """Those without a shape yet get one where they were sent before."""

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        kind, learns = self.cls_to_become, self.requires_grad
        device = device or self.__dict__.pop(_SENT_TO, None) or self.data.device
        made = torch.empty(shape, device=device, dtype=dtype or self.data.dtype)
        # Tensors with and without memory are swapped, and with them what they are.
        self.data = on_meta(made, places, learns) if kind is torch.nn.Parameter else made
        self.__class__ = kind
        self.requires_grad_(learns)

    patches.set(UninitializedTensorMixin, "materialize", materialize)


def send_lazy(tensor: Any, device: str) -> bool:
    """Whether a tensor has no shape yet: then it is only told where it will be."""
    if not isinstance(tensor, UninitializedTensorMixin):
        return False
    setattr(tensor, _SENT_TO, device)
    return True


def on_meta(data: Any, places: Places, learns: bool = False) -> Any:
    """The tensor itself, or its like without memory where it lies in host memory.

    A parameter that learns is not a mask. Before it is initialised it often holds only zeros, and reading all of them
    takes long. Nor is it a list of coordinates where it has the shape of a filter.
    """
    with torch._C.DisableTorchFunction():
        if data.device.type != "cpu" or data.layout != torch.strided:
            return data
    data = data.detach()
    with torch._C.DisableTorchFunction(), places.naming(HOST):
        like = torch.empty_strided(data.shape, data.stride(), dtype=data.dtype, device="meta")
        if learns and _is_filter(like):
            return like
        return values.copy_known_value(data, like, may_be_mask=not learns)


def _is_filter(data: Any) -> bool:
    """Whether it is as large as the filters of a convolution, not as points that are learned.

    With the values of all its filters, a whole network would be computed on what a program draws.
    """
    return (
        data.dim() >= _FILTER_DIMS and holds_coordinates(data) and not small_values.readable(data)
    )
