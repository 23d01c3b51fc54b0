"""`plimsoll.debugger()`: watches memory inside a program, warns, finds what it keeps, and reports it all."""

from __future__ import annotations

import gc
import json
import logging
import math
import sys
import threading
import time
from typing import Any, Callable, Protocol

from ..arguments import function, number, share, truth
from ..forecasting.forecaster import Forecaster, MemoryPoint
from ..forecasting.risk import RISKS
from ..leaks.census import Census, take_census
from ..leaks.kept import kept
from ..leaks.tracker import LeakTracker
from ..memory.device_name import device_of
from ..memory.gauge import CudaGauge, HostGauge, gauge_of
from .advice import fragmentation, recommendations, warning_advice

log = logging.getLogger("plimsoll")

# Looks at all objects while it runs: at least so far apart, and so that they take at most 1 % of the time.
LOOK_SECONDS = 5.0
LOOK_SHARE = 0.01
# The first and the last looks tell what was kept, those between that it grew; more would tell no more.
LOOKS_KEPT = 8


# Names that programs of an earlier tool call; they stay for those programs alone.


class _Debugger(Protocol):
    def start(self) -> Any: ...
    def stop(self) -> None: ...
    def report(self) -> dict[str, Any]: ...
    def write_report(self, path: str) -> None: ...


class EarlierNames:
    """`start`, `stop`, `report` and `write_report` of a debugger, as they were called before."""

    def start_monitoring(self: _Debugger) -> Any:
        return self.start()

    def stop_monitoring(self: _Debugger) -> None:
        self.stop()

    def get_status_report(self: _Debugger) -> dict[str, Any]:
        report = self.report()
        used = report["summary"]["usedPercent"]
        report["summary"]["overallUtilizationPercent"] = used
        return report

    def generate_report(self: _Debugger, path: str) -> None:
        self.write_report(path)


# One device while it is watched: its samples, its forecast, and whether to warn.

# The rules of alerts in src/watch/alerts: use must fall so far below its threshold,
# a warning must be away so long before it counts as cleared, and is repeated at most so often.
HYSTERESIS = 0.05
CLEAR_AFTER_SECONDS = 10.0
REPEAT_SECONDS = 60.0
CRITICAL_SHARE = 0.95
SEVERITIES = ("none", "high", "critical")


class WatchedDevice:
    def __init__(self, gauge: Any, threshold: float) -> None:
        self.gauge = gauge
        self._threshold = threshold
        self._forecaster = Forecaster()
        self._share = 0.0
        self._count = 0
        self._sum = 0.0
        self._highest = 0.0
        self._raised = "none"
        self._raised_at = {"high": -math.inf, "critical": -math.inf}
        self._absent_since: float | None = None

    def sample(self, now: float) -> dict[str, Any] | None:
        """One reading; a warning when it is time for one, else None."""
        self._share = self.gauge.used_share()
        self._forecaster.add(MemoryPoint(now, *self.gauge.memory_point()))
        percent = 100 * self._share
        self._count += 1
        self._sum += percent
        self._highest = max(self._highest, percent)
        severity = self._severity()
        if not self._is_news(severity, now):
            return None
        forecast = self.forecast()
        # That a line was passed is measured; the forecast may expect less, or be unknown yet.
        if RISKS.index(severity) > _rank(forecast["risk"]):
            line = CRITICAL_SHARE if severity == "critical" else self._threshold
            why = f"{percent:.1f} % of the memory is used; the line is at {100 * line:g} %."
            passed = {"risk": severity, "confidence": 1.0, "reason": why, "source": "measured"}
            forecast = {**forecast, **passed}
        return {"device": self.gauge.device, "usedPercent": percent, **forecast}

    @property
    def is_short(self) -> bool:
        """Whether memory is short now, or soon will be."""
        return self._severity() != "none"

    def forecast(self) -> dict[str, Any]:
        """When memory will be full: the rules of `plimsoll oom`, on what this process sees."""
        return self._forecaster.forecast()

    def _severity(self) -> str:
        risk = _rank(self._forecaster.forecast()["risk"])
        if self._share >= CRITICAL_SHARE or risk >= RISKS.index("critical"):
            return "critical"
        if self._share >= self._threshold or risk >= RISKS.index("high"):
            return "high"
        return "none"

    def _is_news(self, severity: str, now: float) -> bool:
        if severity == "none":
            self._clear(now)
            return False
        self._absent_since = None
        if SEVERITIES.index(severity) <= SEVERITIES.index(self._raised):
            return False
        if now - self._raised_at[severity] < REPEAT_SECONDS:
            return False
        self._raised = severity
        self._raised_at[severity] = now
        return True

    def _clear(self, now: float) -> None:
        if self._share >= self._threshold - HYSTERESIS:
            self._absent_since = None
        elif self._absent_since is None:
            self._absent_since = now
        elif now - self._absent_since >= CLEAR_AFTER_SECONDS:
            self._raised = "none"

    def statistics(self) -> dict[str, Any]:
        return {
            "avgUtilization": self._sum / self._count if self._count else "unknown",
            "maxUtilization": self._highest if self._count else "unknown",
            "samplesCount": self._count,
        }


