"""`python -m plimsoll.migrating FOLDER`: one JSON line for each file that has something to say."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator

from ..progress import report_progress
from .propose import NotUnderstood, propose

# Generated modules have some hundred kilobytes; more than this is data.
LARGEST_FILE = 2 * 1024 * 1024
# The largest code bases have some ten thousand; more than this is a disk.
MAX_FILES = 50_000
# A large file takes seconds, a hundred small ones less than one.
REPORT_SECONDS = 0.2
# Installed packages and what tools keep are not the code of a project.
_LEFT_OUT = ("node_modules", "site-packages", "__pycache__", "venv", "build", "dist")


def python_files(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _LEFT_OUT
        )
        for name in sorted(names):
            full = os.path.join(folder, name)
            if name.endswith(".py") and os.path.isfile(full) and not os.path.islink(full):
                yield full


def look_at(path: str, debug_settings: dict[str, list[str] | None]) -> dict[str, object] | None:
    """What is said of one file; None where there is nothing to say."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise NotUnderstood(f"it has more than {LARGEST_FILE} bytes")
        proposal = propose(data, debug_settings)
    except NotUnderstood as error:
        return {"path": path, "notUnderstood": str(error)}
    except OSError as error:
        return {"path": path, "notUnderstood": error.strerror or str(error)}
    if not proposal.findings:
        return None
    changed = proposal.data != data
    return {
        "path": path,
        "sha256": hashlib.sha256(data).hexdigest(),
        "findings": [
            {
                "rule": finding.rule,
                "line": finding.line,
                "message": finding.message,
                "changed": bool(finding.edits) and changed,
            }
            for finding in proposal.findings
        ],
        **(
            {"after": proposal.data.decode(), "diff": _diff(data.decode(), proposal.data.decode())}
            if changed
            else {}
        ),
    }


def _diff(before: str, after: str) -> str:
    """The hunks of a unified diff, without its two lines that name the files."""
    lines = list(difflib.unified_diff(_lines(before), _lines(after)))[2:]
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def _lines(text: str) -> list[str]:
    """By line feeds alone: Python's own `splitlines` knows characters that no diff tool splits at."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def main(words: list[str]) -> int:
    path, settings = words
    debug_settings = json.loads(settings)
    files = list(itertools.islice(python_files(path), MAX_FILES + 1))
    read = files[:MAX_FILES]
    reported = -REPORT_SECONDS
    for number, file in enumerate(read, start=1):
        now = time.monotonic()
        if now - reported >= REPORT_SECONDS:
            reported = now
            report_progress("files", number, len(read))
        result = look_at(file, debug_settings)
        if result is not None:
            print(json.dumps(result), flush=True)
    if len(files) > MAX_FILES:
        print(json.dumps({"tooMany": MAX_FILES}), flush=True)
    print(json.dumps({"files": len(read)}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
