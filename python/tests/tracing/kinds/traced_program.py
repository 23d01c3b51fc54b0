"""The trace of a small program, as the command makes it."""

import json
import os
import sys
import tempfile

import warm

from tracing import PACKAGE


def rows_of(test, text):
    """What the trace of a program says, line by line; the test fails where the trace does."""
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.py")
        with open(program, "w", encoding="utf-8") as file:
            file.write(text)
        output = os.path.join(folder, "trace.jsonl")
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
        done = warm.run(
            [*command, "--program", program],
            env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(output, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
