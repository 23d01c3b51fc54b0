"""One device while it is watched: its samples, its forecast, and whether to warn."""

from __future__ import annotations

import math
import sys
from typing import Any

from ..forecasting.forecaster import Forecaster, MemoryPoint
from ..forecasting.risk import RISKS
from ..memory.gauge import CudaGauge, HostGauge, gauge_of

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
