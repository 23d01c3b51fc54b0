"""Scratch memory of a kernel, where it is not sure which one runs."""

from __future__ import annotations

from typing import NamedTuple


class Workspace(NamedTuple):
    """Bytes of the likelier kernel, and those of another that runs with this chance."""

    bytes: int
    other: int = 0
    chance: float = 0
