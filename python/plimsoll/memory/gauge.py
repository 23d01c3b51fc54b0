"""Reads one device: what this process holds of it, what it could still get, and its peaks."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

from ..arguments import BadType, BadValue, shown
from . import host
from .highest import raised

# The device that a person names: checked against what there is.

# What other tools call them.
OTHER_NAMES = {"host": "cpu", "gpu": "cuda"}


def device_of(value: Any, any_kind: bool = False) -> Any:
    """A torch.device of the host or of a CUDA (or HIP) card that is there; with `any_kind` of any
    other sort that PyTorch knows, too.

    Names of other tools are told in PyTorch's words: `gpu:0` is `cuda:0`, `host` is `cpu`.
    """
    import torch

    if not isinstance(value, (str, torch.device)):
        fact = f"device must be a name, not {shown(value)}"
        raise BadType(fact, 'write "cuda:0" or "cpu"')
    text = str(value)
    known = re.fullmatch(r"cpu|cuda(?::(\d{1,4}))?", text)
    if known is None:
        other = _other_kind(text) if any_kind else None
        if other is not None:
            return other
        number = re.fullmatch(r"(?:gpu:?)?(\d{1,4})", text)
        meant = f"cuda:{number[1]}" if number else OTHER_NAMES.get(text, "")
        next_step = f'write "{meant}"' if meant else 'write "cuda:0" or "cpu"'
        raise BadValue(f"{shown(text)} is not the name of a device", next_step)
    if text == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0:
        raise BadValue(f"there is no CUDA device here, so no {text!r}", 'write "cpu"')
    if known[1] is not None and int(known[1]) >= count:
        fact = f"there is no device {text!r}; this machine has cuda:0 to cuda:{count - 1}"
        raise BadValue(fact, "name one of them")
    return torch.device(text)


def _other_kind(text: str) -> Any:
    import torch

    try:
        return torch.device(text)
    except RuntimeError:
        return None


class HostGauge:
    """The host's memory, within the tightest limit that holds for this process."""

    device = "cpu"

    def __init__(self) -> None:
        self._limits = [
            limit for limit in (host.cgroup_limit(), host.stated_limit()) if limit is not None
        ]

    def used_bytes(self) -> int:
        return host.resident_bytes()

    def capacity_bytes(self) -> int:
        """What this process can come to hold in all, others on the machine left as they are."""
        resident = host.resident_bytes()
        bounds = list(self._limits)
        available = host.machine().get("MemAvailable")
        if available is not None:
            bounds.append(resident + available)
        # Asked each time: a limit may be set later, by the program or by ourselves.
        for limit, figure in (
            (host.address_space_limit(), "VmSize"),
            (host.data_limit(), "VmData"),
        ):
            if limit is not None:
                # What is mapped and not resident (libraries, stacks) is not there for data.
                mapped = host.process_status().get(figure, resident)
                bounds.append(max(resident, limit - (mapped - resident)))
        return min(bounds) if bounds else host.machine().get("MemTotal", 0)

    def used_share(self) -> float:
        capacity = self.capacity_bytes()
        return self.used_bytes() / capacity if capacity else 0.0

    def memory_point(self) -> tuple[int, int, int | None]:
        """For a forecast: the limit, what is held of it, and no allocator that tells what is live."""
        return self.capacity_bytes(), self.used_bytes(), None

    def cached_bytes(self) -> int:
        """What an allocator keeps for reuse; the host's gives back by itself."""
        return 0

    def reset_peak(self) -> None:
        peak = self.peak_bytes()
        raised(self.device, peak, peak)
        host.reset_peak()

    def peak_bytes(self) -> int:
        return _peak(host.process_status(), host.resident_bytes())

    def figures(self) -> dict[str, Any]:
        used = host.resident_bytes()
        now = _peak(host.process_status(), used)
        peak, _ = raised(self.device, now, now)
        capacity = self.capacity_bytes()
        return {
            "allocatedBytes": used,
            "reservedBytes": used,
            "peakAllocatedBytes": peak,
            "peakReservedBytes": peak,
            "freeBytes": max(0, capacity - used),
            "totalBytes": capacity,
        }


class MachineGauge(HostGauge):
    """The host as all processes use it: the machine's memory, or that of the group or of the limit that ends first."""

    def used_share(self) -> float:
        limit, used = self._tightest()
        return used / limit if limit else 0.0

    def memory_point(self) -> tuple[int, int, int | None]:
        return (*self._tightest(), None)

    def figures(self) -> dict[str, Any]:
        limit, used = self._tightest()
        return {**super().figures(), "freeBytes": max(0, limit - used), "totalBytes": limit}

    def _tightest(self) -> tuple[int, int]:
        """The limit that is nearest to being reached, and what is used of it."""
        machine = host.machine()
        total = machine.get("MemTotal", 0)
        pools = [(total, max(0, total - machine.get("MemAvailable", total)))]
        group = host.cgroup_use()
        if group is not None and group[0] < total:
            pools.append(group)
        # A limit of this process alone; without one its capacity is what the machine has left.
        own = self.capacity_bytes()
        resident = host.resident_bytes()
        if own < resident + machine.get("MemAvailable", 0):
            pools.append((own, resident))
        return max(
            (one for one in pools if one[0] > 0), key=lambda one: one[1] / one[0], default=(0, 0)
        )


