"""Streams, events and threads of a program: each stream has memory of its own, and threads see the pretended GPU."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.overrides import _get_current_function_mode_stack

from ...sharding.streams import DeviceHandle, RankEvent, RankStream
from ...standins.patches import Patches
from ..watch import Watch

# `torch.cuda.Stream` and `Event` as a program makes them: each stream has memory of its own in the allocator.


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


# Threads that a program starts see the pretended GPU, too.
#
# PyTorch keeps its modes for each thread. A model that generates in one thread while another prints its words would
# find no GPU there.


class Threads:
    def __init__(self, patches: Patches, observer: Any, devices: Any, watch: Watch) -> None:
        self._observer = observer
        self._devices = devices
        self._watch = watch
        self._started: list[Any] = []
        # What ended one of them.
        self._ended_by: BaseException | None = None
        self._install(patches)

    def _install(self, patches: Patches) -> None:
        start = threading.Thread.start

        def started(thread: Any) -> None:
            # Not those of PyTorch's compiler, which works without modes.
            if self._devices in _get_current_function_mode_stack():
                thread.run = self._seen(thread.run, thread.__dict__)
                self._started.append(thread)
            start(thread)

        patches.set(threading.Thread, "start", started)

    @contextmanager
    def as_one_program(self) -> Iterator[None]:
        """The first thread ends when the others have, or with what ended one of them."""
        try:
            yield
            for thread in self._started:
                if not thread.daemon:
                    thread.join()
        except KeyboardInterrupt:
            if self._ended_by is None:
                raise
            raise self._ended_by from None

    def _seen(self, run: Callable[[], None], attributes: dict[str, Any]) -> Callable[[], None]:
        def running() -> None:
            # Else a thread would hold itself, and with it what it was given.
            del attributes["run"]
            if not self._watch.running:
                return
            with self._observer, self._devices:
                try:
                    run()
                except SystemExit:
                    pass
                except BaseException as error:
                    self._end(error)

        return running

    def _end(self, error: BaseException) -> None:
        """In a real run the others go on without it. Here it is most likely a fault of the trace."""
        self._ended_by = error
        if self._watch.running:
            # The first thread may wait for this one.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
