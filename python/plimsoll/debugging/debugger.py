"""`plimsoll.debugger()`: watches memory inside a program, warns, finds what it keeps, and reports it all."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import sys
import threading
import time
from typing import Any, Callable, Protocol

from ..arguments import (
    BadType,
    function,
    mapping,
    needed_function,
    path,
    seconds,
    share,
    shown,
    truth,
)
from ..failure import Failure
from ..leaks.kept import kept
from ..leaks.lines import GrowingLines
from ..leaks.tracker import Census, LeakTracker, take_census
from ..memory.gauge import CudaGauge, MachineGauge, device_of, gauge_of
from .alerts import (
    LEAK,
    WARNING,
    Alerts,
    Condition,
    Delivery,
    WatchedDevice,
    thresholds_above,
    thresholds_of,
)

# What to do about what was seen, the most pressing first.


def warning_advice(forecast: dict[str, Any]) -> list[str]:
    """For a warning: what helps now."""
    if forecast["risk"] == "critical":
        return [
            "Memory is about to run out: use a smaller batch, or run the step through plimsoll.recovering.",
            "Save a checkpoint now.",
        ]
    return [
        "Release unused memory: plimsoll.clean_up().",
        "Use a smaller batch with more gradient accumulation, or plimsoll.optimize.",
    ]


def recommendations(
    devices: dict[str, dict[str, Any]], leaks: dict[str, Any], threshold: float
) -> list[str]:
    """For a report: what the devices and the leaks ask for."""
    forecasts = [device["forecast"] for device in devices.values()]
    shares = [device["currentUsage"]["usedPercent"] / 100 for device in devices.values()]
    said = (
        warning_advice({"risk": "critical"})[:1]
        if any(one["risk"] == "critical" for one in forecasts)
        else []
    )
    said += leak_advice(leaks)
    if any(share > threshold for share in shares):
        said.append(
            "Call plimsoll.optimize on the model: checkpointing and autocast need the fewest changes."
        )
    if any(device["fragmentation"] > 0.3 for device in devices.values()):
        said.append(
            "Much memory is reserved but unused: set PYTORCH_ALLOC_CONF=expandable_segments:True."
        )
    if not said and all(share < 0.5 for share in shares):
        said.append("More than half is free: a larger batch would fit.")
    return said


def leak_advice(leaks: dict[str, Any]) -> list[str]:
    """One line for the largest of each kind."""
    tensors = leaks["tensors"]
    return [
        *(
            f"{one['count']} tensors of shape {one['shape']} are still referenced: remove what references them."
            for one in tensors[:1]
        ),
        *(
            f"{one['withGraph']} tensors of shape {one['shape']} hold their graph: "
            "keep loss.item(), or detach()."
            for one in [one for one in tensors if one.get("withGraph")][:1]
        ),
        *(
            f"{one['where']} grew by {one['count']} elements ({one['of']}): clear it, or limit its size."
            for one in leaks.get("containers", [])[:1]
        ),
        *(
            f"{one['count']} more objects of {one['type']} are alive than at the start: "
            "remove what references them."
            for one in leaks.get("objects", [])[:1]
        ),
    ]


def fragmentation(figures: dict[str, Any]) -> float:
    """The share of what the allocator reserved that no tensor uses."""
    reserved = figures["reservedBytes"]
    return (reserved - figures["allocatedBytes"]) / reserved if reserved else 0.0


log = logging.getLogger("plimsoll")

# Looks at all objects while it runs: at least so far apart, and so that they take at most 1 % of the time.
LOOK_SECONDS = 1.0
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


def write_json(file: str, document: Callable[[], dict[str, Any]]) -> None:
    """Makes a document, and writes it whole or not at all."""
    place = path("path", file, "report.json")
    beside = f"{place}.{os.getpid()}.tmp"
    made = document()
    try:
        with open(beside, "w", encoding="utf-8") as opened:
            json.dump(made, opened, indent=2)
        os.replace(beside, place)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        fact = f"{place} cannot be written: {error.strerror or error}"
        raise Failure(
            "cannot-write", fact, "name a file in a folder that can be written"
        ) from error


def gauges_here(device: Any, known: dict[str, Any]) -> list[Any]:
    """The device that was asked for; else the host and every card that this process uses.

    A card that it does not use is left alone: asking the driver would open a context there, which takes
    hundreds of megabytes.
    """
    if device is not None and device_of(device).type != "cpu":
        return [known.setdefault("asked", gauge_of(device=device))]
    found = [known.setdefault("cpu", MachineGauge())]
    if device is not None:
        return found
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
        alerts: dict[str, Any] | None = None,
    ) -> None:
        self._interval = seconds("interval", interval, 0.001)
        self._threshold = share("threshold", threshold)
        rules = mapping("alerts", alerts, '{"deliver": {"log": False}}')
        lines = thresholds_above(self._threshold) if alerts is None else thresholds_of(rules)
        self._alerts = Alerts(lines, rising_only=alerts is None)
        deliver = rules.get("deliver", {})
        self._delivery = Delivery(deliver)
        self._level = logging.DEBUG if deliver.get("log") is False else logging.WARNING
        self._callbacks: list[Callable[[dict[str, Any]], Any]] = []
        given = function("on_warning", on_warning)
        if given is not None:
            self.add_callback(given)
        if device is not None:
            device_of(device)
        known: dict[str, Any] = {}
        self._gauges = function("gauges", gauges) or (lambda: gauges_here(device, known))
        self._clock = needed_function("clock", clock)
        self._devices: dict[str, WatchedDevice] = {}
        self._callback_errors = 0
        self._last_error = ""
        self.leaks = LeakTracker(top=top)
        self._lines = GrowingLines() if truth("python", python) else None
        self._top = top
        self._began = 0.0
        self._first: Census | None = None
        self._last: Census | None = None
        self._between: list[Census] = []
        self._next_look = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def add_callback(self, callback: Callable[[dict[str, Any]], Any]) -> None:
        """Another function that is called with each warning, from now on."""
        if not callable(callback):
            fact = f"callback must be a function, not {shown(callback)}"
            raise BadType(fact, "pass a function that takes one warning")
        self._callbacks.append(callback)

    def start(self) -> Debugger:
        """From here on: what is there now is not what the program keeps."""
        if self._thread is None:
            gc.collect()
            self._began = self._clock()
            self._first, self._last, self._between = self._look(), None, []
            self._stop.clear()
            self._delivery.start()
            log.debug("plimsoll: debugger: started, a sample each %g s", self._interval)
            self._thread = threading.Thread(target=self._run, name="plimsoll-debugger", daemon=True)
            self._thread.start()
            if self._lines is not None:
                self._lines.start()
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
        if self._lines is not None:
            self._lines.stop()
        # Cycles that were not collected yet are not kept by anything.
        gc.collect()
        self._last = self._look()
        self._tell_leak(self._kept(self._last), sure=True)
        self._delivery.stop()
        log.debug("plimsoll: debugger: stopped after %.1f s", self._clock() - self._began)

    def __enter__(self) -> Debugger:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def sample(self) -> None:
        """One look at each device; the thread does it at each interval."""
        now = self._clock()
        for device in self._watched():
            warnings = device.sample(now)
            log.debug(
                "plimsoll: debugger: %s uses %.1f %% of its memory; risk %s",
                device.gauge.device, device.used_percent, device.forecast()["risk"],
            )  # fmt: skip
            for warning in warnings:
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
        """The report as a JSON file, whole or not at all."""
        write_json(path, self.report)

    def _watched(self) -> list[WatchedDevice]:
        for gauge in self._gauges():
            if gauge.device not in self._devices:
                self._devices[gauge.device] = WatchedDevice(gauge, self._alerts)
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
                "python": [],
                "objects": [],
                "containers": [],
            }
        running = self._thread is not None
        since = self._kept(self._look() if running or self._last is None else self._last)
        return {
            **since,
            "found": since["found"] or stepwise["found"],
            "tensors": since["tensors"] or stepwise["tensors"],
            "alive": stepwise["alive"],
            "python": [] if self._lines is None else self._lines.rows(self._top),
            "source": "measured",
        }

    def _kept(self, last: Census) -> dict[str, Any]:
        """More at a look than at the start."""
        between = [one for one in self._between if one is not last]
        return kept(self._first or last, last, between)

    def _tell_leak(self, leaks: dict[str, Any], sure: bool) -> None:
        """Raises the alert of a leak. While the program runs, growth must be seen in two looks: one may be a load."""
        lines = self._alerts.thresholds
        now = self._clock()
        tensors = leaks["tensors"]
        grown = sum(one["bytes"] for one in tensors)
        rate = grown / max(now - self._began, 0.001)
        large = grown >= lines["leakGrownBytes"] and rate >= lines["leakBytesPerSecond"]
        looks = max((one["looks"] for one in [*tensors, *leaks["objects"]]), default=0)
        # Objects have no size that is known: it is not held against them.
        present = (
            leaks["found"]
            and (large or not tensors)
            and leaks["confidence"] >= lines["leakConfidence"]
            and (sure or looks > 1)
        )
        name = tensors[0]["device"] if tensors else "cpu"
        if not self._alerts.enabled(LEAK):
            return
        for device in self._watched():
            here = device.gauge.device
            standing = "present" if present and here == name else "absent"
            for raised in self._alerts.update(here, [Condition(LEAK, standing, WARNING)], now):
                self._warn(
                    {
                        **device.warning(LEAK, raised.severity),
                        "confidence": leaks["confidence"],
                        "reason": _leak_words(leaks, grown, rate),
                        "grownBytes": grown if tensors else "unknown",
                        "bytesPerSecond": rate if tensors else "unknown",
                        "recommendations": leak_advice(leaks),
                        "source": "measured",
                    }
                )

    def _warn(self, warning: dict[str, Any]) -> None:
        log.log(
            self._level,
            "plimsoll: %s: %s uses %.1f %% of its memory; risk %s",
            warning["kind"], warning["device"], warning["usedPercent"], warning["risk"],
        )  # fmt: skip
        self._delivery.send(warning)
        for callback in list(self._callbacks):
            try:
                callback(warning)
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
        log.debug(
            "plimsoll: debugger: looked at %d objects, %d of them tensors, in %.3f s",
            sum(seen.objects.values()), sum(seen.tensors.values()), took,
        )  # fmt: skip
        return seen

    def _look_between(self) -> None:
        # A look holds every object for a moment, so none is taken while memory is short.
        if self._clock() < self._next_look or any(one.is_short for one in self._watched()):
            return
        begin = time.perf_counter()
        self._between.append(self._look())
        self._tell_leak(self._kept(self._between[-1]), sure=False)
        took = time.perf_counter() - begin
        self._next_look = self._clock() + max(LOOK_SECONDS, took / LOOK_SHARE)
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


def _leak_words(leaks: dict[str, Any], grown: int, rate: float) -> str:
    if not leaks["tensors"]:
        return f"{' '.join(leak_advice(leaks)[:1]) or 'Objects are kept.'}"
    return f"Tensors of {grown / 2**20:.1f} MiB were kept since the start, {rate / 2**20:.2f} MiB a second."


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
    (a share of the device's memory), when memory is expected to run out within a minute, and of a leak; `kind` names
    the alert. `python` finds the lines of Python that grow, too, by short looks; `top` of them are shown.
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
