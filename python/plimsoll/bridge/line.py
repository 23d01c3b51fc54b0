"""The socket to the supervisor. It is found again after it broke; until then the job goes on alone."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import threading
from typing import Callable

from .messages import ANSWER_SECONDS, LONGEST_LINE, MAX_WAITING

log = logging.getLogger("plimsoll")

# A supervisor that was killed may be replaced at any time: looked for soon, then ever less often. One
# look is one call that fails at once.
FIRST_LOOK_SECONDS = 0.2
LONGEST_LOOK_SECONDS = 5.0


class Line:
    """Lines of bytes both ways. No call here waits but `connect`, and nothing raises into the job.

    `greet` makes what is said first on each new connection; `take` hears each line; `changed` is told
    when the connection comes or goes. All three run in a thread of their own.
    """

    def __init__(
        self,
        path: str,
        greet: Callable[[], list[bytes]],
        take: Callable[[bytes], None],
        changed: Callable[[], None],
    ) -> None:
        self.up = False
        self.over = False
        self._path = path
        self._greet, self._take, self._changed = greet, take, changed
        self._stop = threading.Event()
        self._socket: socket.socket | None = None
        self._writer: threading.Thread | None = None
        self._outgoing: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)

    def start(self) -> None:
        """Tries once now; from then on a thread keeps the line."""
        connected = self._connect()
        threading.Thread(
            target=self._keep, args=(connected,), name="plimsoll-bridge", daemon=True
        ).start()

    def put(self, line: bytes) -> bool:
        if not self.up:
            return False
        try:
            self._outgoing.put_nowait(line)
            return True
        except queue.Full:
            return False

    def close(self, seconds: float = 0.0) -> None:
        """Ends it, once what waits is said or the time is over."""
        self.up, self.over = False, True
        self._stop.set()
        self._end_writer()
        if self._writer is not None:
            self._writer.join(seconds)
        self._hang_up()

    def forget(self) -> None:
        """In a forked child: the line is the parent's. Only the child's copy of it is closed."""
        self.up, self.over = False, True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                os.close(self._socket.detach())

    def _connect(self) -> bool:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(ANSWER_SECONDS)
            made.connect(self._path)
            made.settimeout(None)
        except OSError as error:
            log.debug("plimsoll: no supervisor at %s (%s)", self._path, error)
            made.close()
            return False
        # What waited for the last one is old; the greeting says where things stand now.
        outgoing: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        for line in self._greet():
            outgoing.put_nowait(line)
        self._socket, self._outgoing = made, outgoing
        self._writer = threading.Thread(
            target=_write, args=(made, outgoing), name="plimsoll-bridge", daemon=True
        )
        self._writer.start()
        self.up = True
        self._changed()
        return True

    def _keep(self, connected: bool) -> None:
        pause = FIRST_LOOK_SECONDS
        while True:
            if connected:
                self._read()
                self._lost()
                pause = FIRST_LOOK_SECONDS
            # A run's folder is removed when the run is over: then no supervisor will come.
            if self._stop.wait(pause) or not os.path.isdir(os.path.dirname(self._path)):
                self.over = True
                return
            pause = min(LONGEST_LOOK_SECONDS, 2 * pause)
            connected = self._connect()
            if connected:
                log.info("plimsoll: connected to a supervisor again")

    def _read(self) -> None:
        if self._socket is None:
            return
        try:
            with self._socket.makefile("rb") as lines:
                while True:
                    line = lines.readline(LONGEST_LINE)
                    if not line.endswith(b"\n"):
                        return
                    self._take(line)
        except (OSError, ValueError):
            pass

    def _lost(self) -> None:
        self.up = False
        self._end_writer()
        self._hang_up()
        self._changed()
        if not self._stop.is_set():
            log.info(
                "plimsoll: lost the supervisor; the program decides on its own until one connects"
            )

    def _end_writer(self) -> None:
        try:
            self._outgoing.put_nowait(None)
        except queue.Full:
            # It waits for a supervisor that does not read; hanging up wakes it.
            pass

    def _hang_up(self) -> None:
        if self._socket is not None:
            try:
                # Wakes the thread that waits in it.
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            self._socket.close()


def _write(made: socket.socket, outgoing: queue.Queue[bytes | None]) -> None:
    try:
        while True:
            line = outgoing.get()
            if line is None:
                return
            made.sendall(line)
    except OSError:
        # The reader sees it too, and looks for another.
        pass
