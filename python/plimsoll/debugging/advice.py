"""What to do about what was seen, the most pressing first."""

from __future__ import annotations

from typing import Any


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
