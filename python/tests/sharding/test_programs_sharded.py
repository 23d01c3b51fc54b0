"""Programs with FSDP as they are: one rank is run, and holds its share."""

import json
import os
import re
import sys
import tempfile
import types
import unittest
from unittest import mock

import warm

from plimsoll.failure import Failure
from plimsoll_trace.programs.distributed import uncounted
from plimsoll_trace.standins.patches import Patches
from sharding import PACKAGE

WIDTH, RANKS = 256, 4
LAYER = 2 * WIDTH * WIDTH
TORCHRUN = ("torch.distributed.run", f"--nproc-per-node={RANKS}")
BUILD = f"""
import os, torch, torch.distributed as dist
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3), persistent=False)
        self.a, self.b = (nn.Linear({WIDTH}, {WIDTH}, bias=False) for _ in range(2))
    def forward(self, x):
        return self.b(self.a(x).relu())

model = nn.Sequential(Block(), Block(), Block())
"""
STEPS = f"""
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(3):
    model(torch.randn(8, {WIDTH}, device="cuda")).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""
FSDP2 = f"""
from torch.distributed.fsdp import fully_shard, MixedPrecisionPolicy
dist.init_process_group("nccl")
assert torch.cuda.device_count() == {RANKS} == dist.get_world_size()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in model:
    fully_shard(block, mp_policy=policy)
fully_shard(model, mp_policy=policy)
shard = next(model.parameters())
assert (shard.device.type, shard.to_local().device.type) == ("cuda", "cuda"), shard.device
"""
FSDP1 = """
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
dist.init_process_group("nccl")
model = FullyShardedDataParallel(
    model, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=0, use_orig_params=True
)
"""
# Shards, their gradients and the optimizer's states lie on the host.
FSDP2_ON_HOST = """
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
dist.init_process_group("nccl")
for block in model:
    fully_shard(block, offload_policy=CPUOffloadPolicy())
fully_shard(model, offload_policy=CPUOffloadPolicy())
shard = next(model.parameters())
assert (shard.device.type, shard.to_local().device.type) == ("cpu", "cpu"), shard.device
"""
FSDP1_ON_HOST = FSDP1.replace("use_orig_params=True", "cpu_offload=CPUOffload(offload_params=True)")
FSDP1_ON_HOST = FSDP1_ON_HOST.replace("import Fully", "import CPUOffload, Fully")
# Two machines with two GPUs each: shards within a machine, copies between them.
HSDP = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("replicate", "shard"))
for block in model:
    fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)
"""
TENSOR_PARALLEL = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
dist.init_process_group("nccl")
model = model.to("cuda")
mesh = init_device_mesh("cuda", (dist.get_world_size(),))
for block in model:
    parallelize_module(block, mesh, {"a": ColwiseParallel(), "b": RowwiseParallel()})
"""
# Forward is computed again in backward, from inside of the pretended GPU.
CHECKPOINTED = BUILD.replace(
    "return self.b(self.a(x).relu())",
    "from torch.utils.checkpoint import checkpoint\n"
    "        return checkpoint(lambda y: self.b(self.a(y).relu()), x, use_reentrant=False)",
)
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer = accelerator.prepare(model, optimizer)
"""