def _rank(risk: str) -> int:
    return 0 if risk == "unknown" else RISKS.index(risk)


def gauges_here(device: Any, known: dict[str, Any]) -> list[Any]:
    """The device that was asked for; else the host and every card that this process uses.

    A card that it does not use is left alone: asking the driver would open a context there, which takes
    hundreds of megabytes.
    """
    if device is not None:
        return [known.setdefault("asked", gauge_of(device=device))]
    found = [known.setdefault("cpu", HostGauge())]
    cards = [known.setdefault(f"cuda:{index}", CudaGauge(index)) for index in _used_cards()]
    return [*found, *cards]


def _used_cards() -> list[int]:
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return []
    current = cuda.current_device()
    return [
        index
        for index in range(cuda.device_count())
        if index == current or cuda.memory_reserved(index) > 0
    ]


class Debugger(EarlierNames):
    """Samples memory from a thread: `start`, `stop`, `report`."""

    def __init__(
        self,
        interval: float = 0.1,
        threshold: float = 0.85,
        on_warning: Callable[[dict[str, Any]], Any] | None = None,
        device: str | None = None,
        python: bool = False,
        top: int = 10,
        clock: Callable[[], float] = time.monotonic,
        gauges: Callable[[], list[Any]] | None = None,
    ) -> None:
        self._interval = number("interval", interval, 0.001)
        self._threshold = share("threshold", threshold)
        self._on_warning = function("on_warning", on_warning)
        if device is not None:
            device_of(device)
        known: dict[str, Any] = {}
        self._gauges = gauges or (lambda: gauges_here(device, known))
        self._clock = clock
        self._devices: dict[str, WatchedDevice] = {}
        self._callback_errors = 0
        self._last_error = ""
        self.leaks = LeakTracker(truth("python", python), top)
        self._first: Census | None = None
        self._last: Census | None = None
        self._between: list[Census] = []
        self._python: list[dict[str, Any]] = []
        self._next_look = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> Debugger:
        """From here on: what is there now is not what the program keeps."""
        if self._thread is None:
            gc.collect()
            self._first, self._last, self._between = self._look(), None, []
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="plimsoll-debugger", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """Ends the samples, and looks at what was kept since the start."""
        if self._thread is None:
            return
        self._stop.set()
        # A callback may stop the monitoring: a thread does not wait for itself.
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        self._thread = None
        # Cycles that were not collected yet are not kept by anything.
        gc.collect()
        self._last = self._look()
        self._python = self.leaks.python_growth()
        self.leaks.close()

    def __enter__(self) -> Debugger:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def sample(self) -> None:
        """One look at each device; the thread does it at each interval."""
        now = self._clock()
        for device in self._watched():
            warning = device.sample(now)
            if warning is not None:
                self._warn({**warning, "recommendations": warning_advice(warning)})

    def forecast(self) -> dict[str, dict[str, Any]]:
        """Of each device, when its memory will be full, by the rules of `plimsoll oom`."""
        return {device.gauge.device: device.forecast() for device in self._watched()}

    def report(self) -> dict[str, Any]:
        """What was seen, as JSON can hold it; while it runs, what is seen now."""
        devices = {device.gauge.device: self._device_report(device) for device in self._watched()}
        leaks = self._leak_report()
        usages = [device["currentUsage"] for device in devices.values()]
        total = sum(usage["totalBytes"] for usage in usages)
        used = sum(usage["totalBytes"] - usage["freeBytes"] for usage in usages)
        return {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "devices": devices,
            "summary": {
                "totalDevices": len(devices),
                "totalBytes": total,
                "usedPercent": 100 * used / total if total else 0.0,
            },
            "leaks": leaks,
            "callbackErrors": {"count": self._callback_errors, "last": self._last_error},
            "recommendations": recommendations(devices, leaks, self._threshold),
            "source": "measured",
        }

    def write_report(self, path: str) -> None:
        """The report, as a JSON file."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.report(), file, indent=2)

    def _watched(self) -> list[WatchedDevice]:
        for gauge in self._gauges():
            if gauge.device not in self._devices:
                self._devices[gauge.device] = WatchedDevice(gauge, self._threshold)
        return list(self._devices.values())

    def _device_report(self, device: WatchedDevice) -> dict[str, Any]:
        figures = device.gauge.figures()
        used = figures["totalBytes"] - figures["freeBytes"]
        percent = 100 * used / figures["totalBytes"] if figures["totalBytes"] else 0.0
        return {
            "currentUsage": {**figures, "usedPercent": percent},
            "statistics": device.statistics(),
            "forecast": device.forecast(),
            "fragmentation": fragmentation(figures),
        }

    def _leak_report(self) -> dict[str, Any]:
        """Kept since the start, beside what `leaks.check()` found from step to step."""
        stepwise = self.leaks.report()
        if self._first is None:
            return {
                **stepwise,
                "confidence": 0.95 if stepwise["found"] else 0.0,
                "objects": [],
                "containers": [],
            }
        running = self._thread is not None
        since = kept(
            self._first,
            self._look() if running or self._last is None else self._last,
            self._between,
        )
        return {
            **since,
            "found": since["found"] or stepwise["found"],
            "tensors": since["tensors"] or stepwise["tensors"],
            "alive": stepwise["alive"],
            "python": stepwise["python"] if running else self._python,
            "source": "measured",
        }

    def _warn(self, warning: dict[str, Any]) -> None:
        log.warning(
            "plimsoll: %s uses %.1f %% of its memory; risk %s",
            warning["device"], warning["usedPercent"], warning["risk"],
        )  # fmt: skip
        if self._on_warning is None:
            return
        try:
            self._on_warning(warning)
        except BaseException as error:
            # Even sys.exit() in it must not end the watching in silence.
            self._callback_errors += 1
            self._last_error = f"{type(error).__name__}: {error}"
            write = log.warning if self._callback_errors == 1 else log.debug
            write(
                "plimsoll: on_warning failed with %s; monitoring continues",
                self._last_error,
                exc_info=True,
            )

    def _look(self) -> Census:
        begin = time.perf_counter()
        seen = take_census()
        took = time.perf_counter() - begin
        self._next_look = self._clock() + max(LOOK_SECONDS, took / LOOK_SHARE)
        return seen

    def _look_between(self) -> None:
        # A look holds every object for a moment, so none is taken while memory is short.
        if self._clock() < self._next_look or any(one.is_short for one in self._watched()):
            return
        self._between.append(self._look())
        if len(self._between) > LOOKS_KEPT:
            self._between = self._between[::2]

    def _run(self) -> None:
        failed = False
        while not self._stop.is_set():
            try:
                self.sample()
                self._look_between()
            except Exception as error:
                write = log.debug if failed else log.warning
                write("plimsoll: the debugger could not take a sample: %s", error)
                failed = True
            self._stop.wait(self._interval)


def debugger(
    *,
    interval: float = 0.1,
    threshold: float = 0.85,
    on_warning: Callable[[dict[str, Any]], Any] | None = None,
    device: str | None = None,
    python: bool = False,
    top: int = 10,
    clock: Callable[[], float] = time.monotonic,
    gauges: Callable[[], list[Any]] | None = None,
) -> Debugger:
    """Gathers the tools in one: samples, warnings, leaks, a report.

        debug = plimsoll.debugger(on_warning=print)
        debug.start()
        train()
        debug.stop()
        print(debug.report())

    It watches the host and each card that this process uses; `device="cuda:1"` watches one. `with` does
    the same as start and stop. It takes a sample every `interval` seconds, and warns above `threshold`
    (a share of the device's memory) and when memory is expected to run out within a minute. `python`
    finds the lines that allocate Python objects, too; `top` of them are shown.
    """
    return Debugger(
        interval=interval,
        threshold=threshold,
        on_warning=on_warning,
        device=device,
        python=python,
        top=top,
        clock=clock,
        gauges=gauges,
    )
