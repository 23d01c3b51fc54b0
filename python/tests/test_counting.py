"""The counts that `npm test` adds up: a test counts once, whatever happens inside of it."""

import importlib.util
import io
import os
import unittest

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


if __name__ == "__main__":
    unittest.main()
