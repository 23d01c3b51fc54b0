"""`plimsoll.debugger()`: watches memory inside a program, warns, finds leaks, and reports it all."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from .leaks.tracker import LeakTracker
from .memory.gauge import gauge_of

log = logging.getLogger("plimsoll")

# At the default interval this is the last minute and a half; a megabyte or so.
SAMPLES_KEPT = 1000
LEAST_SAMPLES = 20


class Debugger:
    """Samples a device from a thread. `start_monitoring`, `stop_monitoring`, `get_status_report`."""

    def __init__(
        self,
        interval: float = 0.1,
        threshold: float = 85.0,
        on_warning: Optional[Callable[[Dict[str, Any]], Any]] = None,
        device: Optional[str] = None,
        python: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.leaks = LeakTracker(python)
        self._interval, self._threshold = interval, threshold
        self._on_warning = on_warning
        self._device = device
        self._clock = clock
        self._gauge = gauge_of(device=device)
        self._history: Deque[Tuple[float, float]] = deque(maxlen=SAMPLES_KEPT)
        self._count = 0
        self._sum = 0.0
        self._highest = 0.0
        self._warned = "none"
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def start_monitoring(self) -> "Debugger":
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._run, name="plimsoll-debugger", daemon=True)
            self._thread.start()
        return self

    def stop_monitoring(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
            self._thread = None
        self.leaks.close()

    def __enter__(self) -> "Debugger":
        return self.start_monitoring()

    def __exit__(self, *_: Any) -> None:
        self.stop_monitoring()

    def sample(self) -> None:
        """One look; the thread does it at each interval."""
        share = 100 * self._gauge.used_share()
        self._history.append((self._clock(), share))
        self._count += 1
        self._sum += share
        self._highest = max(self._highest, share)
        forecast = self.forecast()
        risk = forecast["risk"]
        if risk in ("high", "critical") and risk != self._warned:
            log.warning("plimsoll: %s uses %.1f %% of its memory; risk %s", self._gauge.device, share, risk)
            if self._on_warning is not None:
                self._on_warning({"device": self._gauge.device, "utilizationPercent": share, **forecast})
        self._warned = risk

    def forecast(self) -> Dict[str, Any]:
        """When memory will be full, by the median slope of the last samples; `plimsoll oom` knows more."""
        points = list(self._history)
        share = points[-1][1] if points else 0.0
        eta: Any = "unknown"
        if len(points) >= LEAST_SAMPLES:
            half = len(points) // 2
            slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(points, points[half:]) if b[0] > a[0])
            slope = slopes[len(slopes) // 2] if slopes else 0.0
            eta = (100 - share) / slope if slope > 0.01 else "none"
        soon = eta if isinstance(eta, float) else float("inf")
        risk = "critical" if soon < 15 or share >= 95 else "high" if soon < 60 or share >= self._threshold else "low"
        return {"risk": risk, "etaSeconds": eta, "source": "estimated"}

    def get_status_report(self) -> Dict[str, Any]:
        figures = self._gauge.figures()
        used = figures["totalBytes"] - figures["freeBytes"]
        percent = 100 * used / figures["totalBytes"] if figures["totalBytes"] else 0.0
        leaks = self.leaks.report()
        forecast = self.forecast()
        return {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "devices": {
                self._gauge.device: {
                    "currentUsage": {**figures, "utilizationPercent": percent},
                    "statistics": {
                        "avgUtilization": self._sum / self._count if self._count else "unknown",
                        "maxUtilization": self._highest if self._count else "unknown",
                        "samplesCount": self._count,
                    },
                    "forecast": forecast,
                    "fragmentation": _fragmentation(figures),
                }
            },
            "summary": {
                "totalDevices": 1,
                "totalBytes": figures["totalBytes"],
                "overallUtilizationPercent": percent,
            },
            "leaks": leaks,
            "recommendations": recommendations(percent, forecast, leaks, figures, self._threshold),
            "source": "measured",
        }

    def generate_report(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.get_status_report(), file, indent=2)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.sample()
            except Exception as error:
                log.debug("plimsoll: no sample: %s", error)
            self._stop.wait(self._interval)


def recommendations(
    percent: float, forecast: Dict[str, Any], leaks: Dict[str, Any], figures: Dict[str, Any], line: float
) -> List[str]:
    """What to do about it, the most pressing first."""
    said = []
    if forecast["risk"] == "critical":
        said.append("Memory is about to run out: use a smaller batch, or run the step through plimsoll.recovering.")
    if leaks["found"]:
        first = leaks["tensors"][0]
        said.append(f"Tensors of shape {first['shape']} grow in number at every step: find who keeps them.")
    if percent > line:
        said.append("Call plimsoll.optimize on the model: checkpointing and autocast need least change.")
    if _fragmentation(figures) > 0.3:
        said.append("Much is reserved and not used: set PYTORCH_ALLOC_CONF=expandable_segments:True.")
    if percent < 50 and not said:
        said.append("More than half is free: a larger batch would fit.")
    return said


def _fragmentation(figures: Dict[str, Any]) -> float:
    """The share of what the allocator reserved that no tensor uses."""
    reserved = figures["reservedBytes"]
    return (reserved - figures["allocatedBytes"]) / reserved if reserved else 0.0


def debugger(**options: Any) -> Debugger:
    """Gathers the tools in one: samples, warnings, leaks, a report.

        with plimsoll.debugger(on_warning=print) as debug:
            train()
        print(debug.get_status_report())
    """
    return Debugger(**options)
