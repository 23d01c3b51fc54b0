"""Programs on several ranks: one rank is run, holds its share, asks for it on its streams; and sizes of DeepSpeed."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
from types import SimpleNamespace
from unittest import mock

import warm
from warm import PACKAGE

from plimsoll.failure import Failure
from plimsoll_trace.options import parse
from plimsoll_trace.programs.distributed import uncounted
from plimsoll_trace.record import record
from plimsoll_trace.sharding import shard, zero
from plimsoll_trace.standins.patches import Patches

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
FSDP1_ON_HOST = FSDP1.replace(
    "use_orig_params=True", "cpu_offload=CPUOffload(offload_params=True)"
).replace("import Fully", "import CPUOffload, Fully")
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


LAYERS, HIDDEN, VOCABULARY = 3, 64, 128
CONFIG = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": 2 * HIDDEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
}
LAYER_PARAMETERS = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * 2 * HIDDEN + 2 * HIDDEN
EXPERTS, EXPERT_WIDTH = 16, 64
WITH_EXPERTS = {
    **CONFIG,
    "model_type": "qwen3_moe",
    "head_dim": 16,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": EXPERT_WIDTH,
}
# transformers' plan for it has the head alone.
WITH_WHOLE_EXPERTS = {
    **CONFIG,
    "model_type": "gpt_oss",
    "head_dim": 16,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
}


def traced(*words, config=CONFIG):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        common = ["--config", path, "--batch", "2", "--seq", "16", "--steps", "2"]
        return record(parse([*common, *words]))


# In each layer the first of two products is kept, the second is computed again in backward.
SELECTIVE = f"""
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

def kept():
    seen = {{False: 0, True: 0}}
    def policy(context, operation, *_, **__):
        if operation is not torch.ops.aten.mm.default:
            return CheckpointPolicy.PREFER_RECOMPUTE
        seen[context.is_recompute] += 1
        first = seen[context.is_recompute] == 1
        return CheckpointPolicy.MUST_SAVE if first else CheckpointPolicy.PREFER_RECOMPUTE
    return create_selective_checkpoint_contexts(policy)

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = (nn.Linear({HIDDEN}, {HIDDEN}, bias=False) for _ in range(2))
    def forward(self, x):
        return torch.sin(self.b(torch.sin(self.a(x))))

class Model(nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range({LAYERS}))
        self.whole = whole
    def forward(self, x):
        for layer in self.layers:
            how = {{}} if self.whole else {{"context_fn": kept}}
            x = checkpoint(layer, x, use_reentrant=False, **how)
        return x

def workload(batch, seq, whole=False):
    x = torch.randn(batch, {HIDDEN})
    return {{"model": Model(whole), "batch": x, "loss": lambda m, x: m(x).sum()}}
"""


def products(whole, *words):
    """How often a product was computed in forward or again, of which each layer has two."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "selective.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(SELECTIVE)
        given = ["--script", path, "--arg", f"whole={whole}", "--batch", "2", "--seq", "1"]
        ledger = record(parse([*given, "--steps", "2", *words])).ledger
    found = {index for text, index in ledger._strings.items() if "mm" in text}
    sizes = [e[2] for e in ledger.events if e[0] == "a" and e[3] in found]
    return sum(size == 4 * 2 * HIDDEN for size in sizes)


def requests(recording, category=None):
    found = [e for e in recording.ledger.events if e[0] == "a"]
    return [e for e in found if category is None or e[5] == category]


def stream_of(event):
    return event[6] if len(event) > 6 else 0


