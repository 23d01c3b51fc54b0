"""Threads that a program starts see the pretended GPU, too.

PyTorch keeps its modes for each thread. A model that generates in one thread while another prints its words would
find no GPU there.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.overrides import _get_current_function_mode_stack

from ...standins.patches import Patches
from ..watch import Watch


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
