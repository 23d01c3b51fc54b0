"""Two gloo ranks, one of which fails: no hang, the same parameters, exact gradients."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import warm
from free_port import free_port

from sdk import HANG_SECONDS, PACKAGE

FOLDER = os.path.dirname(os.path.abspath(__file__))
TRIALS = os.environ.get("PLIMSOLL_TEST_RANK_FAILURES", "12")


def run_ranks(script, *arguments, env=None):
    port = str(free_port())
    ranks = [
        warm.Popen(
            [sys.executable, os.path.join(FOLDER, script), str(rank), port, *arguments, PACKAGE],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )
        for rank in range(2)
    ]
    try:
        return [(*one.communicate(timeout=HANG_SECONDS), one.returncode) for one in ranks]
    finally:
        for one in ranks:
            one.kill()


class TwoRanks(unittest.TestCase):
    def test_one_fails_at_a_random_point(self):
        for out, err, status in run_ranks("two_ranks.py", TRIALS):
            self.assertEqual(status, 0, err)
            result = json.loads(out.splitlines()[-1])
            self.assertEqual((result["trials"], result["wrong"]), (int(TRIALS), []))

    def test_a_rank_that_gives_up_ends_the_other_with_a_word(self):
        (healthy, _, _), (failed, _, _) = run_ranks("one_gives_up.py", "ddp")
        self.assertIn("ended OutOfMemoryError", failed)
        self.assertIn("ended Failure rank-gone", healthy)

    def test_with_fsdp_the_others_do_not_hang_in_their_collectives(self):
        (healthy, _, _), (failed, _, _) = run_ranks("one_gives_up.py", "fsdp")
        self.assertIn("stepped [4, 4]", healthy)
        self.assertIn("stepped [4, 4]", failed)
        self.assertIn("ended OutOfMemoryError", failed)
        self.assertNotIn("went on", healthy)

    def test_with_fsdp_a_run_goes_on_from_its_checkpoint_and_counts_each_sample_once(self):
        fails_at, steps = 3, 6
        with tempfile.TemporaryDirectory() as folder:
            lives = [
                run_ranks("../sharding/sharded_ranks.py", folder, str(fails_at)) for _ in range(2)
            ]
        for rank in range(2):
            first, second = (
                [json.loads(line) for line in life[rank][0].splitlines()] for life in lives
            )
            trained = [line for line in (*first, *second) if "step" in line]
            self.assertEqual([line["step"] for line in first[:-1]], list(range(fails_at)))
            self.assertEqual([line["step"] for line in trained], list(range(steps)), lives)
            self.assertEqual({sum(line["parts"]) for line in trained}, {8})
            self.assertLess(max(line["off"] for line in trained), 1e-6)
            self.assertNotEqual(first[-1]["ended"], "done")
            self.assertEqual(second[-1]["ended"], "done")
            self.assertLess(second[-1]["off"], 1e-6)
        self.assertEqual(json.loads(lives[0][1][0].splitlines()[-1])["ended"], "OutOfMemoryError")
