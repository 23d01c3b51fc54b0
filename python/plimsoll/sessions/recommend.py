"""What to do, and what it saves, the most first. Decides from a report, reads no machine."""

from __future__ import annotations

from typing import Any

from ..debugging.advice import leak_advice

# Less is lost among what an allocator keeps for the next step.
LEAST_CACHED = 256 * 2**20
# A program that spends more of its time in the collector is worth a change.
LEAST_PAUSES = 0.01
# Below this, most of a device is unused.
MUCH_FREE = 0.5


def recommend(
    report: dict[str, Any], threshold: float, seconds: float, of_host: float | None = None
) -> list[dict[str, Any]]:
    lines = {"cpu": threshold if of_host is None else of_host}
    found = [
        *_model(report),
        *_devices(report["devices"], threshold, lines),
        *_leaks(report["leaks"]),
        *_garbage(report["gc"], seconds),
        *_batch(report),
    ]
    return sorted(found, key=_weight, reverse=True)


def _devices(
    devices: dict[str, Any], threshold: float, lines: dict[str, float]
) -> list[dict[str, Any]]:
    found = []
    for name, device in devices.items():
        usage = device["currentUsage"]
        total = usage["totalBytes"]
        cached = usage["reservedBytes"] - usage["allocatedBytes"]
        if cached >= LEAST_CACHED:
            fact = f"{name}: the allocator holds {_mib(cached)} that no tensor uses."
            found.append(
                _advice("allocator-cache", fact, "session.clean_up()", _bytes(cached, total))
            )
        over = int(total - usage["freeBytes"] - lines.get(name, threshold) * total)
        if over > 0:
            fact = f"{name} is {usage['usedPercent']:.0f} % full."
            step = "session.optimize_model(model, optimizer)  # checkpointing and bfloat16"
            found.append(_advice("device-full", fact, step, _bytes(over, total)))
    return found


def _leaks(leaks: dict[str, Any]) -> list[dict[str, Any]]:
    held = sum(one.get("bytes", 0) for one in leaks["tensors"])
    saves = _bytes(held, 0) if held else {"kind": "unknown"}
    return [
        _advice("leak", "Memory was kept since the start.", line, saves if number == 0 else None)
        for number, line in enumerate(leak_advice(leaks))
    ]


def _model(report: dict[str, Any]) -> list[dict[str, Any]]:
    model = report["model"]
    if model["bytes"] == "unknown" or model["changes"]:
        return []
    fact = f"The model has {model['parameters']} parameters and was not optimized."
    return [_advice("model", fact, "session.optimize_model(model, optimizer)", None)]


def _garbage(garbage: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
    share = garbage["totalSeconds"] / seconds if seconds > 0 else 0.0
    if share < LEAST_PAUSES:
        return []
    fact = f"Python's garbage collector took {100 * share:.1f} % of the time."
    step = "plimsoll.schedule_gc(every=30)  # after data and model are loaded"
    saves = {"kind": "time", "lowShare": 0.0, "highShare": share, "source": "measured"}
    return [_advice("garbage", fact, step, saves)]


def _batch(report: dict[str, Any]) -> list[dict[str, Any]]:
    """More samples at a time where a card has room; a batch of one's own was chosen for a reason."""
    cards = [one["currentUsage"] for name, one in report["devices"].items() if name != "cpu"]
    if not cards or report["training"]["steps"] == 0:
        return []
    peaks = [one["peakReservedBytes"] / max(1, one["totalBytes"]) for one in cards]
    if max(peaks) >= MUCH_FREE:
        return []
    fact = f"At most {100 * max(peaks):.0f} % of a card was used."
    return [_advice("batch", fact, "session.optimize_training(...)  # finds the batch", None)]


def _advice(code: str, fact: str, step: str, saves: dict[str, Any] | None) -> dict[str, Any]:
    return {"code": code, "fact": fact, "steps": [step], "saves": saves or {"kind": "unknown"}}


def _bytes(count: int, total: int) -> dict[str, Any]:
    share = count / total if total else "unknown"
    return {"kind": "bytes", "bytes": count, "share": share, "source": "measured"}


def _weight(advice: dict[str, Any]) -> float:
    saves = advice["saves"]
    if saves["kind"] == "time":
        return float(saves["highShare"])
    if saves["kind"] == "bytes":
        return 0.0 if saves["share"] == "unknown" else float(saves["share"])
    return -1.0


def _mib(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
