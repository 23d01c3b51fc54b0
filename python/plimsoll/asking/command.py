"""The command `plimsoll`, asked for one JSON document."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from typing import Any

from ..failure import BAD_INPUT, MISSING_PACKAGE, Failure
from .program import FOLDERS, command_in

# A traced estimate of a large model takes a minute; one that takes so long hangs.
_PATIENCE_SECONDS = 600.0


def ask(words: list[str]) -> dict[str, Any]:
    """The document that the command prints with `--json`; its error as a `Failure`."""
    try:
        done = subprocess.run(
            [*command(), words[0], "--json", *words[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        fact = f"the command plimsoll gave no answer ({error})"
        raise Failure("no-answer", fact, _by_hand(words)) from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise _failure_of(done.stderr, done.returncode, words)
    return answer


def command() -> list[str]:
    """In a wheel, in a checkout, or installed by npm; the nearest first."""
    trouble = Failure(
        "no-command",
        "the command plimsoll was not found",
        "install the wheel, which holds it (pip install plimsoll), or npm install -g plimsoll",
        status=MISSING_PACKAGE,
    )
    for folder in FOLDERS:
        try:
            command = command_in(folder)
        except Failure as failure:
            trouble = failure
            continue
        if command is not None:
            return command
    installed = shutil.which("plimsoll")
    if installed is None:
        raise trouble
    return [installed]


def _by_hand(words: list[str]) -> str:
    return f"see what it prints in a terminal: plimsoll {shlex.join(words)}"


def _failure_of(stderr: str, status: int, words: list[str]) -> Failure:
    """The error of the command: one line with its code, the fact and the next step."""
    line = next((one for one in stderr.splitlines() if one.startswith("plimsoll: ")), "")
    match = re.match(r"plimsoll: ([a-z0-9-]+): (.*)", line)
    if match:
        # A sentence with the fact, and what to do about it.
        fact, *steps = re.split(r"(?<=[.!?)]) (?=[A-Z])", match[2], maxsplit=1)
        return Failure(match[1], fact, "".join(steps), status=status)
    last = stderr.strip().splitlines()[-1:] or [f"it ended with {status}"]
    fact = f"the command plimsoll gave no answer: {last[0]}"
    return Failure("no-answer", fact, _by_hand(words), status=status or BAD_INPUT)
