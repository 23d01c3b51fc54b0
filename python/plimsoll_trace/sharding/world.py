"""The process group of one rank whose peers are pretended, and the device its meshes are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import distributed

from plimsoll.failure import MISSING_PACKAGE, Failure

from ..standins.patches import Patches
from .parallel import Parallel
from .streams import DeviceHandle

# Says what is asked for while a function of torch runs is for.


def labelled(observer: Any, category: str, function: Callable) -> Callable:
    def run(*args: Any, **kwargs: Any) -> Any:
        before = observer.category
        observer.category = category
        try:
            return function(*args, **kwargs)
        finally:
            observer.category = before

    return run


# What is sharded together: each layer of a stack is one group, and the whole model the outermost.


def layers(model: Any) -> list[Any]:
    """The layers of the outermost stacks, in their order."""
    found: list[Any] = []
    inside: set[int] = set()
    for module in model.modules():
        if id(module) in inside or not _is_stack(module):
            continue
        for layer in module:
            found.append(layer)
            inside.update(map(id, layer.modules()))
    return found


def _is_stack(module: Any) -> bool:
    if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) or len(module) < 2:
        return False
    kinds = {type(layer) for layer in module}
    return len(kinds) == 1 and any(True for _ in next(iter(module)).children())


DEVICE = "meta"


@contextmanager
def world(observer: Any, parallel: Parallel) -> Iterator[Patches]:
    """While entered, torch takes the meta device for one GPU of many."""
    if not distributed.is_available():
        raise Failure(
            "distributed-missing",
            "this torch was built without torch.distributed",
            "name a Python whose torch has it",
            status=MISSING_PACKAGE,
        )
    # Gives collectives on the meta device something to call.
    import torch.distributed._tools.fake_collectives
    from torch.testing._internal.distributed.fake_pg import FakeStore

    patches = Patches()
    handle = DeviceHandle(observer.ledger, parallel.gpus // parallel.nodes)
    handle.tell_apart()
    distributed.init_process_group(
        backend="fake", store=FakeStore(), rank=0, world_size=parallel.gpus
    )
    try:
        patches.add(torch, DEVICE, handle)
        observer.summing = handle.summing
        watch_sizes(patches, observer)
        unseen_meshes(patches)
        yield patches
    finally:
        patches.undo()
        distributed.destroy_process_group()


def watch_sizes(patches: Patches, observer: Any) -> None:
    """Sharded parameters come and go by the size of their storage, which no dispatch mode sees."""
    resize = torch.UntypedStorage.resize_

    def resize_(self: Any, size: int) -> Any:
        before = self.nbytes()
        result = resize(self, size)
        if self.device.type == DEVICE and before != size:
            observer.resized(self, size)
        return result

    patches.set(torch.UntypedStorage, "resize_", resize_)


def unseen_meshes(patches: Patches) -> None:
    """A mesh computes with small tensors of the host, whose values must be real."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.utils._python_dispatch import _disable_current_modes

    make = DeviceMesh.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        with _disable_current_modes():
            make(self, *args, **kwargs)

    patches.set(DeviceMesh, "__init__", __init__)
