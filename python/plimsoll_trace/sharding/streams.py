"""Streams and events as the caching allocator sees them: which stream asks, and which uses what.

No time passes in a trace. Work on a stream counts as done once the host has waited for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ..ledger import Ledger

# Of each priority (c10/cuda/CUDAStream.cpp).
_STREAMS = 32


class RankEvent:
    """`torch.cuda.Event`: a place in the record."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._ledger: Ledger | None = None
        self._place = 0
        self.device = torch.device("cuda", 0)

    def record(self, stream: Any = None) -> RankEvent:
        if isinstance(stream, RankStream):
            self._ledger = stream.ledger
            self._place = stream.ledger.place()
        return self

    def synchronize(self) -> None:
        if self._ledger is not None:
            self._ledger.wait(self._place)

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 0.0


class RankStream:
    def __init__(self, ledger: Ledger, number: int) -> None:
        self.ledger = ledger
        self.number = self.cuda_stream = self.stream_id = number
        self.device = torch.device("cuda", 0)
        self.priority = 0

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, RankStream) and other.number == self.number

    def __hash__(self) -> int:
        return hash(self.number)

    def wait_stream(self, other: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: RankEvent | None = None) -> RankEvent:
        return (event or RankEvent()).record(self)

    def synchronize(self) -> None:
        self.ledger.wait(self.ledger.place())

    def query(self) -> bool:
        return True


class NodeStreams:
    """Backward runs each node on the stream of its forward op: which that was, by autograd's numbers."""

    def __init__(self) -> None:
        self._starts: list[int] = [0]
        self._streams: list[int] = [0]

    def switched(self, stream: int) -> None:
        self._starts.append(torch._C._autograd._get_sequence_nr())
        self._streams.append(stream)

    def of(self, node: Any) -> int:
        """What adds up the gradient of a parameter has no number, and runs on the first stream."""
        if node is None or not hasattr(node, "_sequence_nr") or "AccumulateGrad" in node.name():
            return 0
        return self._streams[bisect_right(self._starts, node._sequence_nr()) - 1]

    def forget(self) -> None:
        """Drops the numbers of a finished step."""
        self._starts = [0]
        self._streams = [0]


class DeviceHandle:
    """What `torch.cuda` is to code that works on several streams."""

    def __init__(
        self,
        ledger: Ledger,
        ranks_of_a_node: int,
        when_several: Callable[[], None] | None = None,
    ) -> None:
        self.ledger = ledger
        self._ranks = ranks_of_a_node
        self._when_several = when_several
        self._apart = False
        self.first = RankStream(ledger, 0)
        self._streams = {0: self.first}
        # How many were made of each priority.
        self._made = {False: 0, True: 0}
        self._numbers: dict[tuple[bool, int], int] = {}
        # Those that were entered and not left.
        self._entered: list[RankStream] = []
        self.nodes = NodeStreams()

    def tell_apart(self) -> None:
        """From now on, each allocation is asked for by the stream on which it is."""
        if self._apart:
            return
        self._apart = True
        self.ledger.stream_now = lambda: self.current_stream().number
        if self._when_several is not None:
            self._when_several()

    def next_number(self, priority: int = 0) -> int:
        """PyTorch has so many streams of each priority, and hands them out in turn."""
        high = priority < 0
        turn = self._made[high] % _STREAMS
        self._made[high] += 1
        return self._numbers.setdefault((high, turn), len(self._numbers) + 1)

    def add(self, stream: RankStream) -> RankStream:
        self._streams[stream.number] = stream
        return stream

    def knows(self, number: int) -> bool:
        return number in self._streams

    def Stream(self, device: Any = None, priority: int = 0, **_: Any) -> RankStream:
        return self.add(RankStream(self.ledger, self.next_number(priority)))

    def Event(self, *_: Any, **__: Any) -> RankEvent:
        handle = self

        class _Event(RankEvent):
            def record(self, stream: Any = None) -> RankEvent:
                return super().record(stream or handle.current_stream())

        return _Event()

    def current_stream(self, *_: Any) -> RankStream:
        if self._entered:
            return self._entered[-1]
        if torch._C._current_graph_task_id() == -1:
            return self.first
        return self._streams[self.nodes.of(torch._C._current_autograd_node())]

    @contextmanager
    def stream(self, stream: RankStream | None) -> Iterator[None]:
        before = self.enter(stream)
        try:
            yield
        finally:
            self.leave(before)

    def enter(self, stream: RankStream | None) -> list[RankStream]:
        """Answers what was entered before, to go back to."""
        before = list(self._entered)
        # A stream of another library is the first.
        known = stream if isinstance(stream, RankStream) else self.first
        self._entered.append(self.current_stream() if stream is None else known)
        self.nodes.switched(self._entered[-1].number)
        return before

    def leave(self, before: list[RankStream]) -> None:
        self._entered[:] = before
        self.nodes.switched(self.current_stream().number)

    def set_stream(self, stream: RankStream) -> None:
        """Work goes there from now on, whichever was entered before."""
        known = stream if isinstance(stream, RankStream) else self.first
        self._entered[:] = [known] if known.number else []
        self.nodes.switched(known.number)

    @contextmanager
    def summing(self) -> Iterator[None]:
        """Two gradients of one value are added up on the stream of the node that takes the sum."""
        number = 0
        if torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled():
            node = torch._C._current_autograd_node()
            takers = [taker for taker, _ in getattr(node, "next_functions", ())]
            number = max((self.nodes.of(taker) for taker in takers), default=0)
        if self._entered or number == 0:
            yield
            return
        self._entered.append(self._streams[number])
        try:
            yield
        finally:
            self._entered.pop()

    def current_device(self) -> int:
        return 0

    def set_device(self, *_: Any) -> None:
        pass

    def device_count(self) -> int:
        return self._ranks

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def synchronize(self, *_: Any, **__: Any) -> None:
        self.ledger.wait(self.ledger.place())
