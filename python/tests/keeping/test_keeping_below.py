"""Loops whose memory grows, under a real limit of the host: sizes change before it is reached."""

import json
import os
import sys
import unittest

import warm

FOLDER = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(os.path.dirname(FOLDER))
LIMIT_BYTES = 800 * 2**20


def run(case, way):
    """A process of its own: the limit on its data is a real one, and is not taken back."""
    done = warm.run(
        [sys.executable, "-W", "ignore", os.path.join(FOLDER, "growing.py"), case, way, PACKAGE],
        env={**os.environ, "PLIMSOLL_MEMORY_BYTES": str(LIMIT_BYTES)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else {"ended": done.stderr[-800:]}


class KeepingBelow(unittest.TestCase):
    def check(self, case):
        ahead = run(case, "ahead")
        self.assertEqual(ahead.get("failures"), 0, ahead)
        self.assertLess(ahead["share"], 0.9)
        self.assertLess(ahead["sizes"][-1], ahead["sizes"][0])
        after = run(case, "after")
        # The same loop without it does run out, or fills more than the load line.
        self.assertTrue("ended" in after or after["failures"] > 0 or after["share"] > 0.9, after)

    def test_a_step_whose_program_keeps_more_and_more(self):
        self.check("kept")

    def test_a_step_whose_samples_get_longer(self):
        self.check("longer")

    def test_batches_of_a_program_that_keeps_its_results(self):
        self.check("batches")
