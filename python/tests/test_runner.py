"""The runner of these tests: its counts, and processes forked from one that has torch loaded."""

import gc
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch

import warm
from warm import PACKAGE

from plimsoll_trace.weak_table import WeakTable

_PATH = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "python-tests.py"
)
_SPEC = importlib.util.spec_from_file_location("python_tests", _PATH)
runner = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(runner)


def counts(suite):
    return unittest.TextTestRunner(io.StringIO(), resultclass=runner.Counted).run(suite).counts()


class Mixed(unittest.TestCase):
    """Not found by itself: its tests are no `test_`."""

    def check_passes(self):
        pass

    def check_fails_in_three_parts(self):
        for part in range(4):
            with self.subTest(part=part):
                self.assertEqual(part, 0)

    def check_breaks(self):
        raise OSError("no disk")

    def check_does_not_apply(self):
        self.skipTest("no such card")

    @unittest.expectedFailure
    def check_is_known_to_fail(self):
        self.fail()


class Counting(unittest.TestCase):
    def test_counts_tests_and_not_their_parts(self):
        names = [name for name in dir(Mixed) if name.startswith("check_")]
        result = counts(unittest.TestSuite(Mixed(name) for name in names))
        self.assertEqual((result["passed"], result["failed"]), (2, 2))
        self.assertEqual(len(result["leftOut"]), 1)
        self.assertTrue(result["leftOut"][0].endswith("check_does_not_apply: no such card"))

    def test_counts_what_breaks_before_its_first_test(self):
        class Broken(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                raise OSError("no disk")

            def test_never_runs(self):
                pass

        suite = unittest.defaultTestLoader.loadTestsFromTestCase(Broken)
        self.assertEqual(counts(suite), {"passed": 0, "failed": 1, "leftOut": []})


GOOD = """
import unittest
class First(unittest.TestCase):
    pass
class Second(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print("prepared")
def note(self):
    print("ran", self.id(), flush=True)
for number in range(20):
    setattr(First, f"test_{number}", note)
    setattr(Second, f"test_{number}", note)
"""
FILES = {
    "test_good": GOOD,
    "more/test_fails": GOOD
    + "    if number == 7: First.test_7 = lambda self: self.fail('no disk')\n",
    "test_skips": "import unittest\nraise unittest.SkipTest('no such card')\n",
    "test_breaks": "raise ValueError('no disk')\n",
    "test_dies": "import os, unittest\nclass A(unittest.TestCase):\n def test(self): os.abort()\n",
    # What one file leaves behind, no other finds.
    "test_leaves": "import sys, unittest\nsys.left = True\nclass A(unittest.TestCase):\n"
    " def test(self): sys.modules['more'] = None\n",
    "test_looks": "import sys, unittest\nclass A(unittest.TestCase):\n"
    " def test(self): self.assertFalse(hasattr(sys, 'left'))\n",
}


class Running(unittest.TestCase):
    def run_files(self, *arguments):
        """What it printed, and what it wrote."""
        # It is found by the processes that are started here.
        warm.started()
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "more"))
            for name, text in {**FILES, "more/__init__": ""}.items():
                with open(os.path.join(folder, f"{name}.py"), "w", encoding="utf-8") as file:
                    file.write(text)
            output = os.path.join(folder, "counts.json")
            done = subprocess.run(
                [sys.executable, _PATH, "--output", output, "--tests", folder, *arguments],
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.stderr, "")
            with open(output, encoding="utf-8") as file:
                counts = json.load(file)
        self.assertEqual(done.returncode, 1 if counts["failed"] else 0)
        return done.stdout, counts

    def test_a_file_that_dies_breaks_or_is_skipped_counts_and_no_other_notices(self):
        printed, counts = self.run_files("--seed", "7")
        self.assertEqual((counts["passed"], counts["failed"]), (40 + 39 + 2, 3))
        self.assertEqual(counts["leftOut"], ["test_skips: no such card"])
        self.assertEqual((counts["seed"], counts["otherTier"]), (7, 0))
        names = {one["name"] for one in counts["files"]}
        self.assertEqual(names, {name.replace("/", ".") for name in FILES})
        for said in ("--seed 7", "no disk", "test_dies: its process ended with -6", "40 passed"):
            self.assertIn(said, printed)

    def test_the_order_is_that_of_the_seed_and_a_class_is_prepared_once(self):
        orders = []
        for seed in ("1", "1", "2"):
            printed, counts = self.run_files("--seed", seed, "more.test_fails")
            self.assertEqual((counts["passed"], counts["failed"]), (39, 1))
            self.assertEqual(printed.count("prepared"), 1)
            orders.append(re.findall(r"ran (\S+)", printed))
        self.assertEqual(len(orders[0]), 39)
        self.assertEqual(orders[0], orders[1])
        self.assertNotEqual(orders[0], orders[2])
        self.assertEqual(sorted(orders[0]), sorted(orders[2]))

    def test_the_parts_of_a_file_are_the_file(self):
        with mock.patch.dict(sys.modules), mock.patch.object(sys, "path", [*sys.path]):
            made = sys.modules["made_up"] = types.ModuleType("made_up")
            exec(GOOD, made.__dict__)
            parts = [runner.chosen("made_up", "all", part, 3)[0] for part in range(3)]
        ids = [test.id() for tests in parts for test in tests]
        self.assertEqual((len(ids), len(set(ids))), (40, 40))
        self.assertTrue(all(parts))
        together = [{type(test).__name__ for test in tests} for tests in parts]
        self.assertEqual(sum("Second" in names for names in together), 1)

    def test_each_test_belongs_to_one_tier(self):
        made = sys.modules["made_up"] = types.ModuleType("made_up")
        self.addCleanup(sys.modules.pop, "made_up")
        exec(GOOD, made.__dict__)
        smoke = ("made_up.Second.test_3", "made_up.Second.test_4")
        with mock.patch.multiple(runner, SECOND_TIER=("made_up.Second",), SMOKE=smoke):
            first, rest, both = (
                runner.chosen("made_up", one, 0, 1) for one in ("first", "rest", "all")
            )
        self.assertEqual((len(first[0]), first[1]), (22, 18))
        self.assertEqual((len(rest[0]), rest[1]), (18, 22))
        self.assertEqual((len(both[0]), both[1]), (40, 0))

    def test_the_longest_files_begin_first_and_each_part_of_them_once(self):
        tables = {"PARTS": {"long": 2, "second": 3}, "SECOND_TIER": ("second",), "SMOKE": ()}
        names = ["one", "long", "second", "two", "three"]
        with mock.patch.multiple(runner, **tables):
            orders = [runner.in_order(names, tier, 5) for tier in ("first", "all", "all")]
        long, second = [("long", part, 2) for part in range(2)], [("second", 0, 1)]
        rest = [(name, 0, 1) for name in ("one", "three", "two")]
        self.assertEqual(sorted(orders[0][:3]), long + second)
        self.assertEqual(sorted(orders[0][3:]), rest)
        self.assertEqual(sorted(orders[1][:5]), long + [("second", part, 3) for part in range(3)])
        self.assertEqual(sorted(orders[1][5:]), rest)
        self.assertEqual(orders[1], orders[2])

    def test_what_the_tables_name_is_there(self):
        files = runner.modules(runner.TESTS)
        for name in {*runner.SECOND_TIER, *runner.SMOKE, *runner.PARTS}:
            if any(file.startswith(f"{name}.") for file in files):
                # A package.
                continue
            [module] = [file for file in files if f"{name}.".startswith(f"{file}.")]
            with open(
                os.path.join(runner.TESTS, *module.split(".")) + ".py", encoding="utf-8"
            ) as file:
                text = file.read()
            for part in filter(None, name[len(module) + 1 :].split(".")):
                self.assertRegex(text, rf"(class|def) {part}\b", name)
        self.assertTrue(all(map(runner.is_second, runner.SECOND_TIER)))
        self.assertFalse(any(map(runner.is_second, runner.SMOKE)))
        for name in runner.SMOKE:
            with mock.patch.object(runner, "SMOKE", ()):
                self.assertTrue(runner.is_second(name), name)


