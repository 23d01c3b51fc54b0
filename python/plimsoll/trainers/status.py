"""What a notebook shows of recovering steps: memory against the load line, and what happened."""

from __future__ import annotations

from collections import deque
from html import escape
from typing import Any

from ..memory.gauge import gauge_of
from ..memory.load_line import LOAD_LINE

EVENTS_SHOWN = 8

# Of trainings that are over, too: a notebook is looked at afterwards.
TRAININGS_KEPT = 4

_happened: deque[deque[dict[str, Any]]] = deque(maxlen=TRAININGS_KEPT)


def follow(fitting: Any) -> None:
    """Its events are shown from now on."""
    _happened.append(fitting.decider.events)


def events() -> list[dict[str, Any]]:
    """What happened in the last trainings of this process."""
    return [event for training in list(_happened) for event in list(training)]


def html(title: str) -> str:
    """Memory now, as a bar with the load line on it, and the newest events. Figures are measured."""
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
    rows = [f"<li>{escape(_words(event))}</li>" for event in events()[-EVENTS_SHOWN:]]
    happened = f"<ul>{''.join(rows)}</ul>" if rows else "<p>No step ran out of memory.</p>"
    peak = _gib(figures["peakAllocatedBytes"])
    return (
        f"<div><b>{escape(title)}</b>: {_gib(used)} of {_gib(total)} in use, peak {peak} (measured)"
        f"{bar}{happened}</div>"
    )


def _words(event: dict[str, Any]) -> str:
    before, after = event.get("from"), event.get("to")
    return f"step {event['step'] + 1}: {event['rung']}, {before} to {after} samples: {event['why']}"


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
