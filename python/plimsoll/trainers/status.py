"""What a notebook shows of recovering steps: memory against the load line, its forecast, and what happened."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from html import escape
from typing import Any

from ..arguments import size_words
from ..forecasting.forecaster import Forecaster, MemoryPoint
from ..memory.gauge import gauge_of
from ..memory.load_line import LOAD_LINE

log = logging.getLogger("plimsoll")

EVENTS_SHOWN = 8
# Between looks at memory for the forecast: a look takes tens of microseconds.
LOOK_SECONDS = 0.5

# Of trainings that are over, too: a notebook is looked at afterwards.
TRAININGS_KEPT = 4

# What it is called that was recovered, and its events.
_happened: deque[tuple[str, deque[dict[str, Any]]]] = deque(maxlen=TRAININGS_KEPT)


class Outlook:
    """The forecast of the training that was followed last."""

    def __init__(self) -> None:
        self.forecaster = Forecaster()
        self._looked = -math.inf

    def look(self, gauge: Any) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._looked = now
            try:
                self.forecaster.add(MemoryPoint(now, *gauge.memory_point()))
            except (OSError, RuntimeError) as error:
                # A card that cannot be read now may be readable later; training goes on.
                log.debug("plimsoll: no forecast: %s", error)


_outlook = Outlook()


def follow(fitting: Any) -> None:
    """Its events and its forecast are shown from now on."""
    global _outlook
    _outlook = Outlook()
    _happened.append(("step", fitting.decider.events))


def follow_evaluation(fitting: Any) -> None:
    """Its events are shown from now on; the forecast stays that of the training."""
    happened = fitting.decider.events
    if any(events is happened for _, events in _happened):
        return
    # Each evaluation is followed by itself: those without an event must not take the place of a training's.
    for quiet in [one for one in _happened if one[0] != "step" and not one[1]]:
        _happened.remove(quiet)
    _happened.append(("evaluation, batch", happened))


def look(gauge: Any) -> None:
    """After a batch."""
    _outlook.look(gauge)


def events() -> list[tuple[str, dict[str, Any]]]:
    """What happened in the last trainings of this process, each with the name of what was recovered."""
    return [(name, event) for name, happened in list(_happened) for event in list(happened)]


def html(title: str) -> str:
    """Memory now, as a bar with the load line on it, its forecast, and the newest events."""
    figures = gauge_of().figures()
    used, total = figures["allocatedBytes"], figures["totalBytes"]
    share = min(1.0, used / total) if total else 0.0
    colour = "#b3261e" if share > LOAD_LINE else "#1a7f5a"
    line = f"left:{LOAD_LINE * 100:.0f}%;top:0;bottom:0;width:2px;background:#333"
    bar = (
        '<div style="position:relative;height:14px;background:#ddd;max-width:480px">'
        f'<div style="height:100%;width:{share * 100:.1f}%;background:{colour}"></div>'
        f'<div title="load line" style="position:absolute;{line}"></div></div>'
    )
    rows = [f"<li>{escape(_words(*event))}</li>" for event in events()[-EVENTS_SHOWN:]]
    happened = f"<ul>{''.join(rows)}</ul>" if rows else "<p>No step ran out of memory.</p>"
    peak = size_words(figures["peakAllocatedBytes"])
    return (
        f"<div><b>{escape(title)}</b>: {size_words(used)} of {size_words(total)} in use, peak {peak} (measured)"
        f"{bar}<p>{escape(_forecast_words())}</p>{happened}</div>"
    )


def _forecast_words() -> str:
    found = _outlook.forecaster.forecast()
    eta = found["etaSeconds"]
    when = (
        f" Full in about {eta:.0f} s ({found['lowSeconds']:.0f} to {found['highSeconds']:.0f})."
        if isinstance(eta, (int, float))
        else ""
    )
    return f"Forecast (estimated): risk {found['risk']}. {found['reason']}{when}"


def _words(name: str, event: dict[str, Any]) -> str:
    before, after = event.get("from"), event.get("to")
    changed = "" if before is None or before == after else f", {before} to {after} samples"
    return f"{name} {event['step'] + 1}: {event['rung']}{changed}: {event['why']}"