class Sharding(unittest.TestCase):
    def test_fsdp2_gathers_each_layer_on_a_stream_of_its_own(self):
        recording = traced(
            "--parallel", "fsdp2", "--gpus", "4", "--gather-precision", "bf16",
            "--reduce-precision", "fp32",
        )  # fmt: skip
        gathers = [
            e for e in requests(recording, "p") if stream_of(e) and e[2] == 2 * LAYER_PARAMETERS
        ]
        # Forward and backward of two steps, for each layer.
        self.assertEqual(len(gathers), 4 * LAYERS)
        self.assertEqual({stream_of(e) for e in gathers}, {1})
        reduced = [e for e in requests(recording, "r") if e[2] == 4 * LAYER_PARAMETERS]
        self.assertEqual(len(reduced), 2 * LAYERS)
        self.assertEqual(
            recording.parameters, LAYERS * LAYER_PARAMETERS + 2 * VOCABULARY * HIDDEN + HIDDEN
        )

    def test_what_is_kept_gathered_is_not_gathered_again(self):
        again = traced("--parallel", "fsdp2", "--gpus", "4")
        kept = traced("--parallel", "fsdp2", "--gpus", "4", "--no-reshard")
        self.assertLess(len(requests(kept, "p")), len(requests(again, "p")))

    def test_fsdp1_asks_on_streams_and_says_who_uses_what(self):
        recording = traced("--parallel", "fsdp1", "--gpus", "4", "--gather-precision", "bf16")
        kinds = {e[0] for e in recording.ledger.events}
        self.assertTrue({"r", "w"} <= kinds)
        self.assertGreater(len({stream_of(e) for e in requests(recording)}), 2)
        flat = [e for e in requests(recording, "w") if e[2] == LAYER_PARAMETERS]
        self.assertEqual(len(flat), LAYERS)

    def test_ddp_has_one_bucket_first_and_smaller_ones_then(self):
        recording = traced("--parallel", "ddp", "--gpus", "4")
        marks = [i for i, e in enumerate(recording.ledger.events) if e == ("m", "ready")]
        bucket = [e for e in recording.ledger.events[: marks[0]] if e[0] == "a" and e[5] == "u"]
        self.assertEqual([e[2] for e in bucket], [4 * recording.parameters])

    def test_zero_shares_out_states(self):
        def states(*words):
            return sum(e[2] for e in requests(traced(*words), "o") if e[2] > 1024)

        whole = 8 * (LAYERS * LAYER_PARAMETERS + 2 * VOCABULARY * HIDDEN)
        self.assertLess(abs(states("--parallel", "ddp", "--gpus", "4") - whole), 0.05 * whole)
        self.assertLess(states("--parallel", "zero1", "--gpus", "4"), 0.4 * whole)
        self.assertLess(states("--parallel", "zero2", "--gpus", "4"), 0.3 * whole)
        self.assertLess(states("--parallel", "zero3", "--gpus", "4"), 0.3 * whole)

    def test_states_on_the_host_are_not_asked_for(self):
        for way in ("fsdp2", "zero2"):
            recording = traced("--parallel", way, "--gpus", "4", "--offload", "optimizer")
            self.assertEqual(requests(recording, "o"), [])

    def test_hsdp_cuts_over_the_ranks_of_a_machine(self):
        sizes = {
            way: sum(e[2] for e in requests(traced("--parallel", way, "--gpus", "4", *more), "w"))
            for way, more in (("fsdp2", ()), ("hsdp", ("--nodes", "2")))
        }
        self.assertGreater(sizes["hsdp"], 1.8 * sizes["fsdp2"])

    def test_tensor_parallelism_cuts_layers_with_and_without_fsdp(self):
        weights = {
            words: sum(e[2] for e in requests(traced(*words), "w"))
            for words in (
                ("--parallel", "tp", "--gpus", "2"),
                ("--parallel", "tp", "--gpus", "4"),
                ("--parallel", "fsdp2", "--gpus", "4", "--tp", "2"),
            )
        }
        two, four, both = weights.values()
        self.assertGreater(two, four)
        self.assertGreater(four, both)

    def test_tensor_parallelism_cuts_experts_as_transformers_does(self):
        packed = 4 * EXPERTS * 2 * EXPERT_WIDTH * HIDDEN
        for words, ranks in (("--gpus 4", 4), ("--gpus 4 --tp 2", 4), ("--gpus 2", 2)):
            recording = traced("--parallel", "tp", *words.split(), config=WITH_EXPERTS)
            sizes = [e[2] for e in requests(recording, "w")]
            # Of each layer: both first products of all experts in one, and the second.
            self.assertEqual(sizes.count(packed // ranks), LAYERS, words)
            self.assertEqual(sizes.count(packed // 2 // ranks), LAYERS, words)
            self.assertLess(max(sizes), packed // ranks + 1, words)
            self.assertFalse([one for one in recording.notes if "whole" in one], words)

    def test_a_plan_that_cuts_little_is_told(self):
        recording = traced("--parallel", "tp", "--gpus", "2", config=WITH_WHOLE_EXPERTS)
        self.assertTrue([one for one in recording.notes if "% of the parameters whole" in one])

    def test_a_style_that_no_one_knows_is_told(self):
        model = SimpleNamespace(_tp_plan={"layer": "unheard_of"}, config=SimpleNamespace())
        with self.assertRaises(Failure) as raised:
            shard.shard(model, SimpleNamespace(size=lambda: 2))
        self.assertEqual(raised.exception.code, "no-tensor-style")
        self.assertIn("unheard_of", raised.exception.fact)

    def test_heads_that_cannot_be_shared_are_told(self):
        with self.assertRaises(Failure) as raised:
            traced("--parallel", "tp", "--gpus", "3")
        self.assertEqual(raised.exception.code, "heads-not-even")
        with self.assertRaises(Failure) as raised:
            traced("--parallel", "fsdp2", "--gpus", "4", "--tp", "3")
        self.assertEqual(raised.exception.code, "ranks-not-even")

    def test_what_a_program_chooses_to_keep_is_not_computed_again(self):
        for words in ((), ("--parallel", "fsdp2", "--gpus", "4")):
            whole, selective = (products(one, *words) for one in ("true", "false"))
            # Of two products in each layer and step, one is computed again instead of two.
            self.assertEqual(whole - selective, 2 * LAYERS, words)

    def test_nothing_of_it_stays_in_torch(self):
        import torch

        traced("--parallel", "fsdp2", "--gpus", "2")
        self.assertFalse(hasattr(torch, "meta"))
        self.assertFalse(torch.distributed.is_initialized())
        self.assertNotIn("resize_", vars(torch.UntypedStorage))


ROOT = os.path.dirname(PACKAGE)
PRINTED = """
import { shardingFormat } from './dist/plan/snippets/plan-lines.js';
const settings = { precision: 'amp-bf16', optimizer: 'adamw-fused', checkpointing: false, batch: 2 };
const option = (parallel) => ({ parallel, ...settings, fit: 'surely', accumulation: 1, givesUp: '' });
const ways = [{ way: 'ddp', gpus: 1 }, { way: 'fsdp2', gpus: 1, reshard: false }, { way: 'fsdp2', gpus: 1 }];
console.log(JSON.stringify(ways.map((one) => JSON.parse(shardingFormat('deepspeed', option(one))))));
"""


@unittest.skipUnless(importlib.util.find_spec("deepspeed"), "deepspeed is not installed")
class DeepSpeedItself(unittest.TestCase):
    def test_it_reads_the_files_of_each_stage(self):
        from deepspeed.runtime.config import DeepSpeedConfig

        printed = subprocess.run(
            ["node", "--input-type=module", "-e", PRINTED],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        files = json.loads(printed.stdout)
        self.assertEqual(len(files), 3)
        for stage, file in zip((0, 2, 3), files):
            read = DeepSpeedConfig(file)
            self.assertEqual(read.zero_optimization_stage, stage)
            self.assertEqual(read.train_micro_batch_size_per_gpu, 2)
            self.assertTrue(read.bfloat16_config.enabled)
            # One bucket in stage 2, and two in stage 3, are what a trace counts.
            self.assertEqual(bool(read.zero_config.overlap_comm), stage == 3)

    def test_its_buffers_are_as_large_as_those_that_are_counted(self):
        from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

        for stage in (2, 3):
            config = DeepSpeedZeroConfig(stage=stage)
            self.assertEqual(config.reduce_bucket_size, zero._REDUCE_BUCKET)
        self.assertEqual(config.max_live_parameters, zero._MAX_LIVE)
        self.assertEqual(config.prefetch_bucket_size, zero._PREFETCH)


if __name__ == "__main__":
    unittest.main()
