"""`plimsoll.swap`: tensors in the GPU's memory and the host's, moved by how they are used."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Callable

from .arguments import hashable, needed_function, optional_size, tensor
from .memory.gauge import device_of

# Free memory that is never taken on the device: others, and the next step, need room too.
SPARE_BYTES = 100 * 2**20
# Uses beyond this count no more, so that what was popular once does not stay for ever.
MAX_USES = 7


class Swap:
    """Two caches with limits. What is used again stays on the device; what was used once leaves first.

    Eviction looks at the tensor that was used longest ago: if it was used more than once since it came,
    it loses one use and goes to the end of the line, else it leaves (recency first, frequency saves).
    """

    def __init__(
        self,
        device: Any = None,
        device_bytes: int | None = None,
        host_bytes: int | None = None,
    ) -> None:
        import torch

        optional_size("device_bytes", device_bytes)
        optional_size("host_bytes", host_bytes)
        self._torch = torch
        default = "cuda" if torch.cuda.is_available() else "cpu"
        self.device = device_of(default if device is None else device, any_kind=True)
        self._limits = {"device": device_bytes, "host": host_bytes}
        self._tiers: dict[str, OrderedDict[Hashable, Any]] = {
            "device": OrderedDict(),
            "host": OrderedDict(),
        }
        self._uses: dict[Hashable, int] = {}
        self._bytes = {"device": 0, "host": 0}
        self._lock = threading.RLock()
        self.hits = {"device": 0, "host": 0}
        self.misses = 0
        self.evictions = 0

    def load(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The tensor of this key, on the device where there is room for it; made where it is not cached."""
        hashable("key", key)
        needed_function("make", make)
        with self._lock:
            for tier in ("device", "host"):
                if key in self._tiers[tier]:
                    self.hits[tier] += 1
                    return self._used(key, tier)
            made = tensor("the result of make", make())
            self.misses += 1
            return self._place(key, made)

    def put(self, key: Hashable, value: Any) -> Any:
        tensor("value", value)
        with self._lock:
            self.drop(key)
            return self._place(key, value)

    def drop(self, key: Hashable) -> None:
        hashable("key", key)
        with self._lock:
            self._uses.pop(key, None)
            for tier in self._tiers:
                self._take(key, tier)

    def clear(self) -> None:
        with self._lock:
            for tier in self._tiers.values():
                tier.clear()
            self._uses.clear()
            self._bytes = {"device": 0, "host": 0}

    def __contains__(self, key: Hashable) -> bool:
        return self.where(key) is not None

    def __len__(self) -> int:
        return sum(len(tier) for tier in self._tiers.values())

    def where(self, key: Hashable) -> str | None:
        hashable("key", key)
        return next((name for name, tier in self._tiers.items() if key in tier), None)

    def report(self) -> dict[str, Any]:
        asked = sum(self.hits.values()) + self.misses
        return {
            "deviceBytes": self._bytes["device"],
            "hostBytes": self._bytes["host"],
            "hits": dict(self.hits),
            "misses": self.misses,
            "evictions": self.evictions,
            "hitRate": sum(self.hits.values()) / asked if asked else "unknown",
            "source": "measured",
        }

    def _used(self, key: Hashable, tier: str) -> Any:
        self._uses[key] = min(MAX_USES, self._uses.get(key, 0) + 1)
        self._tiers[tier].move_to_end(key)
        value = self._tiers[tier][key]
        if tier == "host" and self._make_room("device", _size(value)):
            self._take(key, "host")
            return self._keep(key, "device", value.to(self.device))
        return value

    def _place(self, key: Hashable, value: Any) -> Any:
        self._uses[key] = 0
        size = _size(value)
        if self._make_room("device", size):
            return self._keep(key, "device", value.to(self.device))
        if self._make_room("host", size):
            return self._keep(key, "host", value.to("cpu"))
        # Larger than both caches: given, and not kept.
        self._uses.pop(key, None)
        return value

    def _keep(self, key: Hashable, tier: str, value: Any) -> Any:
        self._tiers[tier][key] = value
        self._bytes[tier] += _size(value)
        return value

    def _take(self, key: Hashable, tier: str) -> Any:
        value = self._tiers[tier].pop(key, None)
        if value is not None:
            self._bytes[tier] -= _size(value)
        return value

    def _make_room(self, tier: str, size: int) -> bool:
        limit = self._limits[tier]
        if limit is not None and size > limit:
            return False
        while not self._fits(tier, size):
            if not self._tiers[tier]:
                return False
            self._evict(tier)
        return True

    def _fits(self, tier: str, size: int) -> bool:
        limit = self._limits[tier]
        if limit is not None:
            return self._bytes[tier] + size <= limit
        if tier == "device" and self.device.type == "cuda":
            free, _ = self._torch.cuda.mem_get_info(self.device)
            cached = self._torch.cuda.memory_reserved(
                self.device
            ) - self._torch.cuda.memory_allocated(self.device)
            return free + cached > size + SPARE_BYTES
        from .memory import host

        available = host.machine().get("MemAvailable")
        return available is None or available > size + SPARE_BYTES

    def _evict(self, tier: str) -> None:
        line = self._tiers[tier]
        while True:
            key = next(iter(line))
            if self._uses.get(key, 0) <= 0:
                break
            self._uses[key] -= 1
            line.move_to_end(key)
        value = self._take(key, tier)
        self.evictions += 1
        if tier == "device" and self.device.type != "cpu" and self._make_room("host", _size(value)):
            self._keep(key, "host", value.to("cpu"))
        elif (
            tier == "device"
            and self.device.type == "cpu"
            and self._limits["host"] is not None
            and self._make_room("host", _size(value))
        ):
            self._keep(key, "host", value)
        if key not in self:
            self._uses.pop(key, None)


def swap(
    device: Any = None, device_bytes: int | None = None, host_bytes: int | None = None
) -> Swap:
    """A cache of tensors over the device and the host.

        cache = plimsoll.swap(device_bytes=2 * 2**30, host_bytes=16 * 2**30)
        features = cache.load("clip-17", lambda: torch.load("clip-17.pt"))

    Without limits it takes what is free, but for 100 MiB. With no GPU the device is the host.
    """
    return Swap(device, device_bytes, host_bytes)


def _size(value: Any) -> int:
    return int(value.numel() * value.element_size())
