"""`plimsoll.pool()`: tensors that are given back and used again, pinned ones of the host above all."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..arguments import BadValue, any_dtype, shown, size, truth
from ..arguments import shape as tensor_shape
from ..memory.gauge import device_of

# A block is used for a tensor of at least this share of it: more would waste memory.
LEAST_USE = 0.5
# Blocks are whole pages: sizes that differ by little use the same block.
PAGE_BYTES = 4096


@dataclass(eq=False)
class Block:
    """Memory of the pool, and when the device has done its last work on it."""

    memory: Any
    place: tuple[str, bool]
    done: Any = None

    @property
    def bytes(self) -> int:
        return self.memory.numel()

    def is_ready(self) -> bool:
        return self.done is None or self.done.query()


class TensorPool:
    """Lends tensors; keeps what is given back, up to a limit, and lends it again."""

    def __init__(self, limit: int) -> None:
        self._limit = size("limit", limit)
        self._idle: list[Block] = []
        self._lent: dict[int, Block] = {}
        self._lock = threading.Lock()
        self._taken = self._reused = self._released = 0

    def take(
        self, shape: tuple[int, ...], dtype: Any = None, device: str = "cpu", pinned: bool = False
    ) -> Any:
        """A tensor whose values are anything, like `torch.empty`."""
        import torch

        kind = any_dtype("dtype", dtype)
        sizes, needed = tensor_shape("shape", shape, kind)
        place = (str(device_of(device)), truth("pinned", pinned))
        if pinned and (place[0] != "cpu" or not torch.cuda.is_available()):
            raise BadValue("pinned memory is memory of the host for a card", "leave pinned out")
        with self._lock:
            block = self._find(place, needed)
            reused = block is not None
        if block is None:
            length = max(PAGE_BYTES, -(-needed // PAGE_BYTES) * PAGE_BYTES)
            memory = torch.empty(length, dtype=torch.uint8, device=place[0], pin_memory=pinned)
            block = Block(memory, place)
        with self._lock:
            # Counted once it is there: memory may have run out on the way.
            self._taken += 1
            self._reused += reused
            self._lent[block.memory.untyped_storage().data_ptr()] = block
        return block.memory[:needed].view(kind).reshape(sizes)

    def give(self, tensor: Any) -> None:
        """Takes a tensor back. It must not be used any more; copies that still run are waited for."""
        with self._lock:
            pointer = _memory_of(tensor)
            block = self._lent.pop(pointer, None)
            if block is None:
                fact = f"{shown(tensor)} was not lent by this pool, or was given back before"
                raise BadValue(fact, "give back each tensor of take() once")
            block.done = _event_of_now(block.place)
            self._idle.append(block)
            while sum(one.bytes for one in self._idle) > self._limit:
                # The one that was idle for longest.
                self._idle.pop(0)
                self._released += 1

    @contextmanager
    def borrow(
        self, shape: tuple[int, ...], dtype: Any = None, device: str = "cpu", pinned: bool = False
    ) -> Iterator[Any]:
        """Lends a tensor for a `with` block."""
        tensor = self.take(shape, dtype=dtype, device=device, pinned=pinned)
        try:
            yield tensor
        finally:
            self.give(tensor)

    def clear(self) -> None:
        """Releases what is idle to the allocator."""
        with self._lock:
            self._released += len(self._idle)
            self._idle.clear()

    def statistics(self) -> dict[str, Any]:
        with self._lock:
            return {
                "taken": self._taken,
                "reused": self._reused,
                "reuseRate": self._reused / self._taken if self._taken else "unknown",
                "released": self._released,
                "idleBytes": sum(block.bytes for block in self._idle),
                "lentBytes": sum(block.bytes for block in self._lent.values()),
            }

    def _find(self, place: tuple[str, bool], needed: int) -> Block | None:
        fitting = [
            block
            for block in self._idle
            if block.place == place
            and needed <= block.bytes
            and (block.bytes == PAGE_BYTES or needed >= LEAST_USE * block.bytes)
            and block.is_ready()
        ]
        best = min(fitting, key=lambda block: block.bytes, default=None)
        if best is not None:
            self._idle = [block for block in self._idle if block is not best]
        return best


def pool(*, limit: int = 2**30) -> TensorPool:
    """Tensors that are given back and used again.

        staging = plimsoll.pool(limit=2 * 2**30)
        with staging.borrow((256, 3, 224, 224), pinned=True) as batch:
            ...

    It keeps up to `limit` bytes that are not in use. For memory of a card PyTorch's own allocator does the
    same; the pool helps with pinned memory, and to see what is used again (`statistics()`).
    """
    return TensorPool(limit)


def _event_of_now(place: tuple[str, bool]) -> Any:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    on_card = place[1] or place[0] != "cpu"
    if not on_card or cuda is None or not cuda.is_initialized():
        return None
    event = cuda.Event()
    event.record()
    return event


def _memory_of(tensor: Any) -> Any:
    """Where its memory begins, also for a view of it; None where it is not a tensor."""
    storage = getattr(tensor, "untyped_storage", None)
    return None if storage is None else storage().data_ptr()
