"""Finds and reads the configuration: variables over the file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from ..failure import Failure
from .check import checked, leaves

NAME = "plimsoll.config.json"
# A configuration has some dozen keys; a larger file is another file by mistake.
LARGEST = 256 * 1024


def read_settings(
    config: str | Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    folder: str | None = None,
) -> dict[str, Any]:
    """The configuration that holds here, or the one that is named or given; checked."""
    given = os.environ if environment is None else environment
    if isinstance(config, Mapping):
        found = checked(json.loads(json.dumps(dict(config))), "config")
    else:
        named = config or given.get("PLIMSOLL_CONFIG") or None
        path = named or find_file(folder or os.getcwd())
        found = {} if path is None else _read_file(path, named is not None)
    for path_of_key, value in _variables(given):
        _put(found, path_of_key, value)
    return checked(found, "configuration")


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
        if text and "anyOf" not in node and node.get("type") != "array":
            found.append((path, _value(text, node)))
    return found


def _value(text: str, node: dict[str, Any]) -> Any:
    """A text that cannot be read as the key wants it stays a text, so that the check reports it."""
    kind = node.get("type")
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind in ("number", "integer"):
        try:
            return int(text) if re.fullmatch(r"\s*-?\d+\s*", text) else float(text)
        except ValueError:
            return text
    return text


def _put(target: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        target = target.setdefault(key, {})
    target[path[-1]] = value
