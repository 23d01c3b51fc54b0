"""Expects when memory will run out: readings go to `plimsoll replay - --follow`, a process beside this one."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import subprocess
import threading
import time
from typing import Any, NamedTuple

from ..asking.command import command
from ..failure import Failure

RISKS = ("none", "low", "medium", "high", "critical")

# The first answer waits for the process to start; a machine that is busy starts it slowly.
FIRST_PATIENCE_SECONDS = 10.0
PATIENCE_SECONDS = 1.0


class MemoryPoint(NamedTuple):
    """One instant of one pool of memory."""

    seconds: float
    # The most that can be had: the capacity of the device, or the allocator's own cap.
    limit_bytes: int
    held_bytes: int
    # Live bytes inside what is held, where an allocator reports them.
    live_bytes: int | None = None


class _Asked:
    """The process that answers, one for all forecasters of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.answers: dict[str, dict[str, Any]] = {}
        self.answered: dict[str, int] = {}
        self.changed = threading.Condition()
        self.trouble: str | None = None
        self.patience = FIRST_PATIENCE_SECONDS
        self._process: subprocess.Popen[str] | None = None
        try:
            self._process = subprocess.Popen(
                [*command(), "replay", "-", "--follow"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
                # Ctrl-C is for the program; this one ends with the pipe.
                start_new_session=True,
            )
        except Failure as failure:
            self.trouble = str(failure)
        except OSError as error:
            self.trouble = f"The command plimsoll does not start: {error}."
        else:
            threading.Thread(target=self._read, name="plimsoll-forecast", daemon=True).start()
            atexit.register(self.close)

    def say(self, ident: str, point: MemoryPoint, costs: dict[str, float]) -> None:
        if self._process is None or self._process.stdin is None or self.trouble:
            return
        reading = {
            "id": ident,
            "seconds": point.seconds,
            "limitBytes": int(point.limit_bytes),
            "heldBytes": int(point.held_bytes),
            **costs,
        }
        if point.live_bytes is not None:
            reading["liveBytes"] = int(point.live_bytes)
        try:
            self._process.stdin.write(json.dumps(reading) + "\n")
        except (OSError, ValueError):
            self._end()

    def wait(self, ident: str, count: int) -> dict[str, Any] | None:
        """The answer to so many readings, or the last one that came in time."""
        until = time.monotonic() + self.patience
        with self.changed:
            while self.answered.get(ident, 0) < count and self.trouble is None:
                left = until - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(left)
            return self.answers.get(ident)

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            try:
                answer = json.loads(line)
                ident, forecast = answer["id"], answer["forecast"]
            except (ValueError, KeyError, TypeError):
                continue
            with self.changed:
                self.patience = PATIENCE_SECONDS
                self.answers[ident] = forecast
                self.answered[ident] = self.answered.get(ident, 0) + 1
                self.changed.notify_all()
        self._end()

    def _end(self) -> None:
        with self.changed:
            self.trouble = (
                self.trouble or "The command plimsoll ended: no forecast is made any more."
            )
            self.changed.notify_all()

    def close(self) -> None:
        process = self._process
        if process is None or process.stdin is None or self.pid != os.getpid():
            return
        with contextlib.suppress(OSError, ValueError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)


_asked: _Asked | None = None
_starting = threading.Lock()
_numbers = itertools.count()


def _process() -> _Asked:
    """A fork has a process of its own: two must not read the same answers."""
    global _asked
    with _starting:
        if _asked is None or _asked.pid != os.getpid():
            _asked = _Asked()
        return _asked


class Forecaster:
    """Follows one pool of memory, from the past alone.

    >>> Forecaster().forecast()["risk"]
    'unknown'
    """

    def __init__(self, missed_end_cost: float = 9, false_alarm_cost: float = 1) -> None:
        self._costs = {"missedEndCost": missed_end_cost, "falseAlarmCost": false_alarm_cost}
        self._ident = f"{next(_numbers)}"
        self._said = 0
        self._asked: _Asked | None = None

    def add(self, point: MemoryPoint) -> None:
        """Does not wait: a training step must not become slower."""
        asked = _process()
        if asked is not self._asked:
            self._asked, self._said = asked, 0
        asked.say(self._ident, point, self._costs)
        self._said += 1

    def forecast(self) -> dict[str, Any]:
        """As JSON can hold it: `etaSeconds` is seconds, "never" or "unknown"."""
        if self._asked is None:
            return _unknown("Nothing has been read yet.")
        answer = self._asked.wait(self._ident, self._said)
        if answer is None:
            return _unknown(self._asked.trouble or "The command plimsoll has not answered yet.")
        return {**answer, "source": "estimated"}


def _unknown(reason: str) -> dict[str, Any]:
    unknown = "unknown"
    return {
        "risk": unknown,
        "probability": unknown,
        "etaSeconds": unknown,
        "lowSeconds": unknown,
        "highSeconds": unknown,
        "confidence": 0.0,
        "bytesPerSecond": unknown,
        "reason": reason,
        "recommendations": [],
        "provenance": "estimated",
        "source": "estimated",
    }
