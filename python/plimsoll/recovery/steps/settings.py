"""What can be set about a recovering step."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

from ...arguments import BadValue, one_of
from ..parts.shares import Share, check_share
from ..parts.split import Splitter
from ..rules.ladder import HOOKS


class Settings(NamedTuple):
    splitter: Splitter
    share: Share
    reduction: str
    clip: float | None
    autocast: Any
    patience: float
    rungs: dict[str, Callable[[], Any]]


def settings(
    size: Any,
    split: Any,
    share: Share,
    reduction: str,
    clip: float | None,
    autocast: Any,
    patience: float,
    rungs: Any,
) -> Settings:
    check_share(share)
    one_of("reduction", reduction, ("mean", "sum"))
    unknown = set(rungs or {}) - set(HOOKS)
    if unknown:
        fact = f"there is no rung called {', '.join(sorted(map(str, unknown)))}"
        raise BadValue(fact, f"use {', '.join(HOOKS)}")
    return Settings(
        Splitter(size, split), share, reduction, clip, autocast, patience, dict(rungs or {})
    )
