"""Host memory for what was spilled: bounded, counted, kept for the next step. It is pinned where a card copies."""

from __future__ import annotations

import logging
import os
from bisect import insort

import torch

from ..memory import host

log = logging.getLogger("plimsoll")

# A power of two: PyTorch rounds pinned memory up to one.
SLAB_BYTES = 512 * 2**20
ALIGNMENT = 4096
# Of what the host has free, or of the tightest limit on this process.
SHARE_OF_HOST = 0.7


class Room:
    """Bytes of one slab. The pool has them again once nothing refers to it."""

    __slots__ = ("_pool", "_span", "tensor")

    def __init__(self, pool: HostPool, span: tuple[int, int, int], tensor: torch.Tensor) -> None:
        self._pool, self._span, self.tensor = pool, span, tensor

    def __del__(self) -> None:
        self._pool.give_back(self._span)


class HostPool:
    def __init__(self, most: int, is_pinned: bool, slab_bytes: int = SLAB_BYTES) -> None:
        self.most = most
        self.reserved = 0
        self.used = 0
        self._is_pinned = is_pinned
        self._slab_bytes = slab_bytes
        self._slabs: list[torch.Tensor] = []
        # (slab, offset, bytes), in order.
        self._free: list[tuple[int, int, int]] = []

    @property
    def room(self) -> int:
        """What could still be taken, at the most."""
        return max(0, self.most - self.used)

    def take(self, size: int) -> Room | None:
        """None where the host has no room: then the tensor stays on the card."""
        rounded = -(-size // ALIGNMENT) * ALIGNMENT
        span = self._fitting(rounded)
        if span is None and self._grow(rounded):
            span = self._fitting(rounded)
        if span is None:
            return None
        slab, offset, free = span
        self._free.remove(span)
        if free > rounded:
            insort(self._free, (slab, offset + rounded, free - rounded))
        self.used += rounded
        return Room(self, (slab, offset, rounded), self._slabs[slab][offset : offset + size])

    def give_back(self, span: tuple[int, int, int]) -> None:
        slab, offset, size = span
        self.used -= size
        for other in [one for one in self._free if one[0] == slab]:
            if other[1] + other[2] == offset:
                self._free.remove(other)
                offset, size = other[1], size + other[2]
            elif offset + size == other[1]:
                self._free.remove(other)
                size += other[2]
        insort(self._free, (slab, offset, size))

    def _fitting(self, size: int) -> tuple[int, int, int] | None:
        return next((span for span in self._free if span[2] >= size), None)

    def _grow(self, size: int) -> bool:
        slab = self._slab_bytes
        while slab < size:
            slab *= 2
        if self.reserved + slab > self.most:
            slab = size
            if self.reserved + slab > self.most:
                return False
        try:
            made = torch.empty(slab, dtype=torch.uint8, pin_memory=self._is_pinned)
        except RuntimeError as error:
            log.info("plimsoll: the host gave no more memory to spill to: %s", error)
            self.most = self.reserved
            return False
        self._slabs.append(made)
        self.reserved += slab
        insort(self._free, (len(self._slabs) - 1, 0, slab))
        return True


def host_room() -> int:
    """Bytes that may be spilled to: PLIMSOLL_SPILL_HOST_BYTES, or a share of what no limit forbids."""
    stated = os.environ.get("PLIMSOLL_SPILL_HOST_BYTES", "")
    if stated.isdigit():
        return int(stated)
    bounds = [host.machine().get("MemAvailable", 0)]
    group = host.cgroup_use()
    if group is not None:
        bounds.append(max(0, group[0] - group[1]))
    data = host.data_limit()
    if data is not None:
        bounds.append(max(0, data - host.process_status().get("VmData", 0)))
    return int(min(bounds) * SHARE_OF_HOST)
