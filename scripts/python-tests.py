"""Runs the tests in python/tests and writes their true counts, as JSON, to the file named."""

import json
import os
import sys
import unittest


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


def main(output):
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python", "tests")
    suite = unittest.defaultTestLoader.discover(os.path.normpath(folder))
    runner = unittest.TextTestRunner(resultclass=Counted, warnings="ignore")
    counts = runner.run(suite).counts()
    with open(output, "w", encoding="utf-8") as file:
        json.dump(counts, file)
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
