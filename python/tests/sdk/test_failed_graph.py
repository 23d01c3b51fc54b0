"""After a failure nothing of the failed graph is alive when the next try starts, even where its loss is held."""

import gc
import logging
import unittest
import weakref

import torch
import torch.nn.functional as F

from sdk.injection import batch_of, build, cheap_collection, out_of_memory

import plimsoll


class Kept:
    """What a node of the graph holds; as long as it lives, so do the activations."""


class Heavy(torch.autograd.Function):
    """Fails in backward for more samples than fit, with the graph behind it still whole."""

    alive = weakref.WeakSet()
    most = 4

    @staticmethod
    def forward(ctx, x):
        ctx.kept = Kept()
        Heavy.alive.add(ctx.kept)
        ctx.samples = len(x)
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        if ctx.samples > Heavy.most:
            raise out_of_memory()
        return grad


class Output(dict):
    """As models return it: a dict with attributes."""

    def __getattr__(self, name):
        if name not in self:
            raise AttributeError(name)
        return self[name]


class FailedGraph(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cheap_collection()

    def setUp(self):
        log = logging.getLogger("plimsoll")
        self.addCleanup(log.setLevel, log.level)
        log.setLevel(logging.ERROR)
        self.model, self.optimizer = build(0, 0.0)
        self.begun = []
        self.logits = weakref.WeakSet()
        Heavy.alive.clear()
        # Reference counts alone must do it: on a card a collection of cycles comes too late.
        gc.disable()
        self.addCleanup(gc.enable)

    def forward(self, batch):
        self.begun.append((len(batch[0]), len(Heavy.alive), len(self.logits)))
        logits = Heavy.apply(self.model(batch[0]))
        self.logits.add(logits)
        return Output(logits=logits, loss=F.cross_entropy(logits, batch[1]))

    def check(self, failures=2):
        self.assertEqual(
            [alive for _, alive, _ in self.begun[: failures + 1]], [0] * (failures + 1), self.begun
        )
        self.assertEqual(
            [alive for _, _, alive in self.begun[: failures + 1]], [0] * (failures + 1), self.begun
        )

    def test_of_a_step(self):
        step = plimsoll.recovering(
            self.model, self.optimizer, lambda batch: self.forward(batch).loss
        )
        step(batch_of(0, 16))
        self.assertEqual(step.partition, [4, 4, 4, 4])
        self.check()

    def test_of_a_step_whose_loss_returns_all_outputs(self):
        plimsoll.recovering(self.model, self.optimizer, self.forward)(batch_of(0, 16))
        self.check()

    def test_of_a_loop_that_keeps_loss_and_outputs_in_variables(self):
        step = plimsoll.recovering(self.model, self.optimizer)
        seen = []
        for part in step.microbatches(batch_of(0, 16)):
            with part:
                # Emptied variables are no tensors of the graph any more; the objects themselves go here.
                self.logits.clear()
                outputs = self.forward(part.batch)
                loss = outputs.loss
                part.backward(loss)
            seen.append(float(loss.detach()))
        self.assertEqual(step.partition, [4, 4, 4, 4])
        self.check()
        self.assertEqual(len(seen), len(self.begun))

    def test_what_the_block_did_not_make_is_left_alone(self):
        step = plimsoll.recovering(self.model, self.optimizer)
        before = torch.ones(3, requires_grad=True) * 2
        batch = batch_of(0, 16)
        for part in step.microbatches(batch):
            with part:
                loss = self.forward(part.batch).loss + 0 * before.detach().sum()
                part.backward(loss)
        self.assertEqual(before.tolist(), [2, 2, 2])
        self.assertIsNotNone(before.grad_fn)
        self.assertEqual(len(batch[0]), 16)

    def test_of_an_optimizer_that_computes_the_loss_itself(self):
        optimizer = torch.optim.LBFGS(self.model.parameters(), max_iter=3)
        step = plimsoll.recovering(self.model, optimizer, lambda batch: self.forward(batch).loss)
        step(batch_of(0, 16))
        self.check()
        # Later looks at the loss fail, too: nothing of them stays either.
        self.assertTrue(all(alive == 0 for _, alive, _ in self.begun), self.begun)

    def test_of_a_function(self):
        def embed(batch):
            out = self.forward(batch)
            out.loss.backward()
            self.model.zero_grad()
            return out.logits.detach()

        made = plimsoll.recovering(embed)(batch_of(0, 16))
        self.assertEqual(len(made), 16)
        self.check()

    def test_of_a_function_that_ranks_share(self):
        """Under no_sync, as ranks run it: their context adds frames, and holds nothing."""
        from contextlib import contextmanager

        step = plimsoll.recovering(
            self.model, self.optimizer, lambda batch: self.forward(batch).loss
        )

        @contextmanager
        def no_sync():
            yield

        step._ranks.no_sync = no_sync
        step(batch_of(0, 16))
        self.check()
