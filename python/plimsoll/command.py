"""The command `plimsoll` of a wheel or a checkout, also `python -m plimsoll`: starts its program with Node."""

from __future__ import annotations

import os
import subprocess
import sys

from .asking.command import FOLDERS, command_in
from .failure import MISSING_PACKAGE, Failure


def main() -> int:
    try:
        command = next(filter(None, map(command_in, FOLDERS)), None)
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