def _peak(status: dict[str, int], used: int) -> int:
    """The kernel keeps the peak with pages of files in it; those of now are taken off."""
    return max(used, status["VmHWM"] - status.get("RssFile", 0)) if "VmHWM" in status else used


class Allocator(NamedTuple):
    """What PyTorch's caching allocator holds of one card, in bytes; peaks since they were reset."""

    allocated: int
    reserved: int
    peak_allocated: int
    peak_reserved: int


class CudaGauge:
    """A CUDA (or HIP) device through PyTorch's caching allocator."""

    def __init__(self, index: int) -> None:
        import torch

        self._torch = torch
        self.index = index
        self.device = f"cuda:{index}"

    def allocator(self) -> Allocator:
        """Read at once: torch.cuda.memory_allocated and its kin list and sort all figures for each of them."""
        stats = self._torch.cuda.memory_stats_as_nested_dict(self.index)
        held = stats.get("allocated_bytes", {}).get("all", {})
        kept = stats.get("reserved_bytes", {}).get("all", {})
        now, peak = "current", "peak"
        return Allocator(held.get(now, 0), kept.get(now, 0), held.get(peak, 0), kept.get(peak, 0))

    def used_bytes(self) -> int:
        return self.allocator().allocated

    def capacity_bytes(self) -> int:
        """What the allocator could come to hold: its own, what the card has free, at most its cap."""
        free, total = self._torch.cuda.mem_get_info(self.index)
        return min(int(total * self.fraction()), self.allocator().reserved + free)

    def used_share(self) -> float:
        """Of the card as all processes see it; what the allocator keeps for reuse counts as free."""
        free, total = self._torch.cuda.mem_get_info(self.index)
        own = self.allocator()
        card = (total - free - (own.reserved - own.allocated)) / total if total else 0.0
        cap = total * self.fraction()
        return max(card, own.allocated / cap if cap else 0.0)

    def memory_point(self) -> tuple[int, int, int | None]:
        """For a forecast: the limit, what is held of it by all processes, and what of that is not cached."""
        free, total = self._torch.cuda.mem_get_info(self.index)
        own = self.allocator()
        others = max(0, total - free - own.reserved)
        limit = min(total, others + int(total * self.fraction()))
        return limit, total - free, total - free - max(0, own.reserved - own.allocated)

    def cached_bytes(self) -> int:
        own = self.allocator()
        return max(0, own.reserved - own.allocated)

    def total_bytes(self) -> int:
        return self._torch.cuda.get_device_properties(self.index).total_memory

    def others_bytes(self) -> int:
        """What is in use on the card beside this process' allocator; its own context is a part of it."""
        free, total = self._torch.cuda.mem_get_info(self.index)
        return total - free - self.allocator().reserved

    def fraction(self) -> float:
        read = getattr(self._torch.cuda, "get_per_process_memory_fraction", None)
        if read is not None:
            return float(read(self.index))
        stated = host.stated_limit()
        total = self._torch.cuda.get_device_properties(self.index).total_memory
        return min(1.0, stated / total) if stated else 1.0

    def reset_peak(self) -> None:
        own = self.allocator()
        raised(self.device, own.peak_allocated, own.peak_reserved)
        self._torch.cuda.reset_peak_memory_stats(self.index)

    def peak_bytes(self) -> int:
        return self.allocator().peak_allocated

    def figures(self) -> dict[str, Any]:
        own = self.allocator()
        free, total = self._torch.cuda.mem_get_info(self.index)
        peak_held, peak_kept = raised(self.device, own.peak_allocated, own.peak_reserved)
        return {
            "allocatedBytes": own.allocated,
            "reservedBytes": own.reserved,
            "peakAllocatedBytes": peak_held,
            "peakReservedBytes": peak_kept,
            "freeBytes": free,
            "totalBytes": total,
        }


class CurrentGauge:
    """The device in use, whichever that is: the host until the program has initialised a card itself."""

    def __init__(self) -> None:
        self._host = HostGauge()
        self._cards: dict[int, CudaGauge] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._now(), name)

    def _now(self) -> Any:
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return self._host
        index = cuda.current_device()
        if index not in self._cards:
            self._cards[index] = CudaGauge(index)
        return self._cards[index]


def gauge_of(model: Any = None, device: str | None = None) -> HostGauge | CudaGauge:
    """The gauge of the device that a model lies on; of the current one when there is no model."""
    found = None if device is None else device_of(device)
    torch = sys.modules.get("torch")
    if torch is None:
        return HostGauge()
    if found is None:
        found = next((p.device for p in model.parameters()), None) if model is not None else None
        if found is None and torch.cuda.is_available() and torch.cuda.is_initialized():
            found = torch.device("cuda")
    if found is not None and found.type == "cuda":
        return CudaGauge(torch.cuda.current_device() if found.index is None else found.index)
    return HostGauge()
