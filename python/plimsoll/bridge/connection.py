"""The socket to the supervisor: JSON lines both ways. A line that breaks is given up, the job goes on."""

from __future__ import annotations

import itertools
import json
import logging
import os
import queue
import socket
import threading
import time
from typing import Any, Dict, List, Optional

from .messages import ANSWER_SECONDS, LONGEST_LINE, MOST_WAITING, hello, oom, step

log = logging.getLogger("plimsoll")

STEP_MESSAGES_PER_SECOND = 4

_lock = threading.Lock()
_bridge: Optional["Bridge"] = None
_tried: Optional[int] = None


class Bridge:
    """One connection. Nothing here raises into the job, and no call but `ask` waits."""

    def __init__(self, path: str) -> None:
        self.alive = True
        self.rank = int(os.environ.get("RANK", "0") or 0)
        self.world = int(os.environ.get("WORLD_SIZE", "1") or 1)
        self._pid = os.getpid()
        self._hooks: List[str] = []
        self._ids = itertools.count(1)
        self._answers: Dict[Any, Dict[str, Any]] = {}
        self._arrived = threading.Condition()
        self._growth: Optional[int] = None
        self._last_step = 0.0
        self._outgoing: "queue.Queue[bytes]" = queue.Queue(MOST_WAITING)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(ANSWER_SECONDS)
        self._socket.connect(path)
        self._socket.settimeout(None)
        for work in (self._write_lines, self._read_lines):
            threading.Thread(target=work, name="plimsoll-bridge", daemon=True).start()
        self.send(hello(self))

    @property
    def hooks(self) -> List[str]:
        return list(self._hooks)

    def send(self, message: Dict[str, Any]) -> bool:
        """Queues a message; False when there is nobody to send it to, or too much waits already."""
        if not self.alive or os.getpid() != self._pid:
            return False
        try:
            self._outgoing.put_nowait(json.dumps(message).encode() + b"\n")
            return True
        except queue.Full:
            return False

    def declare(self, hooks: List[str], rank: int, world: int) -> None:
        """What this program lets the supervisor change; said again when it grows."""
        self._hooks = sorted({*self._hooks, *hooks})
        self.rank, self.world = rank, world
        self.send(hello(self))

    def ask_about(
        self, found: Any, phase: str, microbatch: int, batch: int, peak: int, number: Optional[int] = None
    ) -> Optional[Dict[str, Any]]:
        """The supervisor's decision about an out-of-memory; None when it gives none in time."""
        ident = f"{self._pid}-{next(self._ids)}"
        message = oom(ident, self.rank, found, phase, microbatch, batch, peak)
        if not self.send(message if number is None else {**message, "round": number}):
            return None
        answer = self.wait_for(("decide", ident), ANSWER_SECONDS)
        if answer is None and self.alive:
            log.warning("plimsoll: no decision from the supervisor within %g s; deciding here", ANSWER_SECONDS)
        return answer

    def tell_step(self, number: int, microbatch: int, batch: int, peak: int) -> None:
        now = time.monotonic()
        if now - self._last_step >= 1 / STEP_MESSAGES_PER_SECOND:
            self._last_step = now
            self.send(step(number, microbatch, batch, peak))

    def take_growth(self) -> Optional[int]:
        wanted, self._growth = self._growth, None
        return wanted

    def wait_for(self, key: Any, seconds: float) -> Optional[Dict[str, Any]]:
        with self._arrived:
            self._arrived.wait_for(lambda: key in self._answers or not self.alive, seconds)
            return self._answers.pop(key, None)

    def close(self) -> None:
        """Says goodbye; waits a moment so that it is heard."""
        if self.send({"type": "bye"}):
            until = time.monotonic() + 0.5
            while not self._outgoing.empty() and self.alive and time.monotonic() < until:
                time.sleep(0.005)
        self._end()

    def forget(self) -> None:
        """In a forked child: the line is the parent's."""
        self.alive = False

    def _write_lines(self) -> None:
        try:
            while self.alive:
                self._socket.sendall(self._outgoing.get())
        except OSError:
            self._end()

    def _read_lines(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                while self.alive:
                    line = lines.readline(LONGEST_LINE)
                    if not line.endswith(b"\n"):
                        break
                    self._take(line)
        except (OSError, ValueError):
            pass
        self._end()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        kind = message.get("type")
        if kind == "grow" and isinstance(message.get("microbatch"), int) and message["microbatch"] > 0:
            self._growth = message["microbatch"]
        key = (kind, message.get("id") if kind == "decide" else message.get("round"))
        if kind in ("decide", "verdict") and isinstance(key[1], (str, int)):
            with self._arrived:
                if len(self._answers) < MOST_WAITING:
                    self._answers[key] = message
                self._arrived.notify_all()

    def _end(self) -> None:
        self.alive = False
        with self._arrived:
            self._arrived.notify_all()
        try:
            self._socket.close()
        except OSError:
            pass


def current() -> Optional[Bridge]:
    """The line to the supervisor that PLIMSOLL_BRIDGE names; None without one. Tried once a process."""
    global _bridge, _tried
    with _lock:
        if _tried != os.getpid():
            _tried = os.getpid()
            path = os.environ.get("PLIMSOLL_BRIDGE")
            try:
                _bridge = Bridge(path) if path else None
            except (OSError, AttributeError) as error:
                log.info("plimsoll: no supervisor at %s (%s); going on without", path, error)
                _bridge = None
        return _bridge


def _after_fork() -> None:
    global _bridge
    if _bridge is not None:
        _bridge.forget()
    _bridge = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
