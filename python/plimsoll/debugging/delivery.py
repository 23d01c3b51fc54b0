"""Where warnings go besides callbacks: a file, a command, a webhook, as `alerts.deliver` says (docs/alerts.md)."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger("plimsoll")

SECONDS = 10.0
ATTEMPTS = 3
# More than these wait for a slow command or webhook only where something is wrong with it.
WAITING = 100
# At the end of a session: for what was raised last.
LAST_SECONDS = 12.0


class Delivery:
    """Sends each warning from a thread of its own, in order, so that monitoring never waits for it."""

    def __init__(self, deliver: Mapping[str, Any]) -> None:
        path = deliver.get("log")
        self._path = path if isinstance(path, str) else None
        self._command = deliver.get("command")
        self._webhook = deliver.get("webhook")
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._thread is None and (self._path or self._command or self._webhook):
            self._thread = threading.Thread(target=self._run, name="plimsoll-alerts", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Waits for what was raised last, but not for ever."""
        if self._thread is not None:
            self._put(None)
            self._thread.join(LAST_SECONDS)
            self._thread = None

    def send(self, warning: dict[str, Any]) -> None:
        if self._thread is not None:
            self._put(alert_of(warning, time.time()))

    def _put(self, alert: dict[str, Any] | None) -> None:
        try:
            self._queue.put_nowait(alert)
        except queue.Full:
            with contextlib.suppress(queue.Empty):
                self._queue.get_nowait()
            log.warning("plimsoll: %d alerts wait; the oldest was dropped", WAITING)
            self._queue.put(alert)

    def _run(self) -> None:
        while (alert := self._queue.get()) is not None:
            ways: tuple[tuple[Any, Any], ...] = (
                (self._path, to_file),
                (self._command, to_command),
                (self._webhook, to_webhook),
            )
            for target, way in ways:
                try:
                    if target:
                        way(target, alert)
                except Exception as error:
                    log.warning("plimsoll: an alert could not be delivered (%s): %s", way.__name__, error)  # fmt: skip


def alert_of(warning: dict[str, Any], now: float) -> dict[str, Any]:
    """A warning in the form of the alerts of the command."""
    return {
        "kind": warning["kind"],
        "state": "raised",
        "severity": warning["severity"],
        "deviceId": "host" if warning["device"] == "cpu" else warning["device"].replace("cuda", "gpu"),
        "pid": os.getpid(),
        "epochMs": int(1000 * now),
        "message": warning["reason"],
        "recommendations": warning["recommendations"],
        "provenance": "measured",
    }  # fmt: skip


def _time_of(alert: dict[str, Any]) -> str:
    at = datetime.fromtimestamp(alert["epochMs"] / 1000, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_file(path: str, alert: dict[str, Any]) -> None:
    """A line for each; the file is opened each time, so that it may be moved away."""
    name = f"{alert['deviceId']}: {alert['message']}"
    line = f"{_time_of(alert)} [{alert['severity'].upper()}] {alert['kind']}: {name} (measured)"
    with open(path, "a", encoding="utf-8") as file:
        file.write(re.sub(r"[\x00-\x1f\x7f-\x9f]+", " ", line) + "\n")


def to_command(command: list[str], alert: dict[str, Any]) -> None:
    """The alert as JSON on stdin and in the environment; no shell is involved."""
    names = {"DEVICE": "deviceId"}
    words = ("KIND", "STATE", "SEVERITY", "DEVICE", "PID", "MESSAGE", "PROVENANCE")
    found = {f"PLIMSOLL_ALERT_{w}": str(alert[names.get(w, w.lower())]) for w in words}
    environment = {name: value.replace("\0", " ") for name, value in found.items()}
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment, "PLIMSOLL_ALERT_TIME": _time_of(alert)},
        # A group of its own, so that what it started can be ended with it.
        start_new_session=True,
    )
    try:
        child.communicate(json.dumps(alert).encode() + b"\n", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise TimeoutError(f"it took longer than {SECONDS:g} s and was killed") from None
    if child.returncode:
        raise RuntimeError(f"it exited with {child.returncode}")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected becomes a GET of some page, which would look like a success."""

    def redirect_request(self, *_: Any) -> None:
        return None


def to_webhook(address: str, alert: dict[str, Any]) -> None:
    url = urlsplit(address)
    if url.scheme not in ("http", "https") or url.username or url.password:
        raise ValueError("the webhook must be an http or https address without a user name")
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(address, json.dumps(alert).encode(), headers)
    opener = urllib.request.build_opener(_NoRedirect)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            opener.open(request, timeout=SECONDS).close()
            return
        except urllib.error.HTTPError as error:
            problem, again = f"it answered {error.code}", error.code == 429 or error.code >= 500
        except OSError as error:
            problem, again = str(error), True
        if not again or attempt == ATTEMPTS:
            # The path of a webhook is often its secret.
            raise RuntimeError(f"{url.scheme}://{url.hostname}: {problem}")
        time.sleep(2.0 ** (attempt - 1))
