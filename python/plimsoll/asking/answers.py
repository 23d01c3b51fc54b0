"""The documents of the command as Python objects: attributes, sizes that people read, HTML in notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Any

from ..arguments import bytes_of, size_words

_PARTS = ("#0e7490", "#d97706", "#7c3aed", "#16a34a", "#db2777", "#475569", "#0891b2", "#a16207")


def snake_case(name: str) -> str:
    """The Python name of a key: `deviceBytes` is `device_bytes`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


class Record(dict[str, Any]):
    """A JSON object. `record.device_bytes` and `record["deviceBytes"]` are the same value.

    >>> Record({"peak": {"deviceBytes": 5}}).peak.device_bytes
    5
    """

    def __getattr__(self, name: str) -> Any:
        for key in self:
            if snake_case(key) == name:
                return _wrapped(self[key])
        known = ", ".join(sorted(set(map(snake_case, self))))
        raise AttributeError(f"this answer has no {name!r}; it has {known}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *map(snake_case, self)})

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, with keys in snake_case."""
        return {snake_case(key): _plain(value) for key, value in self.items()}

    def __repr__(self) -> str:
        shown = (f"{snake_case(key)}={_shown(key, value)}" for key, value in self.items())
        return f"{type(self).__name__}({', '.join(shown)})"


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict) and not isinstance(value, Record):
        return Record(value)
    return [_wrapped(one) for one in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value).to_dict()
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _shown(key: str, value: Any) -> str:
    if isinstance(value, int) and key.endswith("Bytes") and not isinstance(value, bool):
        return size_words(value)
    if isinstance(value, list) and len(value) > 3:
        return f"[{len(value)} items]"
    return repr(_wrapped(value))


class Estimate(Record):
    """Memory that a workload needs on one card.

    answer = plimsoll.estimate("llama-3-8b", batch=1, seq=2048, gpu="4090")
    answer.peak.device_bytes, answer.fits("24GiB"), answer.breakdown
    """

    def fits(self, memory: str | int | None = None) -> bool:
        """Whether it runs on a device of this size, or on the card that it was asked for.

        The upper end of the interval counts: a run that may lack memory does not fit.
        """
        room = self["gpu"]["capacityBytes"] if memory is None else bytes_of("memory", memory)
        return self.surely_bytes <= room

    @property
    def surely_bytes(self) -> int:
        """The smallest device on which it runs by the upper end of the interval."""
        peak, high = self["peak"], self["interval"]["highBytes"]
        return int(peak["leastCapacityBytes"] + max(0, high - peak["reservedBytes"]))

    def __repr__(self) -> str:
        peak = size_words(self["peak"]["deviceBytes"])
        return (
            f"<Estimate: {peak} on {self['gpu']['name']}, {self._interval()}, by {self['method']}>"
        )

    def _interval(self) -> str:
        """Of the device, as the command shows it: that of reserved memory, moved up by the rest."""
        peak, interval = self["peak"], self["interval"]
        rest = peak["deviceBytes"] - peak["reservedBytes"]
        share = round(100 * interval["confidence"])
        low, high = (size_words(interval[end] + rest) for end in ("lowBytes", "highBytes"))
        return f"{share} %: {low} to {high}"

    def _repr_html_(self) -> str:
        name, capacity = self["gpu"]["name"], self["gpu"]["capacityBytes"]
        verdict = "It fits into" if self.fits() else "It does not surely fit into"
        total = max(1, sum(one["bytes"] for one in self["breakdown"]))
        rows = "".join(
            f"<tr><td>{escape(one['part'])}</td><td style='text-align:right'>{size_words(one['bytes'])}</td>"
            f"<td><div style='background:{colour};height:0.8em;width:{120 * one['bytes'] / total:.0f}px'>"
            "</div></td></tr>"
            for one, colour in zip(self["breakdown"], _colours())
        )
        return (
            f"<b>{size_words(self['peak']['deviceBytes'])}</b> on one {escape(name)} "
            f"(estimated, by {escape(self['method'])}; {self._interval()}). "
            f"{verdict} its {size_words(capacity)}.<table>{rows}</table>"
        )


def _colours() -> Iterator[str]:
    while True:
        yield from _PARTS


class Plan(Record):
    """Settings with which a workload fits a budget.

    found = plimsoll.plan("llama-3-8b", memory="24GiB")
    found.fits, found.settings.batch, found.estimate.peak.device_bytes
    """

    def __repr__(self) -> str:
        if not self["fits"]:
            return "<Plan: nothing fits>"
        usual = ("none", "unknown", "False", "None", "1")
        chosen = ", ".join(
            f"{snake_case(key)}={value}"
            for key, value in self["settings"].items()
            if key == "batch" or str(value) not in usual
        )
        need = size_words(self["estimate"]["peak"]["leastCapacityBytes"])
        return f"<Plan: {chosen}; needs {need}>"
