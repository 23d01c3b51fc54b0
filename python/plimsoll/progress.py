"""How far something is, one JSON line for each phase on standard error, for the process that started it."""

from __future__ import annotations

import json
import os
import sys


def report_progress(phase: str, step: int = 0, of: int = 0, *, doing: str = "") -> None:
    """Phases are `import`, `build`, `step`, `files`, and `program` with what it is doing; only with
    PLIMSOLL_PROGRESS=1."""
    if os.environ.get("PLIMSOLL_PROGRESS") != "1":
        return
    what: dict[str, str | int] = {"phase": phase, "step": step, "of": of}
    if doing:
        what["doing"] = doing
    line = json.dumps({"progress": what}, separators=(",", ":"))
    print(line, file=sys.stderr, flush=True)