class ShardedPrograms(unittest.TestCase):
    def trace(self, text, *launcher):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "train.py"), "w", encoding="utf-8") as file:
                file.write(text)
            output = os.path.join(folder, "trace.jsonl")
            command = [sys.executable, "-W", "ignore", "-m", "plimsoll_trace", "--output", output]
            done = warm.run(
                [*command, "--program", "-m", *launcher, "train.py"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": PACKAGE, "PLIMSOLL_DEBUG": ""},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(output, encoding="utf-8") as file:
                _, *events, footer = map(json.loads, file)
        return [e for e in events if e[0] == "a"], footer

    def check(self, requests, footer, way, shard, gathered, **more):
        spread = {"way": way, "gpus": RANKS, "nodes": 1, "tensorParallel": 1, **more}
        self.assertEqual(footer["parallel"], spread)
        self.assertEqual(footer["parameters"], 3 * LAYER)
        self.assertEqual(footer["notes"], [])
        states = [e[2] for e in requests if e[5] == "o" and e[2] > 4096]
        self.assertEqual(set(states), {shard})
        gathers = [e for e in requests if e[5] == "p" and len(e) > 6 and e[2] == gathered]
        # Forward of each layer in each step at the least, on a stream of its own.
        self.assertGreaterEqual(len(gathers), 9)
        return gathers

    def test_fully_shard_holds_a_share_and_gathers_on_its_own_stream(self):
        requests, footer = self.trace(BUILD + FSDP2 + STEPS, *TORCHRUN)
        self.check(requests, footer, "fsdp2", 4 * LAYER // 2 // RANKS, 2 * LAYER)

    def test_the_older_wrapper_holds_flat_shares(self):
        requests, footer = self.trace(BUILD + FSDP1 + STEPS, *TORCHRUN)
        self.check(requests, footer, "fsdp1", 4 * LAYER // RANKS, 4 * LAYER)

    def test_forward_may_be_computed_again_in_backward(self):
        requests, footer = self.trace(CHECKPOINTED + FSDP2 + STEPS, *TORCHRUN)
        self.check(requests, footer, "fsdp2", 4 * LAYER // 2 // RANKS, 2 * LAYER)

    def test_shards_on_the_host_come_to_the_gpu_only_to_be_gathered(self):
        for way, program in (("fsdp2", FSDP2_ON_HOST), ("fsdp1", FSDP1_ON_HOST)):
            with self.subTest(way):
                requests, footer = self.trace(BUILD + program + STEPS, *TORCHRUN)
                self.assertEqual(footer["parallel"]["way"], way)
                self.assertEqual(footer["notes"], [])
                self.assertEqual([e for e in requests if e[5] == "o" and e[2] > 4096], [])
                gathers = [e for e in requests if e[5] == "p" and e[2] == 4 * LAYER]
                self.assertGreaterEqual(len(gathers), 9)

    def test_copies_between_machines_hold_the_share_of_one_machine(self):
        requests, footer = self.trace(BUILD + HSDP + STEPS, *TORCHRUN)
        self.check(requests, footer, "hsdp", 4 * LAYER // 2 // 2, 4 * LAYER, nodes=2)

    def test_tensor_parallelism_holds_its_part_of_each_layer(self):
        requests, footer = self.trace(BUILD + TENSOR_PARALLEL + STEPS, *TORCHRUN)
        spread = {"way": "tp", "gpus": RANKS, "nodes": 1, "tensorParallel": RANKS}
        self.assertEqual(footer["parallel"], spread)
        states = {e[2] for e in requests if e[5] == "o" and e[2] > 4096}
        self.assertEqual(states, {4 * LAYER // 2 // RANKS})

    def test_what_accelerate_is_told_is_done(self):
        launcher = (
            "accelerate.commands.launch", "--use_fsdp", "--fsdp_version=2",
            f"--num_processes={RANKS}", "--mixed_precision=bf16",
            "--fsdp_auto_wrap_policy=TRANSFORMER_BASED_WRAP",
            "--fsdp_transformer_layer_cls_to_wrap=Block",
        )  # fmt: skip
        steps = STEPS.split("\n", 2)[2]
        requests, footer = self.trace(BUILD + ACCELERATE + steps, *launcher)
        # accelerate gathers in the type of its mixed precision.
        self.check(requests, footer, "fsdp2", 4 * LAYER // 2 // RANKS, 2 * LAYER)


class OtherLibraries(unittest.TestCase):
    """The libraries are not installed here: a module with their entry stands for each."""

    def test_the_error_names_the_way_that_the_program_asked_for(self):
        def initialize(args=None, model=None, config=None, config_params=None):
            """As DeepSpeed's is called."""

        def initialize_model_parallel(tensor_model_parallel_size=1, pipeline_model_parallel_size=1):
            """As Megatron-LM's is called."""

        deepspeed = types.ModuleType("deepspeed")
        deepspeed.initialize = initialize
        state = types.ModuleType("megatron.core.parallel_state")
        state.initialize_model_parallel = initialize_model_parallel
        patches = Patches()
        self.addCleanup(patches.undo)
        with mock.patch.dict(sys.modules, {"deepspeed": deepspeed, state.__name__: state}):
            uncounted.install_other_libraries(patches)
            for act, way in (
                (lambda: deepspeed.initialize(config={"zero_optimization": {"stage": 2}}), "zero2"),
                (lambda: deepspeed.initialize(config_params={"bf16": {"enabled": True}}), "ddp"),
                (lambda: deepspeed.initialize(config="no-such.json"), None),
                (lambda: deepspeed.initialize(config={"zero_optimization": {"stage": "x"}}), None),
                (lambda: state.initialize_model_parallel(4), "tp"),
                (lambda: state.initialize_model_parallel(4, 2), None),
            ):
                with self.assertRaises(Failure) as raised:
                    act()
                self.assertEqual(raised.exception.code, "program-sharded")
                named = re.search(r"--parallel (\w+)", raised.exception.next_step)
                self.assertEqual(named and named.group(1), way)


class Uncounted(unittest.TestCase):
    def refused(self, act):
        patches = Patches()
        self.addCleanup(patches.undo)
        uncounted.install_uncounted(patches)
        with self.assertRaises(Failure) as raised:
            act()
        return raised.exception.code

    def test_pipelines_contexts_and_experts_end_with_one_error(self):
        def pipeline():
            import torch
            from torch.distributed.pipelining import PipelineStage

            PipelineStage(torch.nn.Linear(2, 2), 0, 2, torch.device("cpu"))

        def context():
            from accelerate.parallelism_config import ParallelismConfig

            ParallelismConfig(cp_size=2)

        def experts():
            from transformers.distributed.configuration_utils import DistributedConfig

            DistributedConfig(enable_expert_parallel=True)

        def context_by_hand():
            from torch.distributed.tensor.experimental._attention import context_parallel

            context_parallel(None)

        def experts_by_hand():
            import torch.distributed as dist

            dist.all_to_all_single(None, None, [1, 2], [2, 1])

        for act in (pipeline, context, experts, context_by_hand, experts_by_hand):
            self.assertEqual(self.refused(act), "not-counted", act.__name__)


if __name__ == "__main__":
    unittest.main()
