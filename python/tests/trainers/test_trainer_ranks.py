"""Two ranks of a Trainer under DDP: a rank that runs out of memory does not block the other."""

import json
import os
import subprocess
import sys
import unittest

import warm
from free_port import free_port

from trainers import PACKAGE

TRIALS = 12


class Ranks(unittest.TestCase):
    def test_failures_on_one_rank_are_recovered_and_both_agree(self):
        here = os.path.dirname(os.path.abspath(__file__))
        shared = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([PACKAGE, os.path.dirname(here)]),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "ACCELERATE_USE_CPU": "true",
        }
        ranks = [
            warm.Popen(
                [sys.executable, "-W", "ignore", os.path.join(here, "two_ranks.py"), str(TRIALS)],
                env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        for rank in ranks:
            said, errors = rank.communicate(timeout=600)
            done = [json.loads(line) for line in said.splitlines() if line.startswith('{"point"')]
            self.assertEqual(len(done), TRIALS, errors[-3000:])
            for trial in done:
                self.assertTrue(trial["failed"] and trial["same"], trial)
                self.assertEqual(trial["samples"], 12, "half of the samples, each once")
                # Adam makes rounding of small gradients visible: parts are summed in another order.
                self.assertLess(trial["off"], 1e-3, trial)
