"""Layers in 8 and 4 bits: what their weights take, and what exists only while they run."""

import argparse
import json
import os
import tempfile
import unittest

import torch

from tracing import watching

from plimsoll.failure import Failure
from plimsoll.tracing import quantized
from plimsoll.tracing.options import parse
from plimsoll.tracing.quantized import eight_bits, four_bits
from plimsoll.tracing.record import record
from plimsoll.tracing.workload import Settings

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
}
LINEAR = 2 * (4 * 256 * 256 + 3 * 256 * 512)


def settings(**values):
    usual = {
        "mode": "train",
        "batch": 1,
        "seq": 8,
        "image": 0,
        "precision": "bf16",
        "optimizer": "adamw",
        "checkpointing": False,
        "lora": 0,
        "steps": 1,
    }
    return Settings(**{**usual, **values})


def layer():
    with torch.device("meta"):
        return torch.nn.Linear(256, 512, bias=False, dtype=torch.bfloat16)


def kept(module):
    return sorted(t.numel() * t.element_size() for t in [*module.parameters(), *module.buffers()])


class Layers(unittest.TestCase):
    def test_four_bits_take_half_a_byte_and_a_scale_for_each_64(self):
        self.assertEqual(
            kept(four_bits(layer(), torch.bfloat16, False)), sorted([65536, 2048 * 4, 16 * 4])
        )

    def test_scales_can_be_packed_themselves(self):
        sizes = kept(four_bits(layer(), torch.bfloat16, True))
        self.assertEqual(sizes, sorted([65536, 2048, 8 * 4, 16 * 4, 256 * 4, 4]))

    def test_eight_bits_keep_a_scale_for_each_row(self):
        self.assertEqual(kept(eight_bits(layer())), sorted([131072, 512 * 4]))

    def test_the_whole_weight_exists_while_it_is_multiplied(self):
        with watching.watched() as observer:
            four = four_bits(layer(), torch.bfloat16, False)
            x = torch.empty(8, 256, dtype=torch.bfloat16, device="meta", requires_grad=True)
            asked = watching.Asked(observer)
            with torch.no_grad():
                four(x)
            self.assertEqual(asked.sizes(), [512 * 256 * 2, 8 * 512 * 2])
            out = four(x)
            asked.sizes()
            grad = torch.empty_like(out)
            asked.sizes()
            out.backward(grad)
            self.assertEqual(max(asked.sizes()), 512 * 256 * 2)


class Models(unittest.TestCase):
    def trace(self, **values):
        usual = {
            **vars(parse(["--script=none"])),
            "script": None,
            "batch": 2,
            "seq": 16,
            "precision": "bf16",
            "optimizer": "adamw",
            "steps": 1,
        }
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(CONFIG, file)
            return record(argparse.Namespace(**{**usual, **values, "config": path}))

    def weights(self, recording):
        return sum(e[2] for e in recording.ledger.events if e[0] == "a" and e[5] == "w")

    def test_linear_layers_shrink_and_the_rest_stays(self):
        rest = 2 * 1000 * 256 + 5 * 256
        recording = self.trace(mode="infer", quantization="int4")
        self.assertEqual(recording.parameters, LINEAR + rest)
        loaded = [e for e in recording.ledger.events if e[0] == "a" and e[5] == "w"]
        self.assertLess(abs(sum(e[2] for e in loaded) - (LINEAR * 0.5625 + rest * 2)), 4096)
        self.assertTrue(any("not measured" in note for note in recording.notes))

    def test_building_never_holds_the_model_whole(self):
        live = most = 0
        sizes = {}
        for event in self.trace(mode="infer", quantization="int8").ledger.events:
            if event[:2] == ("m", "ready"):
                break
            if event[0] == "a":
                sizes[event[1]] = event[2]
                live += event[2]
                most = max(most, live)
            elif event[0] == "f":
                live -= sizes[event[1]]
        self.assertLess(most, 1.6 * LINEAR + 4 * 1000 * 256)

    def test_adapters_learn_beside_packed_weights(self):
        recording = self.trace(quantization="int4_double", lora=4)
        learned = sum(e[2] for e in recording.ledger.events if e[0] == "a" and e[5] == "g")
        layers = 2 * (4 * (256 + 256) + 3 * (256 + 512)) * 4
        self.assertEqual(learned, layers * 4)

    def test_what_cannot_be_is_told(self):
        cases = {
            "quantized-not-trained": {"quantization": "int8"},
            "quantization-by-memory": {"quantization": "int4_offload", "mode": "infer"},
            "quantization-on-host": {"quantization": "cpu"},
        }
        for code, values in cases.items():
            with self.subTest(code), self.assertRaises(Failure) as caught:
                quantized.check(settings(**values), "config.json")
            self.assertEqual(caught.exception.code, code)
        with self.assertRaises(Failure):
            quantized.check(settings(quantization="int4", mode="infer"), None)
