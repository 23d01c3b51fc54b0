"""One rank of many: what is asked for on which stream, held against arithmetic on small models."""

import json
import os
import tempfile
import unittest
from types import SimpleNamespace

import sharding  # noqa: F401 - puts the package on the path
from plimsoll.failure import Failure
from plimsoll_trace.options import parse
from plimsoll_trace.record import record
from plimsoll_trace.sharding import shard

LAYERS, WIDTH, VOCABULARY = 3, 64, 128
CONFIG = {
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
}
LAYER_PARAMETERS = 4 * WIDTH * WIDTH + 3 * WIDTH * 2 * WIDTH + 2 * WIDTH
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
        self.a, self.b = (nn.Linear({WIDTH}, {WIDTH}, bias=False) for _ in range(2))
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
    x = torch.randn(batch, {WIDTH})
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
    return sum(size == 4 * 2 * WIDTH for size in sizes)


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
            recording.parameters, LAYERS * LAYER_PARAMETERS + 2 * VOCABULARY * WIDTH + WIDTH
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

        whole = 8 * (LAYERS * LAYER_PARAMETERS + 2 * VOCABULARY * WIDTH)
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
        packed = 4 * EXPERTS * 2 * EXPERT_WIDTH * WIDTH
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


if __name__ == "__main__":
    unittest.main()
