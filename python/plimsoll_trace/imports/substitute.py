"""A module that stands in for a slow one, and gives way to it when more is asked of it."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Substitute(ModuleType):
    """Has the few names that a trace uses; any other name imports the real module, which then takes over."""

    def __init__(self, name: str, names: dict[str, Any] | None = None, is_package: bool = False):
        super().__init__(name)
        self.__dict__.update(names or {})
        self.__spec__ = ModuleSpec(name, None)
        self._is_package = is_package

    def __getattr__(self, name: str) -> Any:
        # Tools look at every module for its file and the like; only a submodule needs a package's path.
        if name.startswith("__") and not (name == "__path__" and self._is_package):
            raise AttributeError(name)
        if self._is_file(name):
            return importlib.import_module(f"{self.__name__}.{name}")
        return getattr(self.real(), name)

    def _is_file(self, name: str) -> bool:
        """Whether a package that was given its folder has such a part: `from . import part` needs no more."""
        return any(
            os.path.exists(os.path.join(folder, part))
            for folder in self.__dict__.get("__path__", ())
            for part in (name, f"{name}.py")
        )

    def real(self) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return importlib.import_module(self.__name__)

    def defer(self, *names: str) -> Substitute:
        """Functions and classes that need the real module only when they are called."""
        for name in names:
            self.__dict__[name] = lambda *args, name=name, **kwargs: getattr(self.real(), name)(
                *args, **kwargs
            )
        return self

    def place(self) -> None:
        """Takes the module's place, unless it is imported already."""
        sys.modules.setdefault(self.__name__, self)
