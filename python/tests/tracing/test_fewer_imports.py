"""A trace in a process of its own: fewer imports, the same lines, and everything where that fails."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from types import ModuleType

from tracing import PACKAGE

from plimsoll.tracing.imports.substitute import Substitute

CONFIG = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 2,
    "vocab_size": 500,
}
TRACE = """
import json, os, sys
from plimsoll.trace import main
status = main(sys.argv[1:], alone=True)
slow = ("sympy.core", "accelerate", "torch.distributed.tensor", "torch._dynamo.convert_frame")
print(json.dumps([name for name in slow if name in sys.modules]), file=sys.stderr)
sys.exit(status)
"""
FAILS_ONCE = """
import os, sys
from plimsoll.tracing.imports import transformers_parts
def fail():
    if "PLIMSOLL_ALL_IMPORTS" not in os.environ:
        raise RuntimeError("only with fewer imports")
transformers_parts.import_models = fail
from plimsoll.trace import main
sys.exit(main(sys.argv[1:], alone=True))
"""


class Traces(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.config = os.path.join(folder.name, "config.json")
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)

    def trace(self, program=TRACE, config=None, **environment):
        arguments = ["--config", config or self.config, "--batch", "2", "--seq", "16"]
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, *arguments],
            env={**os.environ, "PYTHONPATH": PACKAGE, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_lines_are_those_of_all_imports(self):
        fewer, all_of_them = self.trace(), self.trace(PLIMSOLL_ALL_IMPORTS="1")
        self.assertEqual((fewer.returncode, all_of_them.returncode), (0, 0), fewer.stderr)
        lines, whole = fewer.stdout.splitlines(), all_of_them.stdout.splitlines()
        # The last line has the time that it took.
        self.assertEqual(lines[:-1], whole[:-1])
        self.assertGreater(len(lines), 500)
        self.assertEqual(json.loads(fewer.stderr.splitlines()[-1]), [])
        self.assertIn("sympy.core", json.loads(all_of_them.stderr.splitlines()[-1]))

    def test_what_fails_runs_again_with_all_imports(self):
        ended = self.trace(FAILS_ONCE)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertTrue(json.loads(ended.stdout.splitlines()[-1])["end"])

    def test_a_bad_file_is_told_at_once(self):
        ended = self.trace(config=self.config + ".missing")
        self.assertEqual(ended.returncode, 2)
        self.assertEqual(json.loads(ended.stdout)["error"]["code"], "config-unreadable")


class Substitutes(unittest.TestCase):
    NAME = "plimsoll_tests_slow"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, self.NAME + ".py"), "w", encoding="utf-8") as file:
            file.write("answer = 42\ndef double(n): return 2 * n\n")
        sys.path.insert(0, folder.name)
        self.addCleanup(sys.path.remove, folder.name)
        self.addCleanup(sys.modules.pop, self.NAME, None)

    def test_known_names_import_nothing(self):
        Substitute(self.NAME, {"answer": 1}).place()
        self.assertEqual(__import__(self.NAME).answer, 1)
        self.assertIsInstance(sys.modules[self.NAME], Substitute)
        self.assertFalse(hasattr(sys.modules[self.NAME], "__file__"))

    def test_another_name_brings_the_real_module(self):
        Substitute(self.NAME).place()
        self.assertEqual(__import__(self.NAME).answer, 42)
        self.assertIs(type(sys.modules[self.NAME]), ModuleType)

    def test_a_deferred_function_needs_it_when_called(self):
        Substitute(self.NAME).defer("double").place()
        double = __import__(self.NAME).double
        self.assertIsInstance(sys.modules[self.NAME], Substitute)
        self.assertEqual(double(4), 8)
        self.assertIs(type(sys.modules[self.NAME]), ModuleType)


if __name__ == "__main__":
    unittest.main()
