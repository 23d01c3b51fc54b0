"""Layers that do not fit wait on the host, and come to the device for as long as they run."""

from __future__ import annotations

from typing import Any


def place_with_offload(model: Any, device: Any, device_bytes: int) -> int:
    """Moves what fits to the device, the rest stays on the host with hooks; how many blocks stayed."""
    from ..optimizing.checkpointing import containers

    blocks = [block for container in containers(model) for block in container]
    sizes = [_bytes(block) for block in blocks]
    inside = {id(m) for block in blocks for m in block.modules()}
    room = device_bytes - (_bytes(model) - sum(sizes))
    # One block at a time visits the device.
    room -= max(sizes, default=0)
    waiting: list[Any] = []
    for block, size in zip(blocks, sizes):
        room -= size
        # A model that was built on the device leaves it where there is no room.
        block.to(device if room >= 0 else "cpu")
        if room < 0:
            waiting.append(block)
    for module in model.modules():
        if id(module) not in inside:
            for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
                tensor.data = tensor.data.to(device)
    for block in waiting:
        block.register_forward_pre_hook(lambda m, args: m.to(device) and None)
        block.register_forward_hook(lambda m, args, out: m.to("cpu") and None)
    return len(waiting)


def _bytes(module: Any) -> int:
    return sum(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])
