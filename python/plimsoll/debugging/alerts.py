"""When to warn, and of what: the kinds, thresholds and rules of alerts of the command (docs/alerts.md)."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import queue
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..failure import Failure
from ..forecasting.forecaster import RISKS, Forecaster, MemoryPoint

# Where warnings go besides callbacks: a file, a command, a webhook, as `alerts.deliver` says (docs/alerts.md).

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


# The defaults of src/watch/alerts/alert-thresholds.ts.
THRESHOLDS: dict[str, Any] = {
    "memoryWarningPercent": 75,
    "memoryCriticalPercent": 90,
    "gpuWarningPercent": 80,
    "gpuCriticalPercent": 95,
    "hysteresisPercent": 5,
    "leakBytesPerSecond": 64 * 1024,
    "leakGrownBytes": 16 * 2**20,
    "leakConfidence": 0.5,
    "riskWarning": "high",
    "riskCritical": "critical",
    "clearAfterSeconds": 10,
    "repeatSeconds": 60,
    "missedEndCost": 9,
    "falseAlarmCost": 1,
}
WARNING, CRITICAL = "warning", "critical"
RISK, LEAK = "out-of-memory-risk", "leak"
# What has no margin of its own is cleared only after it was away for a while.
_WITHOUT_MARGIN = (RISK, LEAK)


def thresholds_of(alerts: Mapping[str, Any]) -> dict[str, Any]:
    """The section `alerts` of a configuration, the rest as usual; a warning line above its critical one is refused."""
    found = {**THRESHOLDS, **{key: alerts[key] for key in THRESHOLDS if key in alerts}}
    found["enabled"] = dict(alerts.get("enabled", {}))
    for of in ("memory", "gpu"):
        low, high = f"{of}WarningPercent", f"{of}CriticalPercent"
        if found[low] > found[high]:
            fact = f"alerts.{low} ({found[low]:g}) is above alerts.{high} ({found[high]:g})"
            step = f"set {low} to at most {found[high]:g}, or raise {high}"
            raise Failure("bad-config-value", fact, step, f"alerts.{low}")
    low, high = found["riskWarning"], found["riskCritical"]
    if RISKS.index(low) > RISKS.index(high):
        fact = f"alerts.riskWarning ({low}) is above alerts.riskCritical ({high})"
        step = f"set riskWarning to {high} or less, or raise riskCritical"
        raise Failure("bad-config-value", fact, step, "alerts.riskWarning")
    return found


def thresholds_above(share: float) -> dict[str, Any]:
    """One line for all devices; critical stays at 95 %, or at that line where it is higher."""
    critical = max(100 * share, THRESHOLDS["gpuCriticalPercent"])
    return {
        **THRESHOLDS,
        "enabled": {},
        "memoryWarningPercent": 100 * share,
        "gpuWarningPercent": 100 * share,
        "memoryCriticalPercent": critical,
        "gpuCriticalPercent": critical,
    }


class Condition(NamedTuple):
    """How one thing to warn of stands: present, near (neither raised nor cleared) or absent."""

    kind: str
    standing: str
    severity: str


class _Entry:
    def __init__(self) -> None:
        self.severity: str | None = None
        self.raised_at = {WARNING: -math.inf, CRITICAL: -math.inf}
        self.absent_since: float | None = None


class Alerts:
    """For each device and kind: raised once, then silent until it is cleared or becomes critical.

    With `rising_only` a device is told of again only when it gets worse, whatever the kind.
    """

    def __init__(self, thresholds: Mapping[str, Any], rising_only: bool) -> None:
        self.thresholds = thresholds
        self._rising_only = rising_only
        self._entries: dict[tuple[str, str], _Entry] = {}

    def enabled(self, kind: str) -> bool:
        return bool(self.thresholds["enabled"].get(kind, True))

    def update(self, device: str, conditions: Iterable[Condition], now: float) -> list[Condition]:
        """Those that are new at this time."""
        raised = []
        by_weight = sorted(conditions, key=lambda one: one.severity != CRITICAL)
        for condition in by_weight if self._rising_only else conditions:
            worst = self._worst(device) if self._rising_only and condition.kind != LEAK else None
            is_new = self._is_raised(device, condition, now)
            if is_new and _rank(condition.severity) > _rank(worst):
                raised.append(condition)
        return raised

    def _worst(self, device: str) -> str | None:
        found = [
            one.severity
            for (name, kind), one in self._entries.items()
            if name == device and kind != LEAK
        ]
        return max(found, key=_rank, default=None)

    def _is_raised(self, device: str, condition: Condition, now: float) -> bool:
        entry = self._entries.setdefault((device, condition.kind), _Entry())
        if condition.standing == "absent":
            entry.absent_since = now if entry.absent_since is None else entry.absent_since
            wait = self.thresholds["clearAfterSeconds"] if condition.kind in _WITHOUT_MARGIN else 0
            if now - entry.absent_since >= wait:
                entry.severity = None
            return False
        entry.absent_since = None
        severity = condition.severity
        if condition.standing != "present" or _rank(severity) <= _rank(entry.severity):
            return False
        if now - entry.raised_at[severity] < self.thresholds["repeatSeconds"]:
            return False
        entry.severity = severity
        entry.raised_at[severity] = now
        return True


def _rank(severity: str | None) -> int:
    return (None, WARNING, CRITICAL).index(severity)


class WatchedDevice:
    """One device while it is watched: its samples, its forecast, and its alerts."""

    def __init__(self, gauge: Any, alerts: Alerts) -> None:
        self.gauge = gauge
        self._alerts = alerts
        lines = alerts.thresholds
        self._forecaster = Forecaster(lines["missedEndCost"], lines["falseAlarmCost"])
        self._share = 0.0
        self._count = 0
        self._sum = 0.0
        self._highest = 0.0

    def sample(self, now: float) -> list[dict[str, Any]]:
        """One reading, and the warnings that it is time for."""
        self._share = self.gauge.used_share()
        self._forecaster.add(MemoryPoint(now, *self.gauge.memory_point()))
        percent = 100 * self._share
        self._count += 1
        self._sum += percent
        self._highest = max(self._highest, percent)
        raised = self._alerts.update(self.gauge.device, self._conditions(), now)
        return [self.warning(one.kind, one.severity) for one in raised]

    @property
    def used_percent(self) -> float:
        return 100 * self._share

    @property
    def is_short(self) -> bool:
        """Whether memory is short now, or soon will be."""
        return any(one.standing == "present" for one in self._all_conditions())

    def forecast(self) -> dict[str, Any]:
        """When memory will be full: the rules of `plimsoll oom`, on what this process sees."""
        return self._forecaster.forecast()

    def warning(self, kind: str, severity: str) -> dict[str, Any]:
        forecast = self.forecast()
        percent = 100 * self._share
        risk = "critical" if severity == CRITICAL else "high"
        # That a line was passed is measured; the forecast may expect less, or be unknown yet.
        if kind not in _WITHOUT_MARGIN and RISKS.index(risk) > _risk_rank(forecast["risk"]):
            line = self._alerts.thresholds[_line_of(kind)]
            why = f"{percent:.1f} % of the memory is used; the line is at {line:g} %."
            passed = {"risk": risk, "confidence": 1.0, "reason": why, "source": "measured"}
            forecast = {**forecast, **passed}
        return {
            "kind": kind,
            "severity": severity,
            "device": self.gauge.device,
            "usedPercent": percent,
            **forecast,
        }

    def statistics(self) -> dict[str, Any]:
        return {
            "avgUtilization": self._sum / self._count if self._count else "unknown",
            "maxUtilization": self._highest if self._count else "unknown",
            "samplesCount": self._count,
        }

    def _conditions(self) -> list[Condition]:
        return [one for one in self._all_conditions() if self._alerts.enabled(one.kind)]

    def _all_conditions(self) -> list[Condition]:
        lines = self._alerts.thresholds
        of = "gpu" if self.gauge.device.startswith("cuda") else "memory"
        found = []
        for severity in (WARNING, CRITICAL):
            kind = f"{of}-{severity}"
            line = lines[_line_of(kind)] / 100
            near = "near" if self._share >= line - lines["hysteresisPercent"] / 100 else "absent"
            found.append(Condition(kind, "present" if self._share >= line else near, severity))
        risk = _risk_rank(self._forecaster.forecast()["risk"])
        critical = risk >= RISKS.index(lines["riskCritical"])
        present = critical or risk >= RISKS.index(lines["riskWarning"])
        standing = "present" if present else "absent"
        found.append(Condition(RISK, standing, CRITICAL if critical else WARNING))
        return found


def _line_of(kind: str) -> str:
    """
    >>> _line_of("memory-critical")
    'memoryCriticalPercent'
    """
    of, severity = kind.split("-")
    return f"{of}{severity.title()}Percent"


def _risk_rank(risk: str) -> int:
    return 0 if risk == "unknown" else RISKS.index(risk)
