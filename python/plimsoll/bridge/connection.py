"""What a process says to its supervisor, and hears from it: JSON lines. It decides; without it all goes on."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import logging
import os
import queue
import socket
import threading
import time
import weakref
from collections import OrderedDict, deque
from typing import Any, Callable

from .messages import (
    ANSWER_SECONDS,
    LONGEST_LINE,
    MAX_WAITING,
    climbed,
    forecast,
    hello,
    loop,
    oom,
    step,
)

log = logging.getLogger("plimsoll")

STEP_MESSAGES_PER_SECOND = 4
GOODBYE_SECONDS = 0.5
# The newest of a program that makes steps or functions without end; the supervisor hears no more either.
MAX_WORKS = 64
# Rungs taken without a supervisor that are kept to report later; the oldest are dropped.
MAX_CLIMBED = 64

_lock = threading.Lock()
_bridge: Bridge | None = None
_tried: int | None = None


# The socket to the supervisor. It is found again after it broke; until then the job goes on alone.

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


class Bridge:
    """Nothing here raises into the job, and no call but `ask_about`, `ask_ahead` and `wait_for` waits."""

    def __init__(self, path: str) -> None:
        self.rank = int(os.environ.get("RANK", "0") or 0)
        self.world = int(os.environ.get("WORLD_SIZE", "1") or 1)
        self._pid = os.getpid()
        self._hooks: list[str] = []
        self._works: dict[str, Any] = {}
        self._climbed: deque[tuple[float, str, str]] = deque(maxlen=MAX_CLIMBED)
        self._ids = itertools.count(1)
        self._answers: OrderedDict[Any, dict[str, Any]] = OrderedDict()
        self._arrived = threading.Condition()
        self._growth: dict[str, int] = {}
        self._last_step: dict[str, float] = {}
        # Whether memory gives way in this process, or would where it is started again so.
        self.spills = False
        self._heard: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._line = Line(path, self._greeting, self._take, self._wake)
        self._line.start()

    @property
    def alive(self) -> bool:
        """Whether a supervisor is there now. One that is not may come again."""
        return self._line.up

    @property
    def over(self) -> bool:
        """Whether none will ever come again."""
        return self._line.over

    @property
    def hooks(self) -> list[str]:
        return list(self._hooks)

    @property
    def has_training(self) -> bool:
        """Whether a training step of the SDK, or of a trainer, was made in this process."""
        living = [known() for known in list(self._works.values())]
        return any(work is not None and work.is_training for work in living)

    def works(self) -> list[dict[str, Any]]:
        """Where each step and function of this process stands."""
        living = [(who, known()) for who, known in list(self._works.items())]
        for who in [who for who, work in living if work is None]:
            self._works.pop(who, None)
            self._last_step.pop(who, None)
        works = [work.describe() for _, work in living if work is not None]
        return [one for one in works if one is not None][-MAX_WORKS:]

    def send(self, message: dict[str, Any]) -> bool:
        """Queues a message; False without a supervisor, or when the queue is full."""
        if not self._line.up or os.getpid() != self._pid:
            return False
        return self._line.put(_encoded(message))

    def declare(self, hooks: list[str], rank: int, world: int) -> None:
        """What this program lets the supervisor change; said again when it grows."""
        self._hooks = sorted({*self._hooks, *hooks})
        self.rank, self.world = rank, world
        self.say_hello()

    def say_hello(self) -> None:
        self.send(hello(self))

    def know(self, who: str, work: Any) -> None:
        """A supervisor that comes later is told what the work's `describe` says. It is not kept alive by that."""
        self._works[who] = weakref.ref(work)

    def ask_about(
        self,
        found: Any,
        phase: str,
        microbatch: int,
        batch: int,
        peak: int,
        number: int | None = None,
        who: str = "",
        hooks: list[str] | None = None,
    ) -> dict[str, Any] | None:
        """The supervisor's decision about an out-of-memory; None when it gives none in time."""
        ident = f"{self._pid}-{next(self._ids)}"
        message = oom(ident, self.rank, found, phase, microbatch, batch, peak)
        message["who"] = who
        if hooks is not None:
            message["hooks"] = hooks
        if number is not None:
            message["round"] = number
        return self._answer(message)

    def ask_ahead(self, ahead: Any, batch: int, who: str) -> dict[str, Any] | None:
        """The supervisor's decision about a step that is still to come; None when it gives none in time."""
        return self._answer(forecast(f"{self._pid}-{next(self._ids)}", ahead, batch, who))

    def on(self, kind: str, act: Callable[[dict[str, Any]], None]) -> None:
        """Calls it with each message of this kind, in a thread of its own."""
        self._heard[kind] = act

    def ask(self, message: dict[str, Any], kind: str) -> dict[str, Any] | None:
        """The answer of that kind with the message's id; None when none comes in time."""
        if not self.send(message):
            return None
        return self.wait_for((kind, message["id"]), ANSWER_SECONDS)

    def _answer(self, message: dict[str, Any]) -> dict[str, Any] | None:
        if not self.send(message):
            return None
        answer = self.wait_for(("decide", message["id"]), ANSWER_SECONDS)
        if answer is None and self.alive:
            log.warning(
                "plimsoll: the supervisor did not answer within %g s; the program decides on its own",
                ANSWER_SECONDS,
            )
        return answer

    def step_is_due(self, now: float, who: str = "") -> bool:
        return self._line.up and now - self._last_step.get(who, 0.0) >= 1 / STEP_MESSAGES_PER_SECOND

    def report_step(
        self,
        number: int,
        microbatch: int,
        batch: int,
        peak: int,
        who: str = "",
        loss: float | None = None,
        is_training: bool = True,
    ) -> None:
        now = time.monotonic()
        if self.step_is_due(now, who):
            self._last_step[who] = now
            self.send(step(number, microbatch, batch, peak, who, loss, is_training))

    def report_loop(self, number: int, peak: int, who: str, loss: float | None) -> None:
        """A step of a loop that has no sizes of ours."""
        self._last_step[who] = time.monotonic()
        self.send(loop(number, peak, who, loss))

    def report_rung(self, rung: str, why: str) -> None:
        """A rung that was climbed without asking; kept for the next supervisor where there is none."""
        if rung != "none" and not self.send(climbed(rung, why, 0.0)):
            self._climbed.append((time.monotonic(), rung, why))

    def take_growth(self, who: str = "") -> int | None:
        if not self._growth:
            return None
        return self._growth.pop(who, None) or self._growth.pop("", None)

    def wait_for(self, key: Any, seconds: float) -> dict[str, Any] | None:
        with self._arrived:
            self._arrived.wait_for(lambda: key in self._answers or not self.alive, seconds)
            return self._answers.pop(key, None)

    def close(self) -> None:
        """Says goodbye; waits a moment so that it is heard."""
        if os.getpid() == self._pid:
            said = self.send({"type": "bye"})
            self._line.close(GOODBYE_SECONDS if said else 0.0)

    def forget(self) -> None:
        """In a forked child: the line is the parent's."""
        self._line.forget()

    def _greeting(self) -> list[bytes]:
        said = [hello(self)]
        now = time.monotonic()
        while self._climbed:
            at, rung, why = self._climbed.popleft()
            said.append(climbed(rung, why, now - at))
        return [_encoded(message) for message in said]

    def _wake(self) -> None:
        with self._arrived:
            if not self._line.up:
                # What a supervisor wanted is not what the next one will.
                self._growth.clear()
            self._arrived.notify_all()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        kind = message.get("type")
        if (
            kind == "grow"
            and isinstance(message.get("microbatch"), int)
            and message["microbatch"] > 0
        ):
            who = message.get("who")
            self._growth[who if who in self._works else ""] = message["microbatch"]
        act = self._heard.get(kind) if isinstance(kind, str) else None
        if act is not None:
            try:
                act(message)
            except Exception as error:
                log.debug("plimsoll: a message was not obeyed: %s", error)
        key = (kind, message.get("round") if kind == "verdict" else message.get("id"))
        if kind in ("decide", "verdict", "spill-plan") and isinstance(key[1], (str, int)):
            with self._arrived:
                self._answers[key] = message
                # Most verdicts are never asked for; the oldest make room for what is.
                while len(self._answers) > MAX_WAITING:
                    self._answers.popitem(last=False)
                self._arrived.notify_all()


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def current() -> Bridge | None:
    """The line to the supervisor that PLIMSOLL_BRIDGE names; None without one. Made once a process."""
    global _bridge, _tried
    if _tried == os.getpid():
        return _bridge
    with _lock:
        if _tried != os.getpid():
            path = os.environ.get("PLIMSOLL_BRIDGE")
            # Without its folder the run is over, and its supervisor with it.
            try:
                _bridge = Bridge(path) if path and os.path.isdir(os.path.dirname(path)) else None
                if _bridge is not None:
                    # What waits to be said is said before the program ends.
                    atexit.register(_bridge.close)
            except (OSError, AttributeError, RuntimeError, ValueError) as error:
                log.info("plimsoll: no supervisor at %s (%s); running without one", path, error)
                _bridge = None
            _tried = os.getpid()
        return _bridge


def _after_fork() -> None:
    global _bridge, _lock
    # Another thread of the parent may have held it; that thread does not exist here.
    _lock = threading.Lock()
    if _bridge is not None:
        _bridge.forget()
    _bridge = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
