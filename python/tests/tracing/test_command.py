"""The command: its lines, its errors, and scripts of a user's."""

import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout

from tracing import PACKAGE

from plimsoll.trace import main

SCRIPT = """
import torch

def workload(width=64, batch=8):
    layers = [torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1)]
    return dict(
        model=torch.nn.Sequential(*layers),
        batch=lambda: torch.randn(batch, width),
        loss=lambda model, batch: model(batch).square().mean(),
    )
"""


def run(*arguments):
    out = io.StringIO()
    with redirect_stdout(out):
        status = main(list(arguments))
    return status, [json.loads(line) for line in out.getvalue().splitlines()]


class Scripts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def script(self, text=SCRIPT, name="job.py"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path


class Command(Scripts):
    def test_lines_tell_a_whole_run(self):
        status, lines = run("--script", self.script(), "--arg", "width=128", "--steps", "2")
        self.assertEqual(status, 0)
        header, *events, footer = lines
        self.assertEqual((header["plimsoll"], header["version"]), ("trace", 1))
        self.assertEqual(footer["parameters"], 128 * 128 + 128 + 128 + 1)
        self.assertEqual(footer["allocations"], sum(e[0] == "a" for e in events))
        strings = {e[1] for e in events if e[0] == "s"}
        live, seen = set(), []
        for event in events:
            if event[0] == "a":
                self.assertEqual(len(event), 6)
                self.assertTrue({event[3], event[4]} <= strings)
                self.assertIn(event[5], "wgoxktb")
                live.add(event[1])
            elif event[0] == "f":
                live.remove(event[1])
            elif event[0] == "m":
                seen.append(event[1])
        self.assertEqual(seen[:4], ["built", "ready", "step:1:batch", "step:1:forward"])
        self.assertEqual(seen[-1], "step:2:end")

    def test_weights_gradients_and_states_are_told_apart(self):
        _, lines = run("--script", self.script(), "--optimizer", "adamw", "--steps", "1")
        by = {}
        for event in lines:
            if isinstance(event, list) and event[0] == "a":
                by.setdefault(event[5], []).append(event[2])
        weights = [64 * 64 * 4, 64 * 4, 64 * 4, 4]
        self.assertEqual(sorted(by["w"]), sorted(weights))
        self.assertEqual(sorted(by["g"]), sorted(weights))
        self.assertEqual(sorted(by["o"]), sorted(2 * weights))
        self.assertEqual(by["b"], [8 * 64 * 4])

    def test_a_script_that_fails_says_where(self):
        path = self.script("def workload():\n    raise ValueError('no data')\n")
        status, [line] = run("--script", path)
        self.assertEqual(status, 2)
        self.assertEqual(line["error"]["code"], "script-failed")
        self.assertEqual(line["error"]["fact"], "ValueError: no data")
        self.assertTrue(line["error"]["where"].endswith("job.py:2"))

    def test_a_script_without_workload_and_other_slips(self):
        cases = {
            "script-no-workload": ("--script", self.script("x = 1\n", "empty.py")),
            "script-missing": ("--script", os.path.join(self.folder.name, "absent.py")),
            "bad-argument": ("--script", self.script(), "--arg", "width"),
            "unknown-vision-model": ("--torchvision", "resnet51"),
            "bad-arguments": ("--torchvision", "resnet18", "--batch", "0"),
            "config-not-json": ("--config", self.script()),
            "config-unreadable": ("--config", os.path.join(self.folder.name, "absent.json")),
        }
        for code, arguments in cases.items():
            with self.subTest(code):
                status, [line] = run(*arguments)
                self.assertEqual((status, line["error"]["code"]), (2, code))

    def test_a_model_that_does_not_take_the_batch_is_one_line(self):
        path = self.script(
            SCRIPT.replace("torch.randn(batch, width)", "torch.randn(batch, width + 1)")
        )
        status, [line] = run("--script", path)
        self.assertEqual((status, line["error"]["code"]), (2, "script-failed"))

    def test_without_torch_it_says_so(self):
        code = (
            "import sys; sys.modules['torch'] = None\n"
            "from plimsoll.trace import main; sys.exit(main(sys.argv[1:]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "--torchvision", "resnet18"],
            capture_output=True,
            text=True,
            cwd=PACKAGE,
            check=False,
        )
        self.assertEqual(done.returncode, 3)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "torch-missing")
