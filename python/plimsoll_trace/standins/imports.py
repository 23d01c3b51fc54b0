"""Stand-ins for packages that a program may import later, or never."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from typing import Any, Callable

_waiting: dict[str, list[Callable[[Any], None]]] = {}
_before: dict[str, Callable[[], None]] = {}


def when_imported(name: str, action: Callable[[Any], None]) -> None:
    """Calls the action with the module: now where it is imported, else right after it was."""
    if name in sys.modules:
        action(sys.modules[name])
        return
    _waiting.setdefault(name, []).append(action)
    _look_first()


def before_import(name: str, action: Callable[[], None]) -> None:
    """Calls the action right before the module is run, where it is not imported yet."""
    if name not in sys.modules:
        _before[name] = action
        _look_first()


def _look_first() -> None:
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """In front of the finders, for the modules that are waited for."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        if name not in _waiting and name not in _before:
            return None
        spec: Any = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            if name in _before:
                _before.pop(name)()
            execute(module)
            for action in _waiting.pop(name, []):
                action(module)

        spec.loader.exec_module = exec_module
        return spec
