"""Runs the tests in python/tests and writes their true counts, as JSON, to the file named.

Three processes take one file of tests after another. What a file printed is shown when it is done, with the time
that it took.
"""

from __future__ import annotations

import faulthandler
import io
import json
import multiprocessing
import pathlib
import sys
import time
import unittest
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool

# Many tests wait for other processes: three files at a time even on two cores.
PROCESSES = 3
# A file that takes longer hangs: what each of its threads waits for is printed, and its process ends.
LONGEST_SECONDS = 1800
# How many of the slowest files are named at the end.
NAMED = 10


class Counted(unittest.TextTestResult):
    """A test counts once, however many of its subtests fail."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.passed += 1

    def counts(self):
        troubles = [*(test for test, _ in self.failures + self.errors), *self.unexpectedSuccesses]
        # A subtest belongs to a test; an error outside of tests stands for itself.
        failed = {getattr(test, "test_case", test).id() for test in troubles}
        left_out = [f"{test.id()}: {why}" for test, why in self.skipped]
        return {"passed": self.passed, "failed": len(failed), "leftOut": left_out}


def run_file(folder: str, name: str) -> tuple[dict, str, float]:
    """The counts of one file of tests, what it printed, and its seconds."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True, file=sys.__stderr__)
    began, printed = time.monotonic(), io.StringIO()
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    runner = unittest.TextTestRunner(printed, resultclass=Counted, warnings="ignore")
    counts = runner.run(suite).counts()
    faulthandler.cancel_dump_traceback_later()
    return counts, printed.getvalue(), time.monotonic() - began


def result_of(running: Future) -> tuple[dict, str, float]:
    try:
        return running.result()
    except BrokenProcessPool as error:
        return {"passed": 0, "failed": 1, "leftOut": []}, f"{error}\n", 0.0


def main(output):
    folder = pathlib.Path(__file__).resolve().parent.parent / "python" / "tests"
    names = [
        ".".join(file.relative_to(folder).with_suffix("").parts)
        for file in sorted(folder.rglob("test_*.py"))
    ]
    counts = {"passed": 0, "failed": 0, "leftOut": []}
    took = []
    # Not daemons, as those of `Pool` are: tests start processes of their own.
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=spawn) as pool:
        running = {pool.submit(run_file, str(folder), name): name for name in names}
        for done in as_completed(running):
            found, printed, seconds = result_of(done)
            took.append((seconds, running[done]))
            print(f"{running[done]}: {seconds:.0f} s\n{printed}", flush=True)
            for key, value in found.items():
                counts[key] += value
    slowest = ", ".join(
        f"{name} {seconds:.0f} s" for seconds, name in sorted(took)[: -NAMED - 1 : -1]
    )
    print(f"The slowest files: {slowest}.")
    with open(output, "w", encoding="utf-8") as file:
        json.dump(counts, file)
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
