"""Every Python snippet of docs/recipes runs as it stands."""

import importlib.util
import os
import re
import sys
import tempfile
import unittest

import warm

from trainers import PACKAGE

FOLDER = os.path.join(os.path.dirname(PACKAGE), "docs", "recipes")
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Installed by npm run test:integrations alone.
ELSEWHERE = ("lightning", "trl")


def is_missing(package, code):
    wanted = f"import {package}" in code or f"from {package} import" in code
    return wanted and importlib.util.find_spec(package) is None


def snippets():
    for name in sorted(os.listdir(FOLDER)):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            for number, found in enumerate(SNIPPET.findall(file.read())):
                yield f"{name}, snippet {number + 1}", found


class Recipes(unittest.TestCase):
    def test_snippets_run(self):
        ran = 0
        for name, code in snippets():
            with self.subTest(name):
                if any(is_missing(package, code) for package in ELSEWHERE):
                    compile(code, name, "exec")
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    done = warm.run(
                        [sys.executable, "-W", "ignore", "-c", code],
                        env={**os.environ, "PYTHONPATH": PACKAGE, "CUDA_VISIBLE_DEVICES": ""},
                        cwd=folder,
                        capture_output=True,
                        text=True,
                        check=False,
                        timeout=3600,  # It ends one that hangs, also on a machine that is busy with others.
                    )
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                ran += 1
        self.assertGreaterEqual(ran, 5)
