"""How far a trace is, one JSON line for each phase on standard error, for the process that started it."""

from __future__ import annotations

import json
import os
import sys


def report(phase: str, step: int, of: int) -> None:
    """Phases are `import`, `build` and `step`; only with PLIMSOLL_PROGRESS=1."""
    if os.environ.get("PLIMSOLL_PROGRESS") != "1":
        return
    line = json.dumps({"progress": {"phase": phase, "step": step, "of": of}}, separators=(",", ":"))
    print(line, file=sys.stderr, flush=True)
