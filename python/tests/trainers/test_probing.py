"""The first failure on a card: two small parts are measured, and the size that fits comes from them."""

import logging
import unittest
from unittest import mock

import torch

from sdk.injection import batch_of, build, clean_step, out_of_memory

from plimsoll.trainers import split_step
from plimsoll.trainers.window import SAMPLES as BY_SAMPLES

GIB = 2**30
WEIGHTS, ALWAYS, EACH, LIMIT = 40, 10, 10, 300


def mean_loss(model, part):
    return torch.nn.functional.cross_entropy(model(part[0]), part[1])


class Card:
    """A simulated card: weights, their gradients once they are there, the optimizer's states, and each sample."""

    device = "cuda:0"

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.peak, self.resets = 0, 0

    def used_bytes(self):
        made = next(self.model.parameters()).grad is not None
        return (WEIGHTS * (1 + made) + 2 * WEIGHTS * bool(self.optimizer.state)) * GIB

    def runs(self, samples):
        self.peak = max(self.peak, self.used_bytes() + (ALWAYS + EACH * samples) * GIB)
        if self.peak > LIMIT * GIB:
            raise out_of_memory()

    def capacity_bytes(self):
        return LIMIT * GIB

    def memory_point(self):
        return self.capacity_bytes(), self.used_bytes(), None

    def used_share(self):
        return 0.5

    def cached_bytes(self):
        return 0

    def reset_peak(self):
        self.resets += 1
        self.peak = self.used_bytes()

    def peak_bytes(self):
        return self.peak


class Probing(unittest.TestCase):
    def setUp(self):
        logging.getLogger("plimsoll").setLevel(logging.CRITICAL)
        self.addCleanup(logging.getLogger("plimsoll").setLevel, logging.NOTSET)
        self.model, self.optimizer = build(1, 0.2)
        self.card = Card(self.model, self.optimizer)
        with mock.patch.object(split_step, "gauge_of", lambda _: self.card):
            self.step = split_step.SplitStep(self.model, self.optimizer, lambda *_: BY_SAMPLES)
        # Weights that weigh what the card says: the optimizer's states are expected to take twice as much.
        self.step._probe._states_to_come = lambda: (
            0 if self.optimizer.state else 2 * WEIGHTS * GIB
        )

    def work(self, part, share):
        self.tried.append(len(part[0]))
        self.card.runs(len(part[0]))
        loss = mean_loss(self.model, part)
        (loss if share == 1 else loss * share).backward()
        return loss

    def one_step(self, batch):
        self.tried = []
        self.optimizer.zero_grad()
        self.step.run(batch, self.work)
        parts = self.step.partitions[-1]
        self.optimizer.step()
        self.step.stepped()
        return parts

    def test_one_failure_and_the_size_for_every_later_step(self):
        batch = batch_of(1, 64)
        torch.manual_seed(9)
        parts = self.one_step(batch)
        # 270 is the load line; weights, gradients, what each part has and states to come take 170: 10 samples fit.
        self.assertEqual(self.tried, [64, 2, 2, 4, 10, 10, 9, 9, 9, 9])
        self.assertEqual(self.tried[1:], parts)
        self.assertIn("parts of 2 and 4 samples", self.step.fitting.decider.events[-1]["why"])
        twin, optimizer = build(1, 0.2)
        clean_step(twin, optimizer, mean_loss, batch, parts, 9)
        for mine, theirs in zip(self.model.parameters(), twin.parameters()):
            self.assertTrue(torch.equal(mine, theirs))
        for _ in range(3):
            self.assertEqual(max(self.one_step(batch)), 10)
        self.assertEqual(self.step.fitting.sizer.size, 10)

    def test_a_size_below_the_parts_that_were_measured_keeps_its_own_peak(self):
        global EACH
        before, EACH = EACH, 35
        self.addCleanup(globals().__setitem__, "EACH", before)
        batch = batch_of(1, 64)
        self.assertEqual(self.one_step(batch)[:4], [2, 2, 4, 2])
        # 170 and two samples stay below 270. Four, whose peak was 230 without states, would not.
        for _ in range(3):
            self.assertEqual(max(self.one_step(batch)), 2)

    def test_even_two_samples_that_do_not_fit_end_it(self):
        def full(samples):
            if samples > 1:
                raise out_of_memory()

        self.card.runs = full
        self.assertEqual(self.one_step(batch_of(1, 12)), [1] * 12)

    def test_a_batch_of_few_samples_is_halved(self):
        global EACH
        before, EACH = EACH, 70
        self.addCleanup(globals().__setitem__, "EACH", before)
        self.one_step(batch_of(1, 4))
        self.assertEqual(self.tried, [4, 2, 2])


if __name__ == "__main__":
    unittest.main()
