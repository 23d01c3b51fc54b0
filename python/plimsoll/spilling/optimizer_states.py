"""States of optimizers wait on the host between steps: forward and backward have no use for them."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch.optim import optimizer as optimizers

from .card import Card
from .host_pool import HostPool, Room
from .saved import LEAST_BYTES

_PLAIN = (torch.Tensor,)


class OptimizerStates:
    """A state that waits is a tensor of the host with the same value: a program that looks at it finds it."""

    def __init__(self, card: Card, pool: HostPool) -> None:
        self._card, self._pool = card, pool
        self.is_on = False
        self.bytes_out = self.bytes_back = 0
        # What waits: each with its room on the host.
        self._away: dict[int, tuple[weakref.ref[torch.Tensor], Room]] = {}
        self._handles = [
            optimizers.register_optimizer_step_pre_hook(self._before),
            optimizers.register_optimizer_step_post_hook(self._after),
        ]

    def close(self) -> None:
        for handle in self._handles:
            handle.remove()
        self.is_on = False

    def held_bytes(self, optimizer: Any) -> int:
        """Of one optimizer, here or away."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self._states(optimizer))

    def step_in_order(self, optimizer: Any, room: float) -> None:
        """One weight after another where copies of all of them at once would pass the room."""
        weights = 0
        for group in optimizer.param_groups:
            for weight in group["params"]:
                if weight.grad is not None and self._card.has(weight):
                    weights += weight.numel() * weight.element_size()
        # States that the first step makes, and one copy of all weights for a moment.
        needed = weights * (1 if optimizer.state else 3)
        if needed <= room or needed < LEAST_BYTES:
            return
        for group in optimizer.param_groups:
            if "foreach" in group and group["foreach"] is None and not group.get("fused"):
                group["foreach"] = False

    def _states(self, optimizer: Any) -> list[torch.Tensor]:
        return [
            value
            for state in optimizer.state.values()
            if isinstance(state, dict)
            for value in state.values()
            if type(value) in _PLAIN and value.numel() * value.element_size() >= LEAST_BYTES
        ]

    def _before(self, optimizer: Any, *_: Any) -> None:
        if not self._away:
            return
        marks = []
        for tensor in self._states(optimizer):
            known = self._away.pop(id(tensor), None)
            if known is None or known[0]() is not tensor or tensor.device.type != "cpu":
                continue
            flat, mark = self._card.back(known[1].tensor, None)
            marks.append((mark, known[1]))
            size, stride = tensor.size(), tensor.stride()
            tensor.data = flat.view(tensor.dtype).as_strided(size, stride)
            self.bytes_back += flat.numel()
        for mark, _room in marks:
            self._card.wait(mark)

    def _after(self, optimizer: Any, *_: Any) -> None:
        self._away = {key: known for key, known in self._away.items() if known[0]() is not None}
        if not self.is_on:
            return
        moved = []
        for tensor in self._states(optimizer):
            if not self._card.has(tensor) or id(tensor) in self._away:
                continue
            size = tensor.numel() * tensor.element_size()
            if tensor.untyped_storage().nbytes() != size or not _is_dense(tensor):
                continue
            room = self._pool.take(size)
            if room is None:
                return
            flat = torch.empty(0, dtype=torch.uint8, device=tensor.device)
            flat = flat.set_(tensor.untyped_storage(), 0, (size,))
            moved.append((tensor, room, flat, self._card.out(flat, room.tensor)))
        for tensor, room, _flat, mark in moved:
            self._card.wait(mark)
            size, stride = tensor.size(), tensor.stride()
            tensor.data = room.tensor.view(tensor.dtype).as_strided(size, stride)
            self._away[id(tensor)] = weakref.ref(tensor), room
            self.bytes_out += room.tensor.numel()
        if moved:
            # The program may read them on the host at any time.
            self._card.settle()


def _is_dense(tensor: torch.Tensor) -> bool:
    """One whose bytes lie in a row, in whatever order."""
    expected = 1
    for size, stride in sorted(zip(tensor.size(), tensor.stride()), key=lambda one: one[1]):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return tensor.storage_offset() == 0
