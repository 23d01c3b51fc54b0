"""The command `plimsoll` of a wheel: starts the program that lies in `_command` with Node."""

from __future__ import annotations

import os
import subprocess
import sys

from .asking.program import command_in
from .failure import MISSING_PACKAGE, Failure

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_command")


def main() -> int:
    try:
        command = command_in(_FOLDER)
        if command is None:
            raise Failure(
                "no-command",
                "This installation holds the Python package alone, without the command.",
                'Install the wheel that "npm run wheel" makes, or use "npx plimsoll".',
                status=MISSING_PACKAGE,
            )
    except Failure as failure:
        sys.stderr.write(f"plimsoll: {failure.code}: {failure.fact} {failure.next_step}\n")
        return failure.status
    # The Python to trace models with, where no virtual environment is active.
    os.environ.setdefault("PLIMSOLL_PYTHON", sys.executable)
    arguments = [*command, *sys.argv[1:]]
    if os.name != "nt":
        os.execv(arguments[0], arguments)
    return subprocess.call(arguments)


if __name__ == "__main__":
    sys.exit(main())
