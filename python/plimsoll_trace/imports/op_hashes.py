"""Ops of PyTorch say in Python what their hash is, and a trace looks each of them up some twenty times when it runs.

There is one object for each op, so where that lies does as well, and Python tells it without calling anything.
"""

from __future__ import annotations

import sys
from typing import Any

from ..standins.imports import when_imported


def hash_by_place() -> None:
    """Before torch is imported: what is in a table by one hash is not found by another."""
    if "torch" not in sys.modules:
        when_imported("torch._ops", _install)


def _install(ops: Any) -> None:
    op = getattr(ops, "OpOverload", None)
    if op is not None and op.__eq__ is object.__eq__:
        op.__hash__ = object.__hash__
