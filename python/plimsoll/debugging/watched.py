"""One device while it is watched: its samples, its forecast, and whether to warn."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

from ..memory.gauge import CudaGauge, HostGauge, gauge_of

# At the default interval this is the last minute and a half; some 100 kB.
SAMPLES_KEPT = 1000
LEAST_SAMPLES = 20
# A warning ends when the calm has lasted so long: a value at the line must not warn at every sample.
CALM_SECONDS = 3.0
RISKS = ("low", "high", "critical")


class WatchedDevice:
    def __init__(self, gauge: Any, threshold: float) -> None:
        self.gauge = gauge
        self._threshold = threshold
        self._history: deque[tuple[float, float]] = deque(maxlen=SAMPLES_KEPT)
        self._count = 0
        self._sum = 0.0
        self._highest = 0.0
        self._told = "low"
        self._calm_since: float | None = None

    def sample(self, now: float) -> dict[str, Any] | None:
        """One reading; the forecast when its risk rose, and None as long as it did not."""
        share = 100 * self.gauge.used_share()
        self._history.append((now, share))
        self._count += 1
        self._sum += share
        self._highest = max(self._highest, share)
        forecast = self.forecast()
        risk = forecast["risk"]
        if RISKS.index(risk) > RISKS.index(self._told):
            self._told, self._calm_since = risk, None
            return {"device": self.gauge.device, "utilizationPercent": share, **forecast}
        if risk == self._told:
            self._calm_since = None
        elif self._calm_since is None:
            self._calm_since = now
        elif now - self._calm_since >= CALM_SECONDS:
            self._told, self._calm_since = risk, None
        return None

    def forecast(self) -> dict[str, Any]:
        """When memory will be full, by the median slope of the last samples; `plimsoll oom` knows more."""
        points = list(self._history)
        share = points[-1][1] if points else 0.0
        slopes = _slopes(points)
        slope = slopes[len(slopes) // 2] if slopes else 0.0
        eta: Any = "unknown" if not slopes else (100 - share) / slope if slope > 0.01 else "none"
        soon = eta if isinstance(eta, float) else float("inf")
        full = share >= self._threshold
        risk = "critical" if soon < 15 or share >= 95 else "high" if soon < 60 or full else "low"
        # That a line was passed is measured; what will come is worth as much as the slopes agree.
        passed = share >= 95 or (full and risk == "high")
        confidence = 1.0 if passed else _agreement(points, slopes)
        return {"risk": risk, "etaSeconds": eta, "confidence": confidence, "source": "estimated"}

    def statistics(self) -> dict[str, Any]:
        return {
            "avgUtilization": self._sum / self._count if self._count else "unknown",
            "maxUtilization": self._highest if self._count else "unknown",
            "samplesCount": self._count,
        }


def _slopes(points: list[tuple[float, float]]) -> list[float]:
    """Percent a second between the older half of the samples and the newer, sorted."""
    if len(points) < LEAST_SAMPLES:
        return []
    half = len(points) // 2
    return sorted(
        (b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(points, points[half:]) if b[0] > a[0]
    )


def _agreement(points: list[tuple[float, float]], slopes: list[float]) -> float:
    """0 to 1: how little the middle half of the slopes spreads, and whether they were seen for 10 s."""
    if not slopes:
        return 0.0
    low, middle, high = (slopes[len(slopes) * part // 4] for part in (1, 2, 3))
    spread = (high - low) / max(abs(middle), 0.01)
    seen = min(1.0, (points[-1][0] - points[0][0]) / 10)
    return round(seen / (1 + spread), 2)


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
