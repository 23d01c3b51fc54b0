"""Who holds an object, in words a person can search for: a variable of a module, an attribute, a closure."""

from __future__ import annotations

import gc
import sys
from types import CellType, FrameType, FunctionType, ModuleType
from typing import Any

# From an element to its list, to the dictionary that holds the list, to the object that owns that.
MAX_STEPS = 4
LOCAL = "a local variable"


def holder_of(thing: Any, ignore: set[int] | None = None) -> str | None:
    """`module.name`, `Class.attribute`, or where it else is; None when a library holds it."""
    return _search(thing, set(ignore or ()), MAX_STEPS)


def _search(thing: Any, seen: set[int], steps: int) -> str | None:
    seen.add(id(thing))
    referrers = [
        one
        for one in gc.get_referrers(thing)
        if id(one) not in seen and not isinstance(one, FrameType)
    ]
    seen.update((id(referrers), id(seen)))
    variable = _variable(thing)
    if variable is not None:
        return variable
    if not referrers:
        return LOCAL
    for one in referrers:
        name = _named(one, thing)
        if name is not None:
            return name or None
    if steps == 0:
        return None
    for one in referrers:
        if isinstance(one, CellType):
            return _closure(one)
        if isinstance(one, (list, dict, set, tuple)):
            name = _search(one, seen, steps - 1)
            if name is not None:
                return name
    return None


def _variable(thing: Any) -> str | None:
    """The variable of a module of the program that holds it: after `gc.freeze` the collector names none."""
    for module in _program_modules():
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if value is thing:
                return f"{module.__name__}.{key}"
    return None


def _closure(cell: CellType) -> str | None:
    """The function whose variable it is, where it is one of the program."""
    for closure in gc.get_referrers(cell):
        for one in gc.get_referrers(closure) if isinstance(closure, tuple) else ():
            if isinstance(one, FunctionType) and one.__closure__ is closure:
                return (
                    None
                    if is_library(sys.modules.get(one.__module__))
                    else f"a variable of {one.__qualname__}"
                )
    return None


def _named(owner: Any, thing: Any) -> str | None:
    """The name under which this one holds it; empty when it is a library's; None when it has no name for it."""
    if isinstance(owner, dict):
        key = next(
            (key for key, value in list(owner.items()) if value is thing and isinstance(key, str)),
            None,
        )
        if key is None:
            return None
        if "__name__" in owner and "__spec__" in owner:
            module = sys.modules.get(owner["__name__"])
            return "" if is_library(module) else f"{owner['__name__']}.{key}"
        owner = next((one for one in gc.get_referrers(owner) if _space(one) is owner), None)
        return None if owner is None else _named(owner, thing)
    if isinstance(owner, ModuleType):
        return None
    space = _space(owner)
    key = (
        next((key for key, value in list(space.items()) if value is thing), None) if space else None
    )
    if key is None:
        return None
    kind = owner if isinstance(owner, type) else type(owner)
    return "" if is_library(sys.modules.get(kind.__module__)) else f"{kind.__qualname__}.{key}"


def _space(one: Any) -> Any:
    try:
        space = object.__getattribute__(one, "__dict__")
    except Exception:
        return None
    return space if hasattr(space, "items") else None


def is_library(module: Any) -> bool:
    """Python's own modules and installed packages; the program's own files are not."""
    if module is None or getattr(module, "__name__", "") == "__main__":
        return False
    path = getattr(module, "__file__", None) or ""
    return path == "" or "site-packages" in path or path.startswith(f"{sys.base_prefix}/lib")


def _program_modules() -> list[ModuleType]:
    return [module for module in list(sys.modules.values()) if not is_library(module)]


def of_the_program(kinds: tuple[type, ...]) -> list[Any]:
    """Objects of exactly these types in variables of the program's own modules.

    The garbage collector does not know a dictionary that holds texts and numbers alone.
    """
    return [
        value
        for module in _program_modules()
        for value in list(getattr(module, "__dict__", {}).values())
        if type(value) in kinds
    ]


def alive(kinds: tuple[type, ...]) -> list[Any]:
    """All live objects of exactly these types, each once."""
    found = [one for one in gc.get_objects() if type(one) in kinds] + of_the_program(kinds)
    return list({id(one): one for one in found}.values())
