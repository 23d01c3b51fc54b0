"""Finds and reads the configuration: variables over the file."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from ..arguments import BadType, shown
from ..failure import Failure

# Keys of the file that a session has no use for: it reads PyTorch's own counters, on this machine.
OF_THE_COMMAND = ("processIntervalSeconds", "nvmlLibrary", "simulate", "gpus", "slurm", "ray")
NAME = "plimsoll.config.json"
# A configuration has some dozen keys; a larger file is another file by mistake.
LARGEST = 256 * 1024


# Checks a configuration against its JSON Schema: the part of that language which ours uses.

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


def read_settings(
    config: str | Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> dict[str, Any]:
    """The configuration that holds here, or the one that is named or given; checked."""
    given = os.environ if environment is None else environment
    if isinstance(config, Mapping):
        found = checked(_as_json(config), "config")
        _refuse_of_command(found)
    else:
        if config is not None and not isinstance(config, (str, os.PathLike)):
            fact = f"config must be a file or a dict, not {shown(config)}"
            raise BadType(fact, 'pass "plimsoll.config.json", {"intervalSeconds": 1}, or nothing')
        path_given = None if config is None else os.fspath(config)
        named = path_given or given.get("PLIMSOLL_CONFIG") or None
        path = named or find_file(folder or os.getcwd())
        found = {} if path is None else _read_file(path, named is not None)
        _name_log(found, path)
    for path_of_key, value in _variables(given):
        _put(found, path_of_key, value)
    return _consistent(checked(found, "configuration"))


def _as_json(config: Mapping[str, Any]) -> Any:
    try:
        return json.loads(json.dumps(dict(config)))
    except (TypeError, ValueError) as error:
        fact = f"config holds a value that JSON has no form for ({error})"
        raise Failure("bad-config-value", fact, "Use texts, numbers, true and false.") from None


def _refuse_of_command(found: dict[str, Any]) -> None:
    """A file is shared with the command; a dict is for the session alone, so a key without effect is a mistake."""
    key = next((key for key in OF_THE_COMMAND if key in found), None)
    if key is not None:
        fact = f'config: "{key}" has no effect in a session: only the command line reads it'
        raise Failure("key-of-command", fact, f"Leave it out, or put it into {NAME}.", key)


def _name_log(found: dict[str, Any], path: str | None) -> None:
    """A relative path in a file is meant from the folder of the file."""
    deliver = found.get("alerts", {}).get("deliver", {})
    if path is not None and isinstance(deliver.get("log"), str):
        deliver["log"] = os.path.join(os.path.dirname(os.path.abspath(path)), deliver["log"])


def _consistent(found: dict[str, Any]) -> dict[str, Any]:
    """Two keys that contradict each other are refused; src/config/load.ts has the same rule."""
    training = found.get("training", {})
    given = [name for name in ("minBatch", "batch", "maxBatch") if name in training]
    for less, more in zip(given, given[1:]):
        least, most = training[less], training[more]
        if least > most:
            fact = f"training.{less} ({least:g}) is above training.{more} ({most:g})"
            step = f"Set {less} to at most {most:g}, or raise {more}."
            raise Failure("bad-config-value", fact, step, f"training.{less}")
    return found


def find_file(folder: str) -> str | None:
    """In the folder or the nearest one above it, up to the one that has `.git`."""
    at = os.path.abspath(folder)
    while True:
        path = os.path.join(at, NAME)
        if os.path.exists(path):
            return path
        above = os.path.dirname(at)
        if os.path.exists(os.path.join(at, ".git")) or above == at:
            return None
        at = above


def variable_of(path: tuple[str, ...]) -> str:
    """The variable that sets a key.

    >>> variable_of(("training", "maxBatch"))
    'PLIMSOLL_TRAINING_MAX_BATCH'
    """
    words = [re.sub(r"(?=[A-Z])", "_", key).replace("-", "_").upper() for key in path]
    return "_".join(["PLIMSOLL", *words])


def _read_file(path: str, named: bool) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            if not named and not _is_trusted(os.fstat(file.fileno()).st_uid):
                raise Failure(
                    "foreign-config-file",
                    f"{path} belongs to another user, so it is not trusted",
                    f'Name it if you trust it: plimsoll.session("{path}")',
                )
            data = file.read(LARGEST + 1)
    except OSError as error:
        fact = f"the configuration {path} cannot be read ({error.strerror})"
        raise Failure("unreadable-config-file", fact, "Check the path.") from error
    if len(data) > LARGEST:
        fact = f"the configuration {path} has more than {LARGEST} bytes"
        raise Failure("config-file-too-large", fact, "Check that it is the right file.")
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        fact = f"{path} is not JSON: {error}"
        raise Failure("bad-config-file", fact, "Correct it there.") from error
    return checked(value, path)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = next(key for key, _ in pairs if [one for one, _ in pairs].count(key) > 1)
        raise ValueError(f'the key "{twice}" is written twice')
    return found


def _is_trusted(owner: int) -> bool:
    """Anyone can leave a file in a shared folder."""
    return not hasattr(os, "getuid") or owner in (0, os.getuid())


def _variables(environment: Mapping[str, str]) -> list[tuple[tuple[str, ...], Any]]:
    """What variables set of what a session uses; the command reads the rest."""
    found = []
    for path, node in leaves():
        text = environment.get(variable_of(path), "")
        if text and path[0] not in OF_THE_COMMAND:
            found.append((path, _value(text, node)))
    return found


def _value(text: str, node: dict[str, Any]) -> Any:
    """A text that cannot be read as the key wants it stays a text, so that the check reports it."""
    kind = node.get("type")
    if kind == "array":
        return _list(text)
    if "anyOf" in node:
        return text.lower() == "true" if text.lower() in ("true", "false") else text
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in ("number", "integer"):
        try:
            return int(text) if re.fullmatch(r"\s*-?\d+\s*", text) else float(text)
        except ValueError:
            return text
    return text


def _list(text: str) -> Any:
    """A list as JSON, or as words with commas or blanks between them."""
    if not text.lstrip().startswith("["):
        return [word for word in re.split(r"[,\s]+", text) if word]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        target = target.setdefault(key, {})
    target[path[-1]] = value
