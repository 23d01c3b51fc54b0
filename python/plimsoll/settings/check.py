"""Checks a configuration against its JSON Schema: the part of that language which ours uses."""

from __future__ import annotations

import difflib
import json
import math
import re
from functools import cache
from importlib import resources
from typing import Any

from ..failure import Failure

_KINDS: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "integer": (int, float),
}


@cache
def schema() -> dict[str, Any]:
    """The schema that the package of Node ships, too; a test holds them equal."""
    found: dict[str, Any] = json.loads(
        resources.files(__package__).joinpath("schema.json").read_text(encoding="utf-8")
    )
    return found


def checked(value: Any, source: str) -> dict[str, Any]:
    """The configuration; the first thing wrong is a `Failure` that names it."""
    _check(value, schema(), (), source)
    configuration: dict[str, Any] = value
    return configuration


def leaves(
    node: dict[str, Any] | None = None, path: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every key that holds a value rather than further keys."""
    node = schema() if node is None else node
    if "properties" not in node:
        return [(path, node)]
    return [
        leaf for key, child in node["properties"].items() for leaf in leaves(child, (*path, key))
    ]


def _check(value: Any, node: dict[str, Any], path: tuple[str, ...], source: str) -> None:
    if "anyOf" in node:
        if not any(_is_kind(value, one) for one in node["anyOf"]):
            raise _bad(value, path, source, node)
        return
    if not _is_kind(value, node):
        raise _bad(value, path, source, node)
    if isinstance(value, dict):
        known = node.get("properties", {})
        for key, child in value.items():
            if key not in known:
                raise _unknown(key, path, list(known), source)
            _check(child, known[key], (*path, key), source)
        missing = [key for key in node.get("required", []) if key not in value]
        if missing:
            raise _bad(None, (*path, missing[0]), source, known[missing[0]])
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _check(child, node.get("items", {}), (*path, str(index)), source)


def _is_kind(value: Any, node: dict[str, Any]) -> bool:
    kind = node.get("type")
    if kind is None:
        return True
    known: bool = isinstance(value, _KINDS[kind])
    if not known or (isinstance(value, bool) and kind != "boolean"):
        return False
    if kind in ("number", "integer") and not _is_number(value, node):
        return False
    if isinstance(value, (str, list)):
        name = "Length" if isinstance(value, str) else "Items"
        if not node.get(f"min{name}", 0) <= len(value) <= node.get(f"max{name}", math.inf):
            return False
    if isinstance(value, str) and "pattern" in node and not re.search(node["pattern"], value):
        return False
    return "enum" not in node or value in node["enum"]


def _is_number(value: float, node: dict[str, Any]) -> bool:
    least, most = node.get("minimum", -math.inf), node.get("maximum", math.inf)
    fits = math.isfinite(value) and bool(least <= value <= most)
    return fits and (node["type"] == "number" or value == int(value))


def _bad(value: Any, path: tuple[str, ...], source: str, node: dict[str, Any]) -> Failure:
    shown = json.dumps(value)
    shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
    name = ".".join(path) or "the whole"
    return Failure(
        "bad-config-value", f"{source}: {name} is {shown}", f"It takes {_words(node)}.", name
    )


def _unknown(key: str, path: tuple[str, ...], known: list[str], source: str) -> Failure:
    name = ".".join((*path, key))
    meant = difflib.get_close_matches(key, known, 1)
    step = f'Did you mean "{meant[0]}"?' if meant else f"The keys are: {', '.join(known)}."
    return Failure("unknown-key", f'{source}: there is no key "{name}"', step, name)


def _words(node: dict[str, Any]) -> str:
    if "anyOf" in node:
        return " or ".join(_words(one) for one in node["anyOf"])
    if "enum" in node:
        return f"one of {', '.join(map(str, node['enum']))}"
    kind = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(
        node.get("type", ""), f"a {node.get('type', 'value')}"
    )
    if "minimum" in node and "maximum" in node:
        return f"{kind} from {node['minimum']} to {node['maximum']}"
    return kind
