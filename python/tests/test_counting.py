"""The counts that `npm test` adds up: a test counts once, whatever happens inside of it."""

import gc
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch
import warm

from tracing import PACKAGE  # noqa: F401 - puts the package on the path

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


if __name__ == "__main__":
    unittest.main()
