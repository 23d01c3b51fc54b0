"""Helpers of the tests: small programs traced as the command traces them, and ops watched as a trace watches them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import contextmanager

import warm
from warm import PACKAGE

from plimsoll_trace import ledger as kinds
from plimsoll_trace.gpu import H200
from plimsoll_trace.ledger import Ledger
from plimsoll_trace.module_names import ModuleNames
from plimsoll_trace.observer import Observer
from plimsoll_trace.options import COPIES
from plimsoll_trace.standins.environment import cuda_like

MEASURED = os.path.join(os.path.dirname(__file__), "measured.json")
# All is asked for on the first one.
_STREAM = 0


@contextmanager
def watched(libraries_open=True, gpu=H200):
    """An observer at work; by default cuBLAS has its workspaces already, as after a warm-up."""
    names = ModuleNames()
    observer = Observer(Ledger(), gpu, names.current)
    if libraries_open:
        for backward in (False, True):
            for library in ("cublas", "cublaslt"):
                observer.workspaces[(library, backward, _STREAM)] = 0
    with cuda_like(observer, names), observer:
        observer.category = kinds.ACTIVATION
        yield observer
    held = still_held(observer.ledger.events)
    assert not held, f"kernels gave nothing back of {held}"


def still_held(events):
    """The sizes of what kernels took for themselves and still hold."""
    taken = {
        event[1]: event[2] for event in events if event[0] == "a" and event[5] == kinds.TEMPORARY
    }
    for event in events:
        if event[0] == "f":
            taken.pop(event[1], None)
    return list(taken.values())


def asked_sizes(events):
    """What a record asks for. Scratch memory whose kernel is not sure may be none."""
    place = {"a": 2, "o": 1}
    sizes = (event[place[event[0]]] for event in events if event[0] in place)
    return [size for size in sizes if size > 0]


class Asked:
    """Reads what was asked for since it was last read."""

    def __init__(self, observer):
        self.events = observer.ledger.events
        self.read = len(self.events)

    def sizes(self):
        new = self.events[self.read :]
        self.read = len(self.events)
        return asked_sizes(new)


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


def measured(name):
    """Rows of `measured.json`: what ops of this kind asked a real H200's allocator for."""
    with open(MEASURED, encoding="utf-8") as file:
        return json.load(file)[name]


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


class TracedFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def put(self, path, text):
        whole = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, program, scratch=None, protection=None, output=os.devnull):
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
        temporary = {} if scratch is None else {"TMPDIR": scratch}
        return warm.Popen(
            [
                *command,
                *(["--scratch", scratch] if scratch else []),
                *(["--protection", protection] if protection else []),
                "--program",
                program,
            ],
            cwd=self.folder,
            env={
                **os.environ,
                **temporary,
                "PYTHONPATH": os.pathsep.join([PACKAGE, os.environ.get("PYTHONPATH", "")]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PLIMSOLL_DEBUG": "",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ends_well(self, process):
        output, _ = process.communicate()
        self.assertEqual(process.returncode, 0, output)

    def lying(self):
        """Each file and folder, with what is in it."""
        found = {}
        for folder, folders, names in os.walk(self.folder):
            found.update((os.path.join(folder, name), None) for name in folders)
            for name in names:
                found[os.path.join(folder, name)] = self._text(os.path.join(folder, name))
        return {os.path.relpath(path, self.folder): text for path, text in found.items()}

    def leaves_all_as_it_is(self, program):
        """Traces it, and nothing lies in its folder after that but what lay there, unchanged."""
        before = self.lying()
        # As this machine allows it, and as it is where the kernel allows nothing.
        for protection in (None, COPIES):
            with self.subTest(protection=protection):
                self.ends_well(self.start(program, protection=protection))
                self.assertEqual(self.lying(), before)

    @staticmethod
    def _text(path):
        if not os.path.isfile(path):
            # A pipe, or a link that leads nowhere.
            return None
        with open(path, "rb") as file:
            return file.read()
