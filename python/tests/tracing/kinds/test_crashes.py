"""A program that crashes in C++ leaves behind where it was."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

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


class Crashes(unittest.TestCase):
    def test_the_stack_of_a_crash_lies_beside_the_trace_that_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(CRASH)
            command = [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "plimsoll.trace",
                "--output",
                "t.jsonl",
            ]
            done = subprocess.run(
                [*command, "--program", "train.py"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, -signal.SIGABRT, done.stdout + done.stderr)
            self.assertFalse(os.path.exists(os.path.join(folder, "t.jsonl")))
            with open(os.path.join(folder, "t.jsonl.crash"), encoding="utf-8") as file:
                report = file.read()
        self.assertIn("Current thread", report)
        self.assertIn('  File "train.py", line 8 in step\n', report)
