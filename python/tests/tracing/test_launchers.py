"""What stands behind a launcher, and how many of it."""

import io
import json
import re
import tempfile
import unittest
from contextlib import redirect_stderr

import tracing  # noqa: F401 - puts the package on the path

from plimsoll.failure import Failure
from plimsoll_trace.programs.launchers import launch_of
from plimsoll_trace.programs.places import Places

TORCH, ACCELERATE = "torch.distributed.run", "accelerate.commands.launch"
CONFIG = """
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
mixed_precision: bf16
num_machines: 2
num_processes: 16
machine_rank: 0
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: Block
  fsdp_reshard_after_forward: true
"""


class Launchers(unittest.TestCase):
    def test_a_program_without_a_launcher_is_itself(self):
        for command in (["train.py", "-m", TORCH], ["-m", "package", "--nproc-per-node=4"]):
            launch = launch_of(command, Places())
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
            launch = launch_of(["-m", TORCH, *words], Places(8))
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
        places = Places()
        launch = launch_of(["-m", ACCELERATE, *words], places)
        self.assertEqual((launch.program, launch.processes), (["train.py", "--lr", "1"], 2))
        self.assertEqual(launch.environment["ACCELERATE_MIXED_PRECISION"], "bf16")
        self.assertNotIn("ACCELERATE_USE_FSDP", launch.environment)
        self.assertEqual(places.cards, 2)

    def test_accelerate_reads_its_own_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(CONFIG)
            file.flush()
            words = ["--config_file", file.name, "-m", "package.train", "x"]
            launch = launch_of(["-m", ACCELERATE, *words], Places())
        self.assertEqual(launch.program, ["-m", "package.train", "x"])
        self.assertEqual((launch.processes, launch.nodes, launch.of_a_node), (16, 2, 8))
        told = {
            "ACCELERATE_USE_FSDP": "true",
            "FSDP_VERSION": "2",
            "FSDP_TRANSFORMER_CLS_TO_WRAP": "Block",
            "ACCELERATE_MIXED_PRECISION": "bf16",
        }
        self.assertEqual({name: launch.environment.get(name) for name in told}, told)

    def test_what_cannot_be_traced_is_refused(self):
        for words, code in (
            ([TORCH, "--nproc-per-node=2"], "program-missing"),
            ([ACCELERATE, "--use_deepspeed", "train.py"], "program-sharded"),
            ([ACCELERATE, "--config_file", "no-such.yaml", "train.py"], "launcher-refused"),
            ([ACCELERATE, "--use_fsdp", "--multi_gpu", "train.py"], "launcher-refused"),
            ([ACCELERATE, "--no-such-option", "train.py"], "launcher-refused"),
        ):
            with self.assertRaises(Failure) as raised, redirect_stderr(io.StringIO()):
                launch_of(["-m", *words], Places())
            self.assertEqual(raised.exception.code, code, words)

    def test_a_library_that_is_not_traced_is_refused_with_the_way_to_ask_for_instead(self):
        megatron = [ACCELERATE, "--use_megatron_lm"]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"zero_optimization": {"stage": 1}}, file)
            file.flush()
            settings = f"--deepspeed_config_file={file.name}"
            for words, way in (
                # accelerate's own where nothing says one.
                ([ACCELERATE, "--use_deepspeed"], "zero2"),
                ([ACCELERATE, "--use_deepspeed", "--zero_stage=3"], "zero3"),
                ([ACCELERATE, "--use_deepspeed", settings], "zero1"),
                ([*megatron, "--megatron_lm_tp_degree=4"], "tp"),
                ([*megatron, "--megatron_lm_tp_degree=4", "--megatron_lm_pp_degree=2"], None),
            ):
                with self.assertRaises(Failure) as raised, redirect_stderr(io.StringIO()):
                    launch_of(["-m", *words, "train.py"], Places())
                self.assertEqual(raised.exception.code, "program-sharded", words)
                named = re.search(r"--parallel (\w+)", raised.exception.next_step)
                self.assertEqual(named and named.group(1), way, words)


if __name__ == "__main__":
    unittest.main()
