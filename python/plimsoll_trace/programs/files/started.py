"""Processes that a program starts: they find what it wrote, and what they write is found.

A process in Python gets the same files by what Python runs first. Of other programs those words of the command are
replaced that name what was written.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Mapping
from typing import Any

from ...standins.patches import Patches
from . import calls
from .overlay import Overlay, overlay_of

_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child")
_STATE = "PLIMSOLL_FILES"
_FIRST = "PYTHONPATH"
# Options of Python: those without a value, which may stand together in one word; those that are followed by a value;
# and those that say what is run.
_SWITCHES = re.compile(r"-([bBdEhiIOPqRsSuvVx?]*)(.*)", re.DOTALL)
_WITHOUT_PATHS = str.maketrans("", "", "IES")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_NO_FILE = ("-c", "-m", "-")
# What stands between the words of a shell, and before the path in `--data=path`.
_BETWEEN = re.compile(r"([\s'\"=;|&<>()]+)")

VARIABLES = (_STATE, _FIRST)

_numbers = itertools.count()


def environment(overlay: Overlay, given: Mapping[Any, Any] | None) -> dict[Any, Any]:
    """The variables of a process, with those by which it finds the files."""
    overlay.others_may_write()
    told = os.path.join(overlay.base, f"state {os.getpid()} {next(_numbers)}.json")
    with open(told, "w", encoding="utf-8") as file:
        json.dump(overlay.state(), file)
    variables = dict(os.environ if given is None else given)
    places = [_CHILD, *str(variables.get(_FIRST, "")).split(os.pathsep)]
    first = os.pathsep.join(dict.fromkeys(place for place in places if place))
    return {**variables, _STATE: told, _FIRST: first}


def python_command(overlay: Overlay, words: list[Any], folder: Any) -> list[Any]:
    """The words that start Python; a program that was written itself is run by one of ours."""
    words = _seeing(words)
    place = _program(words)
    if place is None or not _is_written(overlay, words[place], folder):
        return words
    return [*words[:place], os.path.join(_CHILD, "run_written.py"), *words[place:]]


def other_command(overlay: Overlay, args: Any, folder: Any) -> Any:
    """The words, or the one line of a shell, with the places of what was written."""
    if isinstance(args, str):
        return _line(overlay, args, folder)
    if isinstance(args, (list, tuple)) and args:
        return [args[0], *(_word(overlay, word, folder) for word in args[1:])]
    return args


def other_folder(overlay: Overlay, folder: Any) -> Any:
    """Where another program runs: what it does in a folder that the program made, it does to what was written."""
    whole = _whole("", folder)
    return overlay.path(whole) if overlay.made(whole) else folder


def share_files(environment: Mapping[str, str]) -> None:
    """In a process that was started so: its files are those of the trace."""
    with open(environment[_STATE], encoding="utf-8") as file:
        overlay = overlay_of(json.load(file))
    calls.install(Patches(), overlay)


def _seeing(words: list[Any]) -> list[Any]:
    """Without the options `-I`, `-E` and `-S`, with which Python runs nothing of ours first."""
    kept, place = [words[0]], 1
    while place < len(words):
        word = os.fsdecode(words[place])
        found = _SWITCHES.fullmatch(word)
        if not found or word.startswith("--") or word == "-":
            break
        switches, rest = found[1].translate(_WITHOUT_PATHS), found[2]
        kept += [f"-{switches}{rest}"] if switches or rest else []
        place += 1
        if rest[:1] in ("c", "m"):
            break
        if word in _WITH_VALUE:
            kept += words[place : place + 1]
            place += 1
    return kept + words[place:]


def _program(words: list[Any]) -> int | None:
    """Where the path of the program stands; None where Python runs something else."""
    place = 1
    while place < len(words):
        word = os.fsdecode(words[place])
        if word in _NO_FILE or (word[:2] in _NO_FILE and not word.startswith("--")):
            return None
        if not word.startswith("-"):
            return place
        place += 2 if word in _WITH_VALUE else 1
    return None


def _word(overlay: Overlay, word: Any, folder: Any) -> Any:
    if not isinstance(word, (str, os.PathLike)):
        return word
    text = os.fspath(word)
    if _is_written(overlay, text, folder):
        return overlay.path(_whole(text, folder))
    return _line(overlay, text, folder) if isinstance(text, str) else word


def _line(overlay: Overlay, text: str, folder: Any) -> str:
    parts = _BETWEEN.split(text)
    return "".join(
        overlay.path(_whole(part, folder)) if _is_written(overlay, part, folder) else part
        for part in parts
    )


def _is_written(overlay: Overlay, word: Any, folder: Any) -> bool:
    """Whether it names what the program wrote, or what will lie in a folder that it made."""
    text = os.fsdecode(word)
    if not text or text.startswith("-") or _BETWEEN.fullmatch(text):
        return False
    whole = _whole(word, folder)
    if overlay.leaves_alone(whole):
        return False
    if os.path.isdir(whole):
        return overlay.made(whole)
    # A single word may mean anything.
    return overlay.holds(whole) or (os.sep in text and overlay.made(_around(overlay, whole)))


def _around(overlay: Overlay, whole: str) -> str:
    """The first folder around it that is there; the command may make others in it."""
    folder = os.path.dirname(whole)
    while not overlay.exists(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    return folder


def _whole(word: Any, folder: Any) -> str:
    return os.path.abspath(os.path.join(os.fsdecode(folder or ""), os.fsdecode(word)))
