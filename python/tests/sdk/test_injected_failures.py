"""Failures at random points of a step: all recovered, every sample once, gradients exact."""

import logging
import os
import random
import unittest

import torch
import torch.nn.functional as F

from sdk.injection import (
    Faults,
    batch_of,
    build,
    cheap_collection,
    clean_step,
    gradients_at_step,
    random_countdown,
)

import plimsoll

TRIALS = int(os.environ.get("PLIMSOLL_TEST_INJECTIONS", "240"))
# Hook calls of one pass over the whole batch: later points lie in later microbatches.
POINTS = {"forward": 3, "backward": 6, "step": 1}


def plain_loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1])


class InjectedFailures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cheap_collection()
        logging.getLogger("plimsoll").setLevel(logging.ERROR)

    @classmethod
    def tearDownClass(cls):
        logging.getLogger("plimsoll").setLevel(logging.NOTSET)

    def one(self, trial, phase):
        draw = random.Random(trial)
        dropout = draw.choice([0.0, 0.3])
        count, microbatch = draw.randint(2, 24), draw.randint(1, 24)
        microbatches = -(-count // microbatch)
        model, optimizer = build(trial, dropout)
        faults = Faults(phase, random_countdown(draw, phase, POINTS[phase], microbatches))
        faults.watch(model)
        taken = gradients_at_step(optimizer)
        step = plimsoll.recovering(
            model,
            optimizer,
            lambda part: plain_loss(model, part),
            microbatch=microbatch,
            backup="always",
        )
        batch = batch_of(trial, count)
        torch.manual_seed(trial + 1)
        with faults.in_step():
            value = step(batch)
        self.assertGreaterEqual(faults.raised, 1)
        self.assertEqual(sum(step.partition), count)
        self.assertEqual(step.steps, 1)

        twin, twin_optimizer = build(trial, dropout)
        clean = clean_step(twin, twin_optimizer, plain_loss, batch, step.partition, trial + 1)
        for ours, theirs in zip(taken[-1], clean):
            self.assertTrue(
                torch.equal(ours, theirs), "bit-equal to a clean run with the same microbatches"
            )
        for ours, theirs in zip(model.parameters(), twin.parameters()):
            self.assertTrue(torch.equal(ours, theirs), "the step was applied exactly once")
        if dropout == 0.0:
            whole, whole_optimizer = build(trial, dropout)
            full = clean_step(whole, whole_optimizer, plain_loss, batch, [count], trial + 1)
            for ours, theirs in zip(taken[-1], full):
                self.assertLess(float((ours - theirs).abs().max()), 1e-6)
            expected = plain_loss(build(trial, 0.0)[0], batch)
            self.assertLess(abs(float(value) - float(expected.detach())), 1e-6)
        return faults.raised

    def test_in_forward(self):
        self.assertGreaterEqual(
            sum(self.one(trial, "forward") for trial in range(TRIALS // 3)), TRIALS // 3
        )

    def test_in_backward(self):
        self.assertGreaterEqual(
            sum(self.one(trial, "backward") for trial in range(TRIALS // 3)), TRIALS // 3
        )

    def test_in_the_optimizers_step(self):
        self.assertGreaterEqual(
            sum(self.one(trial, "step") for trial in range(TRIALS // 3)), TRIALS // 3
        )
