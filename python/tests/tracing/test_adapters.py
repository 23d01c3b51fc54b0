"""LoRA: peft's own layers, and those that take their place where it is not installed."""

import sys
import unittest
from unittest import mock

import torch

from tracing import watching
from tracing.test_quantized import CONFIG, settings

from plimsoll.failure import Failure
from plimsoll.tracing import adapters
from plimsoll.tracing.sources import hugging_face
from plimsoll.tracing.sources.batches import batch_for
from plimsoll.tracing.workload import Workload


def step(rank=4):
    """What one step with adapters asks for, and the model."""
    with watching.watched() as observer:
        model, _ = hugging_face.build(CONFIG, settings())
        workload = Workload(model, lambda: None, lambda model, batch: None)
        adapters.add(workload, rank)
        batch = batch_for(model, settings(batch=4, seq=32))
        asked = watching.Asked(observer)
        loss = workload.model(**batch).loss
        forward = asked.sizes()
        loss.backward()
        return forward, asked.sizes(), workload


class Adapters(unittest.TestCase):
    def test_all_linear_layers_but_the_output_learn_in_float32(self):
        _, _, workload = step()
        learning = {n: p for n, p in workload.model.named_parameters() if p.requires_grad}
        self.assertEqual(len(learning), 2 * 7 * 2)
        self.assertEqual({p.dtype for p in learning.values()}, {torch.float32})
        self.assertFalse(any("lm_head" in name for name in learning))

    def test_without_peft_the_same_is_asked_for(self):
        forward, backward, _ = step()
        with mock.patch.dict(sys.modules, {"peft": None}):
            own_forward, own_backward, workload = step()
        self.assertEqual(own_forward, forward)
        self.assertEqual(sorted(own_backward), sorted(backward))
        self.assertIn("peft", workload.notes[0])

    def test_a_model_without_linear_layers_is_refused(self):
        with (
            mock.patch.dict(sys.modules, {"peft": None}),
            watching.watched(),
            self.assertRaises(Failure),
        ):
            adapters.add(
                Workload(torch.nn.Sequential(torch.nn.ReLU()), lambda: None, lambda m, b: None), 4
            )
