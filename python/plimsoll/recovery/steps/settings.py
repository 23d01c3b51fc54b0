"""What can be set about a recovering step."""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

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
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction is mean or sum, not {reduction!r}")
    unknown = set(rungs or {}) - set(HOOKS)
    if unknown:
        raise ValueError(
            f"rungs are {', '.join(HOOKS)}; there is none called {', '.join(sorted(unknown))}"
        )
    return Settings(
        Splitter(size, split), share, reduction, clip, autocast, patience, dict(rungs or {})
    )
