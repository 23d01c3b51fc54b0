"""The device whose memory is short, as spilling needs it: a CUDA card, or the host's memory in its place for tests."""

from __future__ import annotations

import time
from typing import Any, Protocol

import torch

from ..memory.highest import raised

# How many bytes are copied to measure the bus: enough that its start does not count.
PROBE_BYTES = 64 * 2**20


class Card(Protocol):
    """All copies are in the order of streams: nothing here waits on the processor but `settle`."""

    device: torch.device
    pins: bool
    # Whether weights and states of optimizers are among what it holds.
    holds_all: bool

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies here, and its work runs in the order that copies follow."""

    def held(self) -> int:
        """Bytes of all tensors here, in the order of the program's own stream."""

    def peak(self) -> int:
        """The highest that was held since `forget_peak`."""

    def forget_peak(self) -> None: ...

    def retries(self) -> int:
        """How often the allocator had to give back what it keeps."""

    def out(self, source: torch.Tensor, target: torch.Tensor) -> Any:
        """Begins a copy to the host; the mark of its end."""

    def back(self, source: torch.Tensor, after: Any) -> tuple[torch.Tensor, Any]:
        """Begins a copy from the host into new memory; that memory, and the mark of its end."""

    def wait(self, mark: Any) -> None:
        """The program's next work on the card begins after the mark."""

    def mark(self) -> Any:
        """The end of all that the program has begun so far."""

    def timed_mark(self) -> Any:
        """A mark that `seconds_between` can read once the card has settled."""

    def seconds_between(self, first: Any, second: Any) -> float: ...

    def is_done(self, mark: Any) -> bool: ...

    def settle(self) -> None:
        """Waits until all is done."""

    def give_back(self) -> None:
        """Frees memory of the host that is unused."""

    def random_state(self) -> Any: ...

    def set_random_state(self, state: Any) -> None: ...


class CudaCard:
    pins = True
    holds_all = True

    def __init__(self, index: int) -> None:
        self.device = torch.device("cuda", index)
        self._index = index
        self._out = torch.cuda.Stream(index)
        self._back = torch.cuda.Stream(index)
        self._raw_stream = torch._C._cuda_getCurrentRawStream
        # Others than the default stream are the program's own affair, a captured graph among them.
        self._program = torch.cuda.default_stream(index)
        self._plain = self._program.cuda_stream
        self._statistics = torch._C._cuda_memoryStats

    def has(self, tensor: torch.Tensor) -> bool:
        return (
            tensor.is_cuda
            and tensor.get_device() == self._index
            and self._raw_stream(self._index) == self._plain
        )

    def held(self) -> int:
        return int(self._statistics(self._index)["allocated_bytes"]["all"]["current"])

    def peak(self) -> int:
        return int(self._statistics(self._index)["allocated_bytes"]["all"]["peak"])

    def forget_peak(self) -> None:
        # What others report as the peak of this process stays true.
        statistics = self._statistics(self._index)
        allocated, reserved = statistics["allocated_bytes"], statistics["reserved_bytes"]
        raised(str(self.device), allocated["all"]["peak"], reserved["all"]["peak"])
        torch._C._cuda_resetPeakMemoryStats(self._index)

    def retries(self) -> int:
        return int(self._statistics(self._index)["num_alloc_retries"])

    def out(self, source: torch.Tensor, target: torch.Tensor) -> Any:
        stream = self._out
        stream.wait_event(self.mark())
        # Copies that come back may still read this part of the host's memory.
        stream.wait_stream(self._back)
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
            end = torch.cuda.Event()
            end.record(stream)
        return end

    def back(self, source: torch.Tensor, after: Any) -> tuple[torch.Tensor, Any]:
        target = torch.empty(source.numel(), dtype=torch.uint8, device=self.device)
        stream = self._back
        # The memory may have been in use until now, in the order of the program's stream.
        stream.wait_event(self.mark())
        if after is not None:
            stream.wait_event(after)
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
            end = torch.cuda.Event()
            end.record(stream)
        return target, end

    def wait(self, mark: Any) -> None:
        self._program.wait_event(mark)
        if self._raw_stream(self._index) != self._plain:
            torch.cuda.current_stream(self._index).wait_event(mark)

    def mark(self) -> Any:
        event = torch.cuda.Event()
        event.record(torch.cuda.current_stream(self._index))
        return event

    def timed_mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._index))
        return event

    def is_done(self, mark: Any) -> bool:
        return bool(mark.query())

    def seconds_between(self, first: Any, second: Any) -> float:
        return float(first.elapsed_time(second)) / 1000

    def settle(self) -> None:
        torch.cuda.synchronize(self._index)

    def give_back(self) -> None:
        empty = getattr(torch._C, "_host_emptyCache", None)
        if empty is not None:
            empty()

    def random_state(self) -> Any:
        return torch.cuda.get_rng_state(self._index)

    def set_random_state(self, state: Any) -> None:
        torch.cuda.set_rng_state(state, self._index)


class HostAsCard:
    """Tensors of the host, as if they lay on a card: what autograd holds of them counts against the limit."""

    pins = False
    holds_all = False
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.saved = 0
        self.highest = 0

    def has(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == "cpu"

    def held(self) -> int:
        return self.saved

    def peak(self) -> int:
        return self.highest

    def forget_peak(self) -> None:
        self.highest = self.saved

    def retries(self) -> int:
        return 0

    def holds(self, change: int) -> None:
        self.saved += change
        self.highest = max(self.highest, self.saved)

    def out(self, source: torch.Tensor, target: torch.Tensor) -> Any:
        target.copy_(source)
        return time.perf_counter()

    def back(self, source: torch.Tensor, after: Any) -> tuple[torch.Tensor, Any]:
        return source.clone(), time.perf_counter()

    def wait(self, mark: Any) -> None:
        return None

    def mark(self) -> Any:
        return time.perf_counter()

    timed_mark = mark

    def seconds_between(self, first: Any, second: Any) -> float:
        return float(second - first)

    def is_done(self, mark: Any) -> bool:
        return True

    def settle(self) -> None:
        return None

    def give_back(self) -> None:
        return None

    def random_state(self) -> Any:
        return None

    def set_random_state(self, state: Any) -> None:
        return None


def bus_speed(card: Card) -> tuple[float, float]:
    """Bytes a second to the host and back, both measured once."""
    host = torch.empty(PROBE_BYTES, dtype=torch.uint8, pin_memory=card.pins)
    there = torch.zeros(PROBE_BYTES, dtype=torch.uint8, device=card.device)
    out, back = [], []
    for _ in range(3):
        card.settle()
        start = time.perf_counter()
        card.out(there, host)
        card.settle()
        middle = time.perf_counter()
        card.back(host, None)
        card.settle()
        out.append(middle - start)
        back.append(time.perf_counter() - middle)
    return PROBE_BYTES / max(min(out), 1e-9), PROBE_BYTES / max(min(back), 1e-9)
