"""Where a meta tensor is said to be: on the pretended GPU, in host memory, or on `meta` itself.

A program's model is often built in host memory and moved later. Its parameters are meta tensors from
the start, so that a large model takes no memory; their storages are remembered here as the host's.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..sparse import stored

GPU, HOST, META = "gpu", "host", "meta"
# Of a tensor that has memory, which is the host's.
REAL = "real"
# Without parts of their own.
_PLAIN = (torch.Tensor, torch.nn.Parameter)


class Places:
    def __init__(self, cards: int = 1) -> None:
        self.cards = cards
        # The card that is current, for names without a number.
        self.current = 0
        # Where the memory of an op belongs that names its device; None: where its inputs are.
        self.named: str | None = None
        # Storages that are not the GPU's, and the references that say when they end.
        self._elsewhere: dict[int, Any] = {}

    def of(self, tensor: Any) -> str:
        """The place of a meta tensor."""
        if not self._elsewhere:
            return GPU
        if type(tensor) not in _PLAIN:
            # A sharded tensor is where its part is.
            tensor = getattr(tensor, "_local_tensor", tensor)
        return self.of_storage(stored(tensor).untyped_storage())

    def where(self, tensor: Any) -> str:
        """The place of any tensor."""
        with torch._C.DisableTorchFunction():
            if not tensor.is_meta:
                return REAL
        return self.of(tensor)

    def of_storage(self, storage: Any) -> str:
        entry = self._elsewhere.get(storage._cdata)
        return GPU if entry is None else entry[0]

    def remember(self, storage: Any, place: str) -> None:
        key = storage._cdata
        gone = self._elsewhere.pop
        self._elsewhere[key] = (place, weakref.ref(storage, lambda _: gone(key, None)))

    def is_elsewhere(self, storage_key: int) -> bool:
        return storage_key in self._elsewhere

    def any_elsewhere(self) -> bool:
        return bool(self._elsewhere)

    def device_of(self, tensor: Any) -> Any:
        """The device that a program is told."""
        place = self.of(tensor)
        if place == GPU:
            return torch.device("cuda", self.current)
        return torch.device("cpu" if place == HOST else "meta")

    @contextmanager
    def naming(self, place: str | None) -> Iterator[None]:
        before, self.named = self.named, place
        try:
            yield
        finally:
            self.named = before


def is_cuda(device: Any) -> bool:
    if isinstance(device, str):
        return device.split(":")[0] == "cuda"
    if isinstance(device, torch.device):
        return device.type == "cuda"
    # A bare number means a GPU.
    return isinstance(device, int) and not isinstance(device, bool)


def is_named(device: Any, kind: str) -> bool:
    if isinstance(device, torch.device):
        return device.type == kind
    return isinstance(device, str) and device.split(":")[0] == kind


def device_named(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The device that `Tensor.to` names, in whichever form, and what else it asks for."""
    rest, named = list(args[1:]), dict(kwargs)
    device = named.pop("device", None)
    if device is None:
        device = named.pop("other", None)
    if device is None and rest and not isinstance(rest[0], torch.dtype):
        device = rest.pop(0)
    if rest and not isinstance(rest[0], bool):
        named["dtype"] = rest.pop(0)
    named.update(zip(("non_blocking", "copy"), rest))
    named.pop("non_blocking", None)
    return device, {name: value for name, value in named.items() if value is not None}