# What is known of objects is forgotten with them.


class Gone(unittest.TestCase):
    def test_what_is_known_of_an_object_ends_with_it(self):
        known = WeakTable()
        first = torch.nn.Linear(2, 2)
        known.add(first, "head")
        known.add(first, "another")
        self.assertIn(first, known)
        self.assertEqual(known.of(first, ""), "head")
        number = id(first)
        del first
        gc.collect()
        # Until one of the new ones gets the number of the old.
        others = []
        while len(others) < 10_000 and (not others or id(others[-1]) != number):
            others.append(torch.nn.Linear(2, 2))
        self.assertFalse([one for one in others if one in known])
        self.assertEqual(known.of(others[-1], "none"), "none")

    def test_tensors_are_not_compared(self):
        known = WeakTable()
        weight, same = torch.ones(3), torch.ones(3)
        known.add(weight, None)
        self.assertIn(weight, known)
        self.assertNotIn(same, known)


SELF = """
import os, signal, sys, warnings
print(sys.argv, sys.orig_argv, sys.path, sys.warnoptions, os.getcwd())
print(__name__, __spec__, sorted(globals()), globals().get("__file__"), globals().get("__cached__"))
print(sorted(os.environ.items()), sorted(os.listdir("/proc/self/fd")), os.getpgid(0) == os.getpid())
print([signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE)])
print(sys.stdin, [(one.name, one.encoding, one.errors, one.line_buffering) for one in (sys.stdout, sys.stderr)])
print(sys.stdin.read(), sys.dont_write_bytecode)
"""
ENDS = (
    "1 / 0",
    "print(1",
    "raise KeyboardInterrupt",
    "import sys; sys.exit()",
    "import sys; sys.exit(True)",
    "import sys; sys.exit('no disk')",
    "import sys; sys.exit(300)",
    "import os; os.abort()",
    "import os; print('lost', end=''); os._exit(3)",
    "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "import atexit, threading, time\natexit.register(print, 'last')\n"
    "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nprint('first')",
    "class A:\n def __del__(self): print('gone')\none, two = A(), A()\ntwo.two = two",
    "import os, sys\nif os.fork() == 0: sys.exit(print('fork'))\nos.wait()",
    "import multiprocessing as m\nwith m.get_context('fork').Pool(1) as p: print(p.map(abs, [-1]))",
)
# Programs that go different ways through the tracer.
TRACED = {
    "a loop": """
import torch
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(50):
    loss = model(torch.randn(32, 64, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
""",
    "images with autocast": """
import torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.randn(64, 3, 32, 32), torch.randint(10, (64,)))
model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
).cuda()
scaler, optimizer = torch.amp.GradScaler(), None
for epoch in range(3):
    for images, labels in DataLoader(data, 16, shuffle=True, num_workers=2):
        with torch.autocast("cuda", torch.float16):
            loss = torch.nn.functional.cross_entropy(model(images.cuda()), labels.cuda())
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
""",
    "a compiled encoder": """
import torch
layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
model = torch.compile(torch.nn.TransformerEncoder(layer, 2).cuda())
optimizer = torch.optim.Adam(model.parameters())
for step in range(5):
    model(torch.randn(8, 16, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
""",
    "texts of transformers": """
import torch
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=64, n_head=2, vocab_size=500)).cuda().eval()
with torch.no_grad():
    print(model.generate(torch.ones(2, 5, dtype=torch.long, device="cuda"), max_new_tokens=12, do_sample=False).shape)
""",
}


