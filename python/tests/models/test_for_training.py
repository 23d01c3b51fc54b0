"""`plimsoll.load` for training and with a tokenizer; levels; a batch over several cards."""

import os
import tempfile
import unittest
from unittest import mock

import torch
from torch import nn

import plimsoll
from plimsoll.distributed.spread import choose


def tower():
    torch.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(4)])


def tiny_llama(folder):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, vocab_size=16
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    words = Tokenizer(WordLevel({"a": 0, "b": 1, "<end>": 2}, unk_token="a"))
    PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>").save_pretrained(folder)
    return folder


class Loading(unittest.TestCase):
    def setUp(self):
        self.addCleanup(plimsoll.unload)

    def test_quantized_weights_are_frozen_and_an_adapter_learns_through_them(self):
        with tempfile.TemporaryDirectory() as found:
            folder = tiny_llama(found)
            for preset in ("int8", "int4"):
                model, tokenizer = plimsoll.load(
                    folder, preset, device="cpu", compute_dtype=torch.float32,
                    for_training=True, tokenizer=True,
                )  # fmt: skip
                self.assertTrue(model.training and model.is_gradient_checkpointing)
                self.assertFalse(any(p.requires_grad for p in model.parameters()))
                adapter = nn.Linear(32, 32, bias=False)
                layer = model.model.layers[0].mlp
                layer.register_forward_hook(
                    lambda _, args, out, adapter=adapter: out + adapter(args[0])
                )
                ids = torch.tensor([tokenizer.convert_tokens_to_ids(["a", "b", "a", "b"])])
                model(input_ids=ids, labels=ids).loss.backward()
                self.assertGreater(float(adapter.weight.grad.abs().sum()), 0)
                self.assertEqual(tokenizer.pad_token, "<end>")

    def test_weights_of_16_bits_stay_trainable(self):
        model = plimsoll.load(
            tower, "fp16", device="cpu", compute_dtype=torch.float32, for_training=True
        )
        self.assertTrue(model.training and all(p.requires_grad for p in model.parameters()))
        plain = tower()
        x = torch.randn(3, 32)
        model(x).sum().backward()
        plain(x).sum().backward()
        for ours, wanted in zip(model.parameters(), plain.parameters()):
            self.assertTrue(torch.equal(ours.grad, wanted.grad))

    def test_each_option_is_another_model_in_the_cache(self):
        with tempfile.TemporaryDirectory() as found:
            folder = tiny_llama(found)
            asked = [
                {}, {"for_training": True}, {"compute_dtype": torch.float32}, {"fallback": False},
                {"max_bytes": 10**9}, {"home": found}, {"options": {"attn_implementation": "eager"}},
            ]  # fmt: skip
            load = lambda options: plimsoll.load(folder, "cpu", device="cpu", **options)  # noqa: E731
            models = [load(options) for options in asked]
            self.assertEqual(len({id(model) for model in models}), len(asked))
            for options, model in zip(asked, models):
                self.assertIs(load(options), model)
            # A tokenizer is no other model, and a path may be written in another way.
            again, _ = plimsoll.load(folder + "/.", "cpu", device="cpu", tokenizer=True)
            self.assertIs(again, models[0])

    def test_wrong_arguments_are_one_clear_error(self):
        for options in ({"for_training": "yes"}, {"tokenizer": 1}, {"tokenizer": True}):
            with self.assertRaises(plimsoll.Failure):
                plimsoll.load(tower, "cpu", **options)


class Levels(unittest.TestCase):
    def changes(self, level, **options):
        model = tower()
        optimizer = torch.optim.AdamW(model.parameters())
        done = plimsoll.optimize(model, optimizer, level=level, **options)
        return {change.what for change in done.changes}, next(model.parameters()).dtype

    def test_each_level_turns_on_what_its_table_says(self):
        self.assertEqual(self.changes("O0"), (set(), torch.float32))
        self.assertEqual(self.changes("O1"), ({"autocast", "fused-optimizer"}, torch.float32))
        self.assertEqual(
            self.changes("O2"), ({"autocast", "fused-optimizer", "checkpointing"}, torch.float32)
        )
        # Weights that are trained keep their type.
        self.assertEqual(self.changes("O3"), self.changes("O2"))
        model = tower().eval()
        done = plimsoll.optimize(model, level="O3")
        self.assertEqual([change.what for change in done.changes], ["dtype"])
        self.assertEqual(next(model.parameters()).dtype, torch.bfloat16)

    def test_an_argument_counts_for_more_and_a_wrong_level_changes_nothing(self):
        self.assertEqual(self.changes("O0", checkpoint=True)[0], {"checkpointing"})
        self.assertNotIn("checkpointing", self.changes("O2", checkpoint=False)[0])
        model = tower()
        with self.assertRaises(plimsoll.Failure):
            plimsoll.optimize(model, level="O4")
        self.assertNotIn("forward", model.__dict__)


class Spreading(unittest.TestCase):
    def test_what_is_chosen(self):
        self.assertEqual(choose(0, 1, False), ("alone", ""))
        self.assertEqual(choose(1, 1, False), ("alone", ""))
        how, advice = choose(4, 1, False)
        self.assertEqual(how, "data-parallel")
        self.assertIn("torchrun --nproc-per-node 4", advice)
        self.assertEqual(choose(4, 4, True), ("distributed", ""))
        self.assertIn("init_process_group", choose(4, 4, False)[1])

    def test_a_process_group_makes_it_distributed_and_twice_is_once(self):
        model = nn.Linear(2, 2)
        alone = plimsoll.spread(model)
        if alone.how == "alone":
            self.assertIs(alone.model, model)
        with mock.patch.dict(os.environ, {"WORLD_SIZE": "all of it"}):
            self.assertEqual(plimsoll.spread(nn.Linear(2, 2)).how, alone.how)
        alone = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=alone, rank=0, world_size=1)
        try:
            found = plimsoll.spread(model)
            self.assertEqual(found.how, "distributed")
            self.assertIs(plimsoll.spread(found.model).model, found.model)
            found.model(torch.ones(1, 2)).sum().backward()
            self.assertIsNotNone(model.weight.grad)
        finally:
            torch.distributed.destroy_process_group()
        with self.assertRaises(plimsoll.Failure):
            plimsoll.spread(os)


if __name__ == "__main__":
    unittest.main()
