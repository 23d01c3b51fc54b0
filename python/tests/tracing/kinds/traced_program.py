"""The trace of a small program, as the command makes it."""

import json
import os
import sys
import tempfile

import warm

from tracing import PACKAGE

with open(os.path.join(PACKAGE, "plimsoll_trace", "trace-format.json"), encoding="utf-8") as _file:
    FORMAT = json.load(_file)


def _is_of(kind, value):
    is_whole = type(value) is int and value >= 0
    return {
        "count": is_whole,
        "bytes": is_whole,
        "share": isinstance(value, (int, float)) and 0 <= value <= 1,
        "text": isinstance(value, str),
        "flag": isinstance(value, bool),
        "category": isinstance(value, str) and value in FORMAT["categories"],
        "kernel": isinstance(value, str) and value in FORMAT["kernels"],
        "texts": isinstance(value, list) and all(isinstance(one, str) for one in value),
        "object": isinstance(value, dict),
        "any": True,
    }[kind]


def faults_of(rows):
    """The lines of a trace that are not as `trace-format.json` has them."""
    header, *events, footer = rows
    ends = {**FORMAT["footer"], **FORMAT["facts"], **FORMAT["optionalFooter"]}
    faults = []
    for given, known, optional in (
        (header, FORMAT["header"], {}),
        (footer, ends, FORMAT["optionalFooter"]),
    ):
        faults += [
            ("missing", name) for name in known if name not in given and name not in optional
        ]
        for name, value in given.items():
            if name not in known or not _is_of(known[name]["type"], value):
                faults.append((name, value))
    for event in events:
        known = FORMAT["events"].get(event[0], {"fields": [["", "unknown"]] * 99})
        types = [kind for _, kind in known["fields"] + known.get("optional", [])]
        whole = len(known["fields"]) <= len(event) - 1 <= len(types)
        if not whole or not all(map(_is_of, types, event[1:])):
            faults.append(tuple(event))
    return faults


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
            rows = [json.loads(line) for line in file]
    test.assertEqual(faults_of(rows), [])
    return rows
