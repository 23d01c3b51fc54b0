"""Traces against all that a real H200's allocator was asked for in the same run."""

import argparse
import json
import os
import sys
import unittest

from tracing import PACKAGE
from tracing.watching import asked_sizes

from plimsoll_trace.options import parse
from plimsoll_trace.record import record

BENCH = os.path.join(os.path.dirname(PACKAGE), "bench")
sys.path.insert(0, os.path.join(BENCH, "gpu"))
import truth  # noqa: E402


def recorded(name, part="known"):
    """The sizes asked for, without what importing torchaudio asked for in that process."""
    path = os.path.join(truth.folder("events"), part, name + ".json")
    with open(path, encoding="utf-8") as file:
        run = json.load(file)
    stacks = run["stacks"]
    return [e[2] for e in run["events"] if e[0] == "alloc" and "kaldi.py" not in stacks[e[3]]]


def traced(**options):
    usual = {**vars(parse(["--script=none"])), "script": None}
    return asked_sizes(record(argparse.Namespace(**{**usual, **options})).ledger.events)


def blocks(sizes):
    """As the allocator rounds them."""
    return [-(-size // 512) * 512 for size in sizes]


def config(name):
    return os.path.join(truth.TRUTH, "configs", name + ".json")


class RecordedRuns(unittest.TestCase):
    maxDiff = 2000

    def test_gpt2_in_bfloat16(self):
        sizes = traced(config=config("gpt2"), batch=16, seq=1024, precision="bf16", optimizer="sgd")
        self.assertEqual(sizes, recorded("gpt2_train_b16_s1024_bf16_sgd"))

    def test_distilbert_in_float32_with_a_fused_optimizer(self):
        sizes = traced(config=config("distilbert"), batch=2, seq=1024, optimizer="adamw-fused")
        self.assertEqual(sizes, recorded("distilbert_train_b2_s1024_fp32_adamw-fused"))

    def test_gpt2_under_autocast_with_checkpointing(self):
        sizes = traced(
            config=config("gpt2"), batch=8, seq=1024, precision="amp-bf16", checkpointing=True
        )
        self.assertEqual(sizes, recorded("gpt2_train_b8_s1024_amp-bf16_adamw_ckpt"))

    def test_vision_transformer(self):
        sizes = traced(
            config=config("vit-base"),
            batch=128,
            seq=224,
            precision="bf16",
            optimizer="sgd-momentum",
        )
        self.assertEqual(sizes, recorded("vit-base_train_b128_s224_bf16_sgd-momentum"))

    def test_resnet_but_for_a_few_workspaces(self):
        sizes = traced(torchvision="resnet50", batch=32, seq=256, precision="bf16")
        measured = recorded("resnet50_train_b32_s256_bf16_adamw")
        large = 1 << 20
        mine, theirs = (
            sorted(s for s in sizes if s > large),
            sorted(s for s in measured if s > large),
        )
        self.assertLess(abs(sum(mine) - sum(theirs)), 0.01 * sum(theirs))

    def test_a_small_batch_through_a_resnet_in_float32(self):
        sizes = traced(torchvision="resnet18", batch=4, seq=224, optimizer="sgd-momentum")
        measured = recorded("resnet18_train_b4_s224_fp32_sgd-momentum", "fresh")
        self.assertEqual(blocks(sizes), blocks(measured))

    def test_a_network_of_lone_channels_in_float32(self):
        sizes = traced(
            config=os.path.join(truth.folder("cases"), "configs", "convnextv2-tiny.json"),
            batch=16,
            seq=224,
            steps=1,
        )
        measured = recorded("convnextv2-tiny_train_b16_s224_fp32_adamw", "fresh")
        large = 1 << 20
        mine, theirs = (
            [size for size in blocks(those) if size > large] for those in (sizes, measured)
        )
        self.assertEqual(mine, theirs[: len(mine)])

    def test_a_script_with_a_mean_squared_error(self):
        sizes = traced(
            script=os.path.join(truth.folder("cases"), "scripts", "mlp.py"),
            arg=["batch=8192"],
            batch=8192,
            optimizer="sgd-momentum",
        )
        self.assertEqual(sizes, recorded("mlp_train_b8192_sNone_fp32_sgd-momentum", "fresh"))

    def test_a_recurrent_script_under_autocast_once_it_is_built(self):
        sizes = traced(
            script=os.path.join(truth.folder("cases"), "scripts", "gru.py"),
            arg=["batch=64", "seq=256"],
            batch=64,
            precision="amp-bf16",
            optimizer="adamw-fused",
        )
        measured = recorded("gru_train_b64_s256_amp-bf16_adamw-fused", "fresh")
        # There the model was sent to the GPU once more when it was built, which gathers its weights again.
        again = measured.index(47800320, measured.index(47800320) + 1)
        self.assertEqual(sizes, measured[:again] + measured[again + 1 :])
