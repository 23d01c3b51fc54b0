"""A program that crashes in C++ leaves behind where it was; one that fails, its traceback."""

import os
import signal
import sys
import tempfile
import unittest

import warm

from tracing import PACKAGE

CRASH = """
import faulthandler, os, torch
faulthandler.enable()
model = torch.nn.Linear(8, 8).cuda()

def step():
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    os.abort()

step()
"""

FAILS = """
import torch

def step(settings):
    model = torch.nn.Linear(8, 8).cuda()
    return settings["missing"]

try:
    step({})
except KeyError as error:
    raise ValueError("no settings") from error
"""


def traced(folder, text):
    with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
        file.write(text)
    command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", "t.jsonl"]
    return warm.run(
        [*command, "--program", "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
        capture_output=True,
        text=True,
        check=False,
    )


class Crashes(unittest.TestCase):
    def test_the_stack_of_a_crash_lies_beside_the_trace_that_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, CRASH)
            self.assertEqual(done.returncode, -signal.SIGABRT, done.stdout + done.stderr)
            self.assertFalse(os.path.exists(os.path.join(folder, "t.jsonl")))
            with open(os.path.join(folder, "t.jsonl.crash"), encoding="utf-8") as file:
                report = file.read()
        self.assertIn("Current thread", report)
        self.assertIn('  File "train.py", line 8 in step\n', report)

    def test_a_program_that_fails_shows_its_own_traceback(self):
        with tempfile.TemporaryDirectory() as folder:
            done = traced(folder, FAILS)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn('"code": "program-failed"', done.stdout)
        self.assertIn('  File "train.py", line 9, in <module>\n', done.stderr)
        self.assertIn('  File "train.py", line 6, in step\n', done.stderr)
        self.assertIn("KeyError: 'missing'", done.stderr)
        self.assertTrue(done.stderr.endswith("ValueError: no settings\n"), done.stderr)
        self.assertNotIn("plimsoll", done.stderr)
