"""One change to a model: what it saves, and how to take it back."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional


class Change:
    """`estimated_bytes` comes from a formula; `measured_bytes` from a run. None is unknown."""

    def __init__(
        self, what: str, undo: Callable[[], None], estimated_bytes: Optional[int] = None, note: str = ""
    ) -> None:
        self.what = what
        self.undo = undo
        self.estimated_bytes = estimated_bytes
        self.measured_bytes: Optional[int] = None
        self.note = note

    def as_json(self) -> Dict[str, Any]:
        return {
            "what": self.what,
            "estimatedBytes": "unknown" if self.estimated_bytes is None else self.estimated_bytes,
            "measuredBytes": "unknown" if self.measured_bytes is None else self.measured_bytes,
            "note": self.note,
        }


def parameter_bytes(model: Any) -> int:
    return sum(p.numel() * p.element_size() for p in model.parameters())
