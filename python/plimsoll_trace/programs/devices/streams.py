"""`torch.cuda.Stream` and `Event` as a program makes them: each stream has memory of its own in the allocator."""

from __future__ import annotations

from typing import Any

from ...sharding.streams import DeviceHandle, RankEvent, RankStream


def table(handle: DeviceHandle) -> dict[str, Any]:
    """What `torch.cuda` answers. Until a program makes a stream, all is asked for on the first."""

    class Stream(RankStream):
        def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
            handle.tell_apart()
            super().__init__(handle.ledger, handle.next_number(priority))
            self.priority = priority
            handle.add(self)

        def __enter__(self) -> Stream:
            self._within = StreamContext(self)
            self._within.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self._within.__exit__(*error)

        @staticmethod
        def priority_range() -> tuple[int, int]:
            # The lowest and the highest of a card of today.
            return 0, -5

    class ExternalStream(RankStream):
        """One that another library made: its number is that of a stream here, or of none."""

        def __init__(self, stream_ptr: int = 0, *_: Any, **__: Any) -> None:
            super().__init__(handle.ledger, stream_ptr if handle.knows(stream_ptr) else 0)

    class Event(RankEvent):
        def record(self, stream: Any = None) -> RankEvent:
            return super().record(stream or handle.current_stream())

        def elapsed_time(self, other: Any) -> float:
            # Milliseconds; programs divide by it.
            return 1.0

    class StreamContext:
        def __init__(self, stream: Any = None) -> None:
            self._stream = stream

        def __enter__(self) -> None:
            self._before = handle.enter(self._stream)

        def __exit__(self, *_: Any) -> None:
            handle.leave(self._before)

    return {
        "Stream": Stream,
        "ExternalStream": ExternalStream,
        "Event": Event,
        "StreamContext": StreamContext,
        "stream": lambda stream: StreamContext(stream),
        "set_stream": handle.set_stream,
        "current_stream": lambda device=None: handle.current_stream(),
        "default_stream": lambda device=None: handle.first,
        "synchronize": handle.synchronize,
    }


def first_of(observer: Any, cards: int) -> DeviceHandle:
    """The streams of a program, of which there is one at first."""

    def several() -> None:
        observer.summing = handle.summing

    handle = DeviceHandle(observer.ledger, cards, several)
    return handle