class Forked(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.write("own.py", SELF)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def same(self, *words, **options):
        options = {"cwd": self.folder, "capture_output": True, "text": True, **options}
        command = [sys.executable, *words]
        before = warm.Popen.processor_seconds
        forked = warm.run(command, **options)
        self.assertGreater(warm.Popen.processor_seconds, before, "It was not forked.")
        real = subprocess.run(command, check=False, **options)
        self.assertEqual(vars(forked), vars(real))

    def test_it_finds_itself_as_every_program_does(self):
        environment = {**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": "1"}
        for words in (
            ["-c", SELF],
            ["-W", "ignore", "-c", SELF, "a", "-b"],
            ["own.py", "a"],
            ["-u", os.path.join(self.folder, "own.py"), "-c", "a"],
            ["-m", "this"],
        ):
            for env in (None, environment, {**environment, "PYTHONDONTWRITEBYTECODE": "1"}):
                with self.subTest(words=words, env=env is environment):
                    self.same(*words, env=env, input="käse\n")

    def test_it_ends_as_every_program_does(self):
        for text in ENDS:
            with self.subTest(text):
                self.write("ends.py", text)
                self.same("ends.py")
                self.same("-c", text)

    def test_its_files_are_those_it_was_given(self):
        with open(os.path.join(self.folder, "own.txt"), "w+b") as file:
            text = "import sys; print(1, flush=True); print(2, file=sys.stderr); print(input())"
            done = warm.run(
                [sys.executable, "-c", text], input=b"3", stdout=file, stderr=subprocess.STDOUT
            )
            file.seek(0)
            self.assertEqual((done.returncode, file.read()), (0, b"1\n2\n3\n"))

    def test_it_can_be_waited_for_signalled_and_killed(self):
        text = "import time; print(1, flush=True); time.sleep(600)"
        command = [sys.executable, "-c", text]
        with self.assertRaises(subprocess.TimeoutExpired):
            warm.run(command, capture_output=True, timeout=0.2)
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT):
            with warm.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
                process.stdout.readline()
                self.assertIsNone(process.poll())
                os.kill(process.pid, number)
                self.assertEqual((process.wait(), process.poll()), (-number, -number))

    def test_each_draws_numbers_of_its_own(self):
        text = "import random, numpy, torch; print(random.random(), numpy.random.rand(), torch.rand(1))"
        drawn = [
            warm.run([sys.executable, "-c", text], capture_output=True, check=True).stdout.split()
            for _ in range(2)
        ]
        for first, second in zip(*drawn):
            self.assertNotEqual(first, second)

    def test_torch_is_loaded_and_nothing_of_ours(self):
        text = "import sys; print('torch' in sys.modules, [n for n in sys.modules if 'plimsoll' in n or n == 'warm'])"
        done = warm.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.stderr), ("True []\n", ""))

    def test_what_a_fork_cannot_give_is_started_by_python(self):
        text = "import sys; print('torch' in sys.modules)"
        self.write("sitecustomize.py", "")
        self.write("plimsoll_trace/__init__.py", "")
        self.write("plimsoll_trace/__main__.py", text)
        self.write("other/plimsoll_trace/__init__.py", "")
        self.write("other/plimsoll_trace/__main__.py", text)
        for words, variables in (
            (["-S", "-c", text], {}),
            (["-c", text], {"MALLOC_MMAP_THRESHOLD_": "65536"}),
            (["-c", text], {"PYTHONPATH": self.folder}),
            # Another package of this name.
            (["-m", "plimsoll_trace"], {"PYTHONPATH": self.folder}),
            (["-m", "plimsoll_trace"], {"PYTHONPATH": os.path.join(self.folder, "other")}),
        ):
            with self.subTest(words=words, variables=variables):
                done = warm.run(
                    [sys.executable, *words],
                    env={**os.environ, **variables},
                    capture_output=True,
                    text=True,
                )
                self.assertEqual((done.stdout, done.stderr), ("False\n", ""))


class Traces(unittest.TestCase):
    def test_the_lines_of_a_trace_are_those_of_a_process_of_its_own(self):
        for name, program in TRACED.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                    file.write(program)
                lines = [self.traced(start, folder) for start in (warm.run, subprocess.run)]
                self.assertGreater(len(lines[0]), 20)
                self.assertEqual(*lines)

    def traced(self, start, folder):
        output = os.path.join(folder, "trace.jsonl")
        command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
        done = start(
            [*command, "--program", "train.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": PACKAGE},
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(output, encoding="utf-8") as file:
            *lines, footer = map(json.loads, file)
        del footer["seconds"]
        return [*lines, footer]


if __name__ == "__main__":
    unittest.main()
