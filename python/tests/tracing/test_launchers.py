"""What stands behind a launcher, and how many of it."""

import unittest

import tracing  # noqa: F401 - puts the package on the path

from plimsoll.failure import Failure
from plimsoll.tracing.programs.launchers import launch_of

TORCH, ACCELERATE = "torch.distributed.run", "accelerate.commands.launch"


class Launchers(unittest.TestCase):
    def test_a_program_without_a_launcher_is_itself(self):
        for command in (["train.py", "-m", TORCH], ["-m", "package", "--nproc-per-node=4"]):
            launch = launch_of(command, 1)
            self.assertEqual((launch.program, launch.processes), (command, 1))

    def test_options_are_the_launchers_until_the_program_begins(self):
        cases = [
            (["--nproc-per-node", "4", "train.py", "--nproc-per-node", "9"], 4),
            (["--standalone", "--nproc_per_node=2", "--nnodes=2", "train.py"], 4),
            (["--nproc-per-node=gpu", "train.py"], 8),
            (["--nnodes=1:3", "--nproc-per-node=2", "-m", "pkg.train", "x"], 6),
            (["train.py"], 1),
        ]
        for words, processes in cases:
            launch = launch_of(["-m", TORCH, *words], 8)
            self.assertEqual(launch.processes, processes, words)
            self.assertIn(launch.program[0], ("train.py", "-m"))
        self.assertEqual(launch.program, ["train.py"])

    def test_accelerate_hands_its_precision_on(self):
        words = [
            "--num_processes",
            "2",
            "--multi_gpu",
            "--mixed_precision=bf16",
            "train.py",
            "--lr",
            "1",
        ]
        launch = launch_of(["-m", ACCELERATE, *words], 1)
        self.assertEqual((launch.program, launch.processes), (["train.py", "--lr", "1"], 2))
        self.assertEqual(launch.environment, {"ACCELERATE_MIXED_PRECISION": "bf16"})

    def test_what_cannot_be_traced_is_refused(self):
        for words, code in (
            (["--nproc-per-node=2"], "program-missing"),
            (["--use_fsdp", "train.py"], "program-sharded"),
        ):
            with self.assertRaises(Failure) as raised:
                launch_of(["-m", ACCELERATE, *words], 1)
            self.assertEqual(raised.exception.code, code)


if __name__ == "__main__":
    unittest.main()
