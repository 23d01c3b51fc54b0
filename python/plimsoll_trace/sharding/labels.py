"""Says what is asked for while a function of torch runs is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def labelled(observer: Any, category: str, function: Callable) -> Callable:
    def run(*args: Any, **kwargs: Any) -> Any:
        before = observer.category
        observer.category = category
        try:
            return function(*args, **kwargs)
        finally:
            observer.category = before

    return run
