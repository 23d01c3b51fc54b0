"""Models of transformers, built from small configs: nothing is downloaded."""

import logging
import unittest

import torch
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from sdk.injection import gradients_at_step

import plimsoll

SMALL = {
    "vocab_size": 50,
    "n_embd": 8,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 16,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class HuggingFace(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        logging.getLogger("transformers").setLevel(logging.ERROR)

    def test_hugging_face_language_models_are_known(self):
        from plimsoll.recovery.parts import is_causal

        model = GPT2LMHeadModel(GPT2Config(**SMALL, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        self.assertTrue(is_causal(model))
        bert = BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
        )
        self.assertFalse(is_causal(BertForMaskedLM(bert)))
        ids = torch.randint(0, 50, (6, 10))
        labels = ids.clone()
        labels[0, 3:] = labels[3, 7:] = -100
        model(input_ids=ids, labels=labels).loss.backward()
        full = [p.grad.clone() for p in model.parameters()]
        model.zero_grad(set_to_none=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        taken = gradients_at_step(optimizer)
        plimsoll.recovering(model, optimizer, lambda b: model(**b), microbatch=4)(
            {"input_ids": ids, "labels": labels}
        )
        self.assertLess(max(float((a - b).abs().max()) for a, b in zip(taken[0], full)), 1e-6)

    def test_the_loss_in_pieces_is_the_same_loss(self):
        from unittest import mock

        from plimsoll.optimizing import optimize

        torch.manual_seed(0)
        model = GPT2LMHeadModel(GPT2Config(**SMALL, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
        ids = torch.randint(0, 50, (3, 10))
        labels = ids.clone()
        labels[1, 4:] = -100
        for more in ({}, {"num_items_in_batch": torch.tensor(7)}):
            whole = model(input_ids=ids, labels=labels, **more).loss
            wanted = torch.autograd.grad(whole, list(model.parameters()))
            change = optimize.in_pieces(model)
            # Pieces of 7 rows: the last one is shorter.
            with mock.patch.object(optimize, "_PIECE", 7 * 50):
                pieces = model(input_ids=ids, labels=labels, **more).loss
                found = torch.autograd.grad(pieces, list(model.parameters()))
            change.undo()
            self.assertAlmostEqual(float(whole), float(pieces), places=5)
            for one, other in zip(wanted, found):
                torch.testing.assert_close(one, other)
        again = model(input_ids=ids, labels=labels).loss
        torch.testing.assert_close(again, model(input_ids=ids, labels=labels).loss)
        bert = BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
        )
        self.assertIsNone(optimize.in_pieces(BertForMaskedLM(bert)))

    def test_optimize_switches_checkpointing_and_attention_and_back(self):
        torch.manual_seed(0)
        # The kernel for attention saves what it saves only where no score is dropped.
        config = GPT2Config(**SMALL, attn_pdrop=0.0, attn_implementation="eager")
        model = GPT2LMHeadModel(config)
        batch = {"input_ids": torch.randint(0, 50, (2, 16))}
        batch["labels"] = batch["input_ids"]
        optimizer = torch.optim.AdamW(model.parameters())
        done = plimsoll.optimize(
            model, optimizer, autocast=False, forward=lambda: model(**batch).loss
        )
        self.assertEqual(
            [c.what for c in done.changes],
            ["attention", "loss-in-pieces", "checkpointing", "fused-optimizer"],
        )
        self.assertTrue(model.is_gradient_checkpointing)
        for change in done.changes[:3]:
            self.assertGreater(change.measured_bytes, 0, change.what)
        self.assertEqual(model.config._attn_implementation, "sdpa")
        done.undo()
        self.assertFalse(model.is_gradient_checkpointing)
        self.assertEqual(model.config._attn_implementation, "eager")

    def test_feed_forward_channels_of_real_models_can_go(self):
        bert = BertConfig(
            vocab_size=20,
            hidden_size=8,
            num_hidden_layers=2,
            num_attention_heads=1,
            intermediate_size=32,
        )
        for model in (GPT2LMHeadModel(GPT2Config(**SMALL)), BertForMaskedLM(bert)):
            model.eval()
            ids = torch.randint(0, 20, (1, 6))
            before = model(input_ids=ids).logits
            done = plimsoll.optimize(model, attention=None, prune=0.5)
            self.assertGreater(done.changes[0].measured_bytes, 0)
            self.assertEqual(model(input_ids=ids).logits.shape, before.shape)
            done.undo()
            self.assertTrue(torch.equal(model(input_ids=ids).logits, before))

    def test_a_model_is_loaded_from_its_folder(self):
        import tempfile

        torch.manual_seed(0)
        with tempfile.TemporaryDirectory() as folder:
            GPT2LMHeadModel(GPT2Config(**SMALL)).save_pretrained(folder)
            model = plimsoll.load(
                folder, "int8", device="cpu", compute_dtype=torch.float32, cache=False
            )
        self.assertEqual(model.plimsoll_preset, "int8")
        self.assertEqual(
            model(input_ids=torch.ones(1, 4, dtype=torch.long)).logits.shape, (1, 4, 50)
        )
