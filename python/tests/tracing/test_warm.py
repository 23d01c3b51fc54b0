"""A tracer that stays: what its forks answer, what they inherit, and how it ends."""

import contextlib
import gc
import json
import os
import subprocess
import sys
import tempfile
import unittest
import weakref
from types import ModuleType

import torch
import torch.nn.functional as F

from tracing.test_command import SCRIPT, Scripts, run
from tracing.watching import watched
from warm import PACKAGE

from plimsoll_trace.imports.fewer import Substitute

HANGS = "import time\n\ndef workload():\n    time.sleep(1000)\n"
FILES = (
    SCRIPT
    + """
import os, sys
held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
open(sys.argv[0] and %r, "w").write(repr([path for path in held if not path.endswith(".crash")]))
"""
)


@unittest.skipUnless(sys.platform == "linux", "processes are forked")
class Warm(Scripts):
    def setUp(self):
        super().setUp()
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--warm"]
        pipe = subprocess.PIPE
        self.tracer = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, text=True)
        self.addCleanup(self.end)
        self.assertEqual(self.hear(), {"ready": True})

    def end(self):
        self.tracer.stdin.close()
        self.tracer.stdout.close()
        self.tracer.wait()

    def hear(self):
        return json.loads(self.tracer.stdout.readline())

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def ask(self, ident, *args):
        question = {
            "id": ident,
            "args": [*args, "--output", self.path("trace.jsonl")],
            "stdout": self.path("stdout"),
            "stderr": self.path("stderr"),
            "temporary": self.folder.name,
        }
        self.tracer.stdin.write(json.dumps(question) + "\n")
        self.tracer.stdin.flush()
        started = self.hear()
        self.assertEqual(started["id"], ident)
        return started["pid"]

    def test_questions_are_answered_each_by_itself(self):
        # One after another: what it takes to start is seconds.
        self.same_answers_as_a_process_of_its_own()
        self.an_error_is_that_of_the_question_alone()
        self.a_fork_has_no_pipe_of_the_tracer()
        self.it_ends_with_its_input_and_takes_what_runs_with_it()

    def same_answers_as_a_process_of_its_own(self):
        self.assertEqual(os.listdir(f"/proc/{self.tracer.pid}/task"), [str(self.tracer.pid)])
        script = self.script()
        _, cold = run("--script", script, "--steps", "2")
        for ident in (1, 2):
            self.ask(ident, "--script", script, "--steps", "2")
            self.assertEqual(self.hear(), {"id": ident, "status": 0, "signal": None})
            with open(self.path("trace.jsonl"), encoding="utf-8") as file:
                warm = [json.loads(line) for line in file]
            self.assertEqual(warm[1:-1], cold[1:-1])

    def an_error_is_that_of_the_question_alone(self):
        self.ask(1, "--config", self.path("none.json"))
        self.assertEqual(self.hear(), {"id": 1, "status": 2, "signal": None})
        with open(self.path("stdout"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["error"]["code"], "config-unreadable")
        self.ask(2, "--script", self.script(), "--steps", "1")
        self.assertEqual(self.hear()["status"], 0)

    def a_fork_has_no_pipe_of_the_tracer(self):
        self.ask(1, "--script", self.script(FILES % self.path("files")), "--steps", "1")
        self.assertEqual(self.hear()["status"], 0)
        with open(self.path("files"), encoding="utf-8") as file:
            # Its own three, and the folder that is being listed. Left out is the file for a crash, which a trace holds
            # on purpose.
            self.assertLessEqual(len(eval(file.read())), 4)

    def it_ends_with_its_input_and_takes_what_runs_with_it(self):
        pid = self.ask(1, "--script", self.script(HANGS))
        self.tracer.stdin.close()
        self.assertEqual(self.tracer.wait(), 0)
        # It may go at any point of the look.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            while True:
                with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                    if " Z " in file.read():
                        break


# A trace in a process of its own: fewer imports, the same lines, and everything where that fails.

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
from plimsoll_trace.__main__ import main
status = main(sys.argv[1:], alone=True)
slow = ("sympy.core", "accelerate", "torch.distributed.tensor", "torch._dynamo.convert_frame")
print(json.dumps([name for name in slow if name in sys.modules]), file=sys.stderr)
sys.exit(status)
"""
FAILS_ONCE = """
import os, sys
from plimsoll_trace.imports import fewer
def fail():
    if "PLIMSOLL_ALL_IMPORTS" not in os.environ:
        raise RuntimeError("only with fewer imports")
fewer.import_models = fail
from plimsoll_trace.__main__ import main
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


# A trace puts back everything it replaced in PyTorch.


class NothingChanged(unittest.TestCase):
    def test_functions_and_classes_are_the_same_afterwards(self):
        def state():
            return (
                torch.tensor,
                torch.set_autocast_enabled,
                torch.clear_autocast_cache,
                torch.is_autocast_enabled,
                torch.nn.Module.__call__,
                torch.Tensor.__setitem__,
                torch.autocast.__init__,
                torch.nn.RNNBase.flatten_parameters,
                torch.utils.checkpoint._infer_device_type,
                torch.fx.experimental._config.meta_nonzero_assume_all_nonzero,
                torch.utils._foreach_utils._get_foreach_kernels_supported_devices,
            )

        before = state()
        with watched():
            self.assertNotEqual(state(), before)
        self.assertEqual(state(), before)

    def test_ops_on_meta_run_as_before(self):
        with watched():
            pass
        x = torch.empty(4, 4, device="meta", requires_grad=True)
        self.assertIn("Mul", F.dropout(x, 0.5, True).grad_fn.name())
        self.assertEqual((x @ x).dtype, torch.float32)

    def test_no_function_takes_the_number_of_one_that_torchscript_was_told_of(self):
        with watched():
            known = [weakref.ref(torch.tensor), weakref.ref(torch.as_tensor)]
        gc.collect()
        self.assertNotIn(None, [function() for function in known])

    def test_it_is_put_back_after_an_error_too(self):
        call = torch.nn.Module.__call__
        with self.assertRaises(ZeroDivisionError), watched():
            raise ZeroDivisionError
        self.assertIs(torch.nn.Module.__call__, call)


if __name__ == "__main__":
    unittest.main()
